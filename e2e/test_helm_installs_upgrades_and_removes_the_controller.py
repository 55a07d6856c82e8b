"""Helm installs the controller, which runs the job of the quick start; the job outlives an upgrade, and the release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from e2e.harness.cluster import ROOT, Cluster, Object, Where
from e2e.harness.helm import Release
from e2e.harness.namespace import Namespace

pytestmark = pytest.mark.timeout(1500)

QUICK_START = ROOT / "examples" / "kubernetes" / "quick-start"
JOB = "views"


def example(name: str, namespace: Namespace) -> Object:
    """Return a resource of the quick start, with the image of this run."""
    thing: Object = yaml.safe_load((QUICK_START / name).read_text())
    thing["metadata"]["namespace"] = namespace.name
    for container in thing["spec"].get("containers", ()):
        container["image"] = namespace.image
    return thing


def condition(thing: Object, kind: str) -> str | None:
    """Return the status of a condition that speaks of the newest generation; None if there is none."""
    newest = thing["metadata"]["generation"]
    found = (each for each in thing.get("status", {}).get("conditions", ()) if each["type"] == kind)
    return next((each["status"] for each in found if each.get("observedGeneration") == newest), None)


def wait_ready(namespace: Namespace) -> Object:
    """Wait until the job is ready, and return it."""
    return namespace.wait(
        "StreamJob", JOB, lambda job: condition(job, "Ready") == "True", within=240, what="Ready=True"
    )


def driver(namespace: Namespace) -> Object:
    """Return the job's only pod."""
    (pod,) = namespace.all("Pod", f"streamjob.io/name={JOB}")
    return pod


def checkpoint(job: Object) -> int:
    """Return the number of the job's last checkpoint."""
    return int(job["status"]["checkpoint"]["lastCompleted"]["id"])


@pytest.fixture
def release(release: Release, namespace: Namespace) -> Iterator[Release]:
    """A release whose job is gone before it is."""
    yield release
    namespace.delete("StreamJob", JOB)
    namespace.wait_gone("StreamJob", JOB)


def test_a_job_outlives_an_upgrade_and_the_release_and_is_deleted_by_the_next(
    cluster: Cluster, namespace: Namespace, release: Release
) -> None:
    values: dict[str, Any] = {"watchNamespaces": [namespace.name], "reconcileInterval": "2s"}
    release.install(values)
    cluster.refresh()
    cluster.create(example("traffic.yaml", namespace))
    cluster.create(example("job.yaml", namespace))
    first = wait_ready(namespace)
    pod = driver(namespace)

    release.install({**values, "replicas": 2, "logLevel": "debug"})
    later = namespace.wait(
        "StreamJob", JOB, lambda job: checkpoint(job) > checkpoint(first), what="checkpoint after the upgrade"
    )
    assert driver(namespace)["metadata"]["uid"] == pod["metadata"]["uid"]
    assert "forbidden" not in release.logs(cluster).lower()

    release.uninstall()
    assert cluster.get(Where("CustomResourceDefinition", "streamjobs.streamjob.io")) is not None
    assert namespace.get("StreamJob", JOB) is not None
    assert driver(namespace)["metadata"]["uid"] == pod["metadata"]["uid"]

    release.install(values)
    namespace.wait(
        "StreamJob", JOB, lambda job: checkpoint(job) > checkpoint(later), what="checkpoint after the next installation"
    )
    assert driver(namespace)["metadata"]["uid"] == pod["metadata"]["uid"]
    assert driver(namespace)["status"]["containerStatuses"][0]["restartCount"] == 0

    namespace.delete("StreamJob", JOB)
    namespace.wait_gone("StreamJob", JOB)
    namespace.wait_gone("Pod", pod["metadata"]["name"])
    rows = namespace.rows("report")
    assert rows
    assert len(rows) == len({(row["moment"], row["page"]) for row in rows})
