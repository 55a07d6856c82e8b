"""Where the relative references of a snapshot begin that a job starts from."""

from __future__ import annotations

import pytest
from tests.unit.stored.job import Job

from streamjob.ids import CheckpointId
from streamjob.protocol.log.restore import ClaimMode, Resolution
from streamjob.stored.start_snapshot import home_of


def found(job: Job, reference: str, kind: str = "checkpoint") -> Resolution:
    return Resolution(
        manifest=job.manifest(1, kind, ()),
        reference=reference,
        record=None,
        fork=False,
        mode=ClaimMode.CLAIM,
        reusable=False,
        last_id=CheckpointId(1),
    )


def test_a_checkpoint_of_the_job_itself_is_read_from_its_own_store(job: Job) -> None:
    assert home_of(found(job, "checkpoints/1-1/manifest.json"), job.store) is job.store


@pytest.mark.parametrize(
    ("place", "kind", "home"),
    [
        ("ns/other/checkpoints/1-1/manifest.json", "checkpoint", "ns/other/"),
        ("copied/manifest.json", "checkpoint", "copied/"),
        ("savepoints/1/manifest.json", "savepoint", "savepoints/1/"),
        ("ns/other/checkpoints/1-1/manifest.json", "savepoint", "ns/other/checkpoints/1-1/"),
    ],
    ids=["another job's checkpoint", "a copied checkpoint", "a savepoint", "a savepoint among checkpoints"],
)
def test_a_snapshot_elsewhere_is_read_from_there(job: Job, place: str, kind: str, home: str) -> None:
    root = job.store.uri.removesuffix("/default/departures/")

    assert home_of(found(job, f"{root}/{place}", kind), job.store).uri == f"{root}/{home}"


def test_a_savepoint_of_the_job_itself_is_read_from_its_directory(job: Job) -> None:
    home = home_of(found(job, "savepoints/1/manifest.json", "savepoint"), job.store)

    assert home.uri == f"{job.store.uri}savepoints/1/"
