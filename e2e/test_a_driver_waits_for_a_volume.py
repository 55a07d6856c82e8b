"""A driver's pod cannot start, because a volume or an image is missing: the status names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.harness.cluster import Cluster
from e2e.harness.controller import StreamJobs, condition
from tests.servers.s3 import S3Server

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

NAME = "visits"


@pytest.fixture
def s3(cluster: Cluster, tmp_path: Path) -> Iterator[S3Server]:
    """A server of the scenario's own, which it may stop."""
    with S3Server(tmp_path / "s3", host=cluster.way_back) as server:
        yield server


def apply_with_volume(jobs: StreamJobs, source: dict[str, object], **spec: Any) -> None:
    """Apply the job with one more volume, which its driver mounts."""
    driver = jobs.namespace.driver
    mounts = [*driver["volumeMounts"], {"name": "keys", "mountPath": "/keys"}]
    volumes = [*jobs.namespace.volumes, {"name": "keys", **source}]
    jobs.apply(NAME, volumes=volumes, driver={**driver, "volumeMounts": mounts}, **spec)


def wait_for_reason(jobs: StreamJobs, reason: str) -> str:
    """Wait until the job is not ready for a reason, and return the message."""
    status = jobs.wait(NAME, lambda status: condition(status, "Ready")["reason"] == reason, what=reason)
    return str(condition(status, "Ready")["message"])


@pytest.mark.parametrize(
    ("source", "missing"),
    [({"secret": {"secretName": "absent"}}, 'secret "absent"'), ({"configMap": {"name": "absent"}}, '"absent"')],
    ids=["secret", "config map"],
)
def test_the_status_names_the_volume_and_the_object_that_is_missing(
    jobs: StreamJobs, source: dict[str, object], missing: str
) -> None:
    apply_with_volume(jobs, source)

    message = wait_for_reason(jobs, "FailedMount")

    assert f"{NAME}-driver-1" in message
    assert 'volume "keys"' in message
    assert missing in message
    jobs.wait_for_events(NAME, "FailedMount")


def test_the_status_names_the_init_container_whose_image_is_missing(jobs: StreamJobs) -> None:
    container = {"name": "prepare", "image": "localhost/absent:1", "imagePullPolicy": "Never"}
    jobs.apply(NAME, driver={**jobs.namespace.driver, "initContainers": [container]})

    assert wait_for_reason(jobs, "ErrImageNeverPull").startswith("prepare: ")


def test_a_deletion_that_waits_for_the_store_says_so_and_ends_when_it_is_back(jobs: StreamJobs, s3: S3Server) -> None:
    if not s3.is_versitygw:
        pytest.skip("moto forgets what it has stored")
    apply_with_volume(jobs, {"secret": {"secretName": "absent"}}, deletionPolicy="Delete")
    wait_for_reason(jobs, "FailedMount")

    s3.end()
    jobs.namespace.delete("StreamJob", NAME)

    message = wait_for_reason(jobs, "StoreUnreachable")
    assert "take its finalizer streamjob.io/finalizer off" in message
    assert "are kept if that takes much longer" in message
    s3.start()
    jobs.namespace.wait_gone("StreamJob", NAME)
