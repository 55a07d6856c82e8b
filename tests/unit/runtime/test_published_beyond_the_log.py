"""Each start compares what the sinks have published with the job's log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from tests.unit.stored.job import JOB, Job

from streamjob.errors import ExitCode
from streamjob.ids import Attempt, BatchId, CheckpointId, Epoch, LogSeq, OperatorUid, Owner
from streamjob.protocol.log.ownership import Identity
from streamjob.sink import KnowsPublished, SinkContext, Staged
from streamjob.snapshot import keys
from streamjob_runtime.chain.emissions.outputs import Outputs
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom
from streamjob_runtime.job.output_recovery import PublishedBeyondTheLog, check_published
from streamjob_runtime.sinks.bucket.records import CommitRecords as BucketRecords
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink

OUT = OperatorUid("out")


@dataclass
class Published:
    """A sink that has published a checkpoint."""

    newest: int | None

    def open(self, context: SinkContext) -> None: ...

    def stage(self, batch: Any, batch_id: BatchId) -> Staged:
        return Staged(None)

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None: ...

    def newest_published(self) -> CheckpointId | None:
        return None if self.newest is None else CheckpointId(self.newest)

    def abort(self) -> None: ...

    def close(self) -> None: ...


def start(job: Job, published: int | None, wanted: str = "latest") -> Ledger:
    identity = Identity(job=JOB, owner=Owner("start"), attempt=Attempt(1))
    ledger = Ledger.claim(job.store, identity, lambda: 1.0, 3)
    resolution = ledger.resolve(RestoreFrom(wanted))
    check_published(ledger, Outputs({OUT: Published(published)}), resolution, wanted)
    return ledger


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job that has completed three checkpoints, and pruned nothing of its log."""
    job = Job(tmp_path)
    for number in (1, 2, 3):
        job.complete(number, *job.upload(state=b"state %d" % number))
    return job


def lose_the_newest_record(job: Job) -> None:
    job.store.delete([keys.log_record(LogSeq(3)), keys.record_copy(LogSeq(3))])


@pytest.mark.parametrize("published", [None, 1, 3])
def test_a_log_that_knows_what_was_published_starts(job: Job, published: int | None) -> None:
    assert start(job, published).log.last_id == 3


def test_a_newest_record_that_is_lost_with_its_copy_is_noticed_and_the_repair_continues_without_repeating(
    job: Job,
) -> None:
    lose_the_newest_record(job)
    with pytest.raises(PublishedBeyondTheLog) as refused:
        start(job, 3)

    assert refused.value.exit_code == ExitCode.CANNOT_RESTORE
    assert f"sink out has published checkpoint 3, and the log at {job.store.uri} ends with checkpoint 2" in str(
        refused.value
    )
    assert "its record of checkpoint 3 is lost with its copy" in refused.value.what
    assert "log repair" in refused.value.fix
    assert "--newest checkpoints/1-3/manifest.json --yes" in refused.value.fix
    assert "--from checkpoints/1-2/manifest.json makes a fork" in refused.value.fix


def test_of_several_manifests_of_a_checkpoint_the_one_of_the_highest_epoch_is_named(job: Job) -> None:
    lose_the_newest_record(job)
    for epoch in (10, 2):
        job.store.put(keys.manifest(Epoch(epoch), CheckpointId(3)), b"{}")
    with pytest.raises(PublishedBeyondTheLog) as refused:
        start(job, 3)

    assert "--newest checkpoints/10-3/manifest.json --yes" in refused.value.fix


def test_a_store_from_an_older_backup_or_at_another_place_is_noticed(job: Job, tmp_path: Path) -> None:
    with pytest.raises(PublishedBeyondTheLog, match="bring back the newest records; --from checkpoints/1-3/manifest"):
        start(job, 50)
    with pytest.raises(PublishedBeyondTheLog, match=r"names no checkpoint(.|\n)*--from none makes a fork"):
        start(Job(tmp_path / "elsewhere"), 50)


@pytest.mark.parametrize("wanted", ["none", "checkpoints/1-3/manifest.json"])
def test_a_fork_that_a_person_has_chosen_starts_and_is_not_asked_again_once_it_has_a_checkpoint(
    job: Job, wanted: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        ledger = start(job, 50, wanted)
    assert "rows published since are published again" in caplog.text
    assert ledger.log.last_id == 50

    ledger.log.claim.committed(CheckpointId(3))
    ledger.log.begin(CheckpointId(51))
    manifest = job.manifest(51, "checkpoint", ()).model_copy(update={"epoch": ledger.epoch})
    ledger.complete(manifest)
    assert start(job, 50).log.last_id == 51


def test_the_newest_record_counts_and_not_the_highest_number(tmp_path: Path) -> None:
    """Another location of the same job has begun at 1 again, with an older version."""
    sink = FileSink("csv", LocalPlace(tmp_path))
    sink.open(SinkContext("departures", "default", OUT, Epoch(1), {}))
    assert sink.newest_published() is None
    for checkpoint, identity in ((50, "a"), (3, "b")):
        directory = f"_streamjob/staged/1/{checkpoint}-{identity}"
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "part-00000-x.csv").write_bytes(b"rows")
        files: list[JsonValue] = [{"path": "part-00000-x.csv", "size": 4}]
        sink.commit(CheckpointId(checkpoint), [{"directory": directory, "id": identity, "files": files}])

    assert isinstance(sink, KnowsPublished)
    assert sink.newest_published() == 3


def test_in_a_bucket_too(job: Job) -> None:
    times = iter((1.0, 2.0))
    clock: Callable[[], float] = lambda: next(times)  # noqa: E731
    records = BucketRecords(job.store, clock)
    assert records.newest() is None
    records.add(CheckpointId(50), ["a"])
    records.add(CheckpointId(3), ["b"])

    assert records.newest() == 3
