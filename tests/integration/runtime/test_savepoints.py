"""Savepoints: moved and restored elsewhere, as the end of a job and in its middle; a failed one costs nothing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, finish, life_in, running
from tests.integration.runtime.forks import first_completion, fresh_sinks, published_up_to
from tests.integration.runtime.processes import JobRuns
from tests.integration.runtime.purchases import Purchases, Rows, line_rows, table_rows

from streamjob.client.models import JobState, TriggerView
from streamjob.errors import ExitCode
from streamjob.ids import TriggerId
from streamjob.protocol.coordination.triggers import TriggerState
from streamjob.protocol.log.restore import ClaimMode
from streamjob.snapshot.record import RecordKind
from streamjob.stored.locations import find_snapshot
from streamjob.stored.reading import read_snapshot
from streamjob.stored.verify import verify
from streamjob_runtime.chain.emissions.outputs import Outputs
from streamjob_runtime.checkpointing.ledger import RestoreFrom

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEEP_ALL = ("checkpointing.numRetained=100", "checkpointing.interval=1h")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Purchases:
    return Purchases.write(tmp_path_factory.mktemp("few"), files=8, rows=40)


@pytest.fixture(scope="module")
def expected(few: Purchases, spark: SparkSession) -> Rows:
    return few.batch(spark)


@pytest.fixture
def life(few: Purchases, tmp_path: Path) -> Life:
    """A job of two chains whose channel is soon full."""
    job = few.job(channels={"capacityRecords": 40, "maxBatchRecords": 40})
    job["operators"][0]["chain"] = False
    return life_in(tmp_path, job, overrides=KEEP_ALL)


def outcome(job: EmbeddedJob, trigger_id: str) -> TriggerView:
    """Wait until a request has ended; return what became of it."""

    def ended() -> bool:
        view = job.control.trigger(TriggerId(trigger_id))
        return view is not None and view.state in (TriggerState.COMPLETED, TriggerState.FAILED)

    job.wait_for(ended, f"the end of {trigger_id}")
    view = job.control.trigger(TriggerId(trigger_id))
    assert view is not None
    return view


def stop_behind_savepoint(job: EmbeddedJob, location: str | None = None) -> None:
    job.control.stop(savepoint=True, location=location, drain=False, trigger_id=TriggerId("stop"))


@pytest.mark.timeout(600)
def test_a_savepoint_is_moved_and_restored_under_another_name(
    life: Life, expected: Rows, spark: SparkSession, tmp_path: Path
) -> None:
    with running(spark, life) as job:
        job.wait_for_batches()
        job.control.trigger_savepoint(str(tmp_path / "mine"), TriggerId("s"))
        taken = outcome(job, "s")
        assert taken.state is TriggerState.COMPLETED, taken.failure
        assert job.wait() is ExitCode.OK
    sinks = life.file.parent
    (directory,) = (tmp_path / "mine").iterdir()
    assert directory.name.startswith(f"job-{taken.checkpoint}-")
    shutil.move(directory, moved := tmp_path / "moved" / "anywhere")

    place = find_snapshot(str(moved))
    assert place is not None
    found = read_snapshot(place)
    assert found.manifest is not None
    assert (found.manifest.kind, verify([found]).whole) == ("savepoint", True)
    assert not any("://" in name for name in found.manifest.objects())

    earlier = published_up_to(spark, sinks / "lines", taken.checkpoint or 0, tmp_path / "earlier")
    for mode in (ClaimMode.NO_CLAIM, ClaimMode.CLAIM):
        into = tmp_path / mode.value
        other = replace(
            life,
            location=str(tmp_path / "others"),
            name=f"other-{mode.value}",
            overrides=(*KEEP_ALL, *fresh_sinks(into)),
            restore_from=RestoreFrom(str(moved.as_uri()), mode),
        )
        finish(spark, other)
        assert earlier + line_rows(spark, into / "lines") == expected, mode
        assert earlier + table_rows(spark, into / "table") == expected, mode
        first: Any = first_completion(tmp_path / "others" / "default" / other.name)
        assert all("moved" not in file["object"] for chain in first["chains"] for file in chain["files"])
        assert verify([read_snapshot(place)]).whole


@pytest.mark.timeout(600)
def test_a_job_stops_behind_its_savepoint_and_goes_on_from_it(life: Life, expected: Rows, spark: SparkSession) -> None:
    runs = JobRuns(life.file, Path(life.location), "job")
    with running(spark, life) as job:
        job.wait_for_batches()
        stop_behind_savepoint(job)
        assert job.wait() is ExitCode.OK
        assert job.state is JobState.STOPPED
    last = runs.completions()[-1]
    assert last.kind is RecordKind.SAVEPOINT
    assert str(last.manifest).startswith("savepoints/job-")

    with running(spark, life) as job:
        assert job.wait() is ExitCode.OK
        restored = job.control.job().restored_from
    assert restored is not None
    assert restored.id == last.id
    assert line_rows(spark, life.file.parent / "lines") == expected
    assert table_rows(spark, life.file.parent / "table") == expected


@pytest.mark.timeout(600)
def test_a_savepoint_that_fails_leaves_the_job_running(
    life: Life, expected: Rows, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "occupied").write_text("")
    nowhere = str(tmp_path / "occupied" / "savepoints")
    with running(spark, life) as job:
        job.wait_for_batches()
        stop_behind_savepoint(job, nowhere)
        failed = outcome(job, "stop")
        assert failed.state is TriggerState.FAILED
        assert "occupied" in str(failed.failure)

        job.wait_for(lambda: job.state is not JobState.STOPPING, "the job to go on")
        assert job.wait() is ExitCode.OK
        assert job.state is JobState.FINISHED
        assert job.runner.coordination.lifecycle.restarts == 0
    assert line_rows(spark, life.file.parent / "lines") == expected


@pytest.mark.timeout(600)
def test_a_job_whose_stopping_savepoint_is_recorded_ends_with_it_though_publishing_fails_at_first(
    few: Purchases, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_file = few.job(operators=[])
    job_file["sources"], job_file["sinks"] = job_file["sources"][:1], [{**job_file["sinks"][1], "input": "orders"}]
    life = life_in(tmp_path, job_file, overrides=KEEP_ALL)
    runs = JobRuns(life.file, Path(life.location), "job")
    commit, failures = Outputs.commit, [OSError("the disk is away")]

    def fail_once(self: Outputs, *arguments: Any) -> None:
        if failures:
            raise failures.pop()
        commit(self, *arguments)

    with running(spark, life) as job:
        job.wait_for_batches()
        monkeypatch.setattr(Outputs, "commit", fail_once)
        stop_behind_savepoint(job)
        assert job.wait() is ExitCode.OK
        assert job.state is JobState.STOPPED
        assert job.runner.coordination.lifecycle.restarts == 1
    assert not failures
    last = runs.completions()[-1]
    assert last.kind is RecordKind.SAVEPOINT
    assert (life.file.parent / "lines" / "_streamjob" / "published" / f"{last.id}.json").exists()
