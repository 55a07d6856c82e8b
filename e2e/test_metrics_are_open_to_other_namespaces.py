"""Prometheus, which is in another namespace, reads a driver's metrics without a token; the control API keeps it out."""

from __future__ import annotations

import pytest
from e2e.harness.controller import StreamJobs
from e2e.harness.namespace import Namespace
from e2e.harness.visits import visits

from streamjob_operator.objects.names import CONTROL_PORT, METRICS_PORT

pytestmark = pytest.mark.timeout(600)

NAME = "visits"


def answer(namespace: Namespace, url: str) -> tuple[int, str]:
    """Return how a server answers a pod of a namespace that shows no token."""
    script = f"""
import urllib.error, urllib.request
try:
    with urllib.request.urlopen({url!r}, timeout=20) as found:
        print(found.status, found.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
    status, _, body = namespace.run(script).partition(" ")
    return int(status), body


def test_a_pod_of_another_namespace_reads_the_metrics_and_nothing_more(jobs: StreamJobs, other: Namespace) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    jobs.wait_until_ready(NAME)
    (driver,) = jobs.namespace.all("Pod", f"streamjob.io/name={NAME}")
    address = driver["status"]["podIP"]

    status, body = answer(other, f"http://{address}:{METRICS_PORT}/metrics")
    assert status == 200
    assert "streamjob_" in body
    assert answer(other, f"http://{address}:{CONTROL_PORT}/v1/job")[0] == 401
