"""A job that fails restarts in its process, from the last checkpoint, with what is still held locally."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import FAST, EmbeddedJob, Life, running
from tests.integration.runtime.purchases import (
    MATCHED_SQL,
    TOTALS_SQL,
    Purchases,
    Rows,
    line_rows,
    table_rows,
    write_job,
)
from tests.jobs import python, sql

from streamjob.errors import ExitCode
from streamjob.ids import Key
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.restarts import RestartPolicy
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord
from streamjob.store.local import LocalStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FAULTY = '''
from pathlib import Path

MARKER = Path({marker!r})

def fragile(orders):
    """Fail on one order: once, or for ever."""
    from pyspark.sql.functions import col, udf

    marker, once = str(MARKER), {once!r}

    def check(order):
        from pathlib import Path

        if order == {order!r} and not (once and Path(marker).exists()):
            Path(marker).touch()
            raise ValueError("the goods are on fire")
        return order

    return orders.withColumn("id", udf(check, "string")(col("id")))
'''


class WatchedStore(LocalStore):
    """A local store that remembers which files of state were read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: list[Key] = []

    def get(self, key: Key) -> bytes:
        self._note(key)
        return super().get(key)

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        self._note(key)
        return super().get_range(key, offset, length)

    def download(self, key: Key, target: Path) -> None:
        self._note(key)
        super().download(key, target)

    def _note(self, key: Key) -> None:
        if key.startswith(keys.SHARED_PREFIX):
            self.read.append(key)


@pytest.fixture(scope="module")
def purchases(tmp_path_factory: pytest.TempPathFactory) -> Purchases:
    return Purchases.write(tmp_path_factory.mktemp("purchases"), files=8, rows=60)


@pytest.fixture(scope="module")
def expected(purchases: Purchases, spark: SparkSession) -> Rows:
    return purchases.batch(spark)


def fragile_job(directory: Path, purchases: Purchases, *, order: str, once: bool) -> Path:
    """Write the purchases job with a step that fails on an order."""
    directory.mkdir(exist_ok=True)
    code = FAULTY.format(marker=str(directory / "marker"), once=once, order=order)
    (directory / "steps.py").write_text(code)
    operators = [
        python("checked", "orders", "steps:fragile"),
        sql("matched", ["checked", "payments"], MATCHED_SQL.replace("FROM orders o", "FROM checked o")),
        sql("totals", "matched", TOTALS_SQL),
    ]
    return write_job(directory, purchases.job(operators=operators))


def log_of(root: Path) -> Sequence[LogRecord]:
    return [LogRecord.model_validate_json(file.read_bytes()) for file in sorted((root / "log").glob("*.json"))]


@pytest.mark.core
def test_a_failed_batch_restarts_the_job_from_the_files_of_its_last_checkpoint(
    purchases: Purchases, expected: Rows, spark: SparkSession, tmp_path: Path
) -> None:
    store = WatchedStore(tmp_path / "store")
    file = fragile_job(tmp_path / "job", purchases, order="o300", once=True)

    with running(spark, Life(file=file, store=store, overrides=("checkpointing.numRetained=100",))) as job:
        assert job.wait() is ExitCode.OK
        view = job.control.job()

    assert view.state is JobState.FINISHED
    assert view.restarts == 1
    # The controller compares these paths: while they are the same, the restarted job has completed nothing.
    restored, last, epoch = view.restored_from, view.last_checkpoint, view.epoch
    assert restored is not None
    assert last is not None
    assert epoch is not None
    assert restored.path == last.path.replace(f"/{epoch}-{last.id}/", f"/{epoch - 1}-{restored.id}/")
    assert "the goods are on fire" in (view.failure or "")
    assert {sink.name: sink.records_published for sink in view.sinks} == {
        "table": len(expected),
        "lines": len(expected),
    }
    assert view.records_out is not None
    log = log_of(tmp_path / "store")
    assert {record.epoch for record in log if record.completes} == {1, 2}
    last_of_first = max(record.id or 0 for record in log if record.completes and record.epoch == 1)
    assert view.restored_from is not None
    assert view.restored_from.id == last_of_first
    # Everything was still held locally: nothing came back from the store.
    assert store.read == []
    assert table_rows(spark, file.parent / "table") == expected
    assert line_rows(spark, file.parent / "lines") == expected


def test_a_job_that_fails_again_and_again_ends_once_its_restarts_are_used_up(
    purchases: Purchases, spark: SparkSession, tmp_path: Path
) -> None:
    file = fragile_job(tmp_path / "job", purchases, order="o1", once=False)
    restarts = RestartPolicy(initial_delay=FAST.initial_delay, max_delay=FAST.max_delay, attempts=1)

    with running(spark, Life(file=file, location=str(tmp_path), restarts=restarts)) as job:
        assert job.wait() is ExitCode.FAILED
        view, diagnosis = job.control.job(), job.control.diagnosis()

    assert view.state is JobState.FAILED
    assert view.restarts == 1
    cause = (view.failure or "").splitlines()[0]
    assert cause.endswith(f"ValueError: the goods are on fire ({file.parent / 'steps.py'}:17, in check)")
    assert diagnosis.sentence == f"Failed: {cause}"


def test_a_stop_between_two_restarts_ends_the_job(purchases: Purchases, spark: SparkSession, tmp_path: Path) -> None:
    file = fragile_job(tmp_path / "job", purchases, order="o1", once=False)
    patient = RestartPolicy(initial_delay=600.0, max_delay=600.0)

    job: EmbeddedJob
    with running(spark, Life(file=file, location=str(tmp_path), restarts=patient)) as job:
        job.wait_for(lambda: job.state is JobState.RESTARTING, "a failure")
        assert job.stop() is ExitCode.OK

    assert job.state is JobState.STOPPED


def test_a_query_that_outlives_the_loss_of_its_connection_does_not_block_the_restart(
    purchases: Purchases, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.streaming.query import StreamingQuery

    followed, stop = StreamingQuery.awaitTermination, StreamingQuery.stop
    lost: list[str] = []

    def lose_connection(query: StreamingQuery, *seconds: float) -> bool | None:
        if not lost:
            lost.append("await")
            raise OSError("Too many open files")
        return followed(query, *seconds)  # type: ignore[arg-type]

    def fail_once(query: StreamingQuery) -> None:
        if "stop" not in lost:
            lost.append("stop")
            raise OSError("Too many open files")
        stop(query)

    monkeypatch.setattr(StreamingQuery, "awaitTermination", lose_connection)
    monkeypatch.setattr(StreamingQuery, "stop", fail_once)
    file = write_job(tmp_path / "job", purchases.job())

    with running(spark, Life(file=file, location=str(tmp_path / "store"))) as job:
        job.wait_for(lambda: job.control.job().restarts == 1 and job.state is JobState.RUNNING, "the restart")

    assert lost == ["await", "stop"]
