"""Operators with processing time: the end of input does not wait for it, as in Flink."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import Life, life_in, running
from tests.jobs import files, job_file, python, sink

from streamjob.errors import ExitCode
from streamjob.ids import TriggerId
from streamjob.protocol.lifecycle import JobState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES, ROWS = 3, 4


def ticking(rows: DataFrame) -> DataFrame:
    """Return the rows; each key has a timer in processing time that sets the next one, and one that is far away."""
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Ticking(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.count = handle.getValueState("count", "n BIGINT", 3_600_000)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            now = timerValues.getCurrentProcessingTimeInMs()
            self.handle.registerTimer(now + 1)
            self.handle.registerTimer(now + 3_600_000)
            for row in rows:
                self.count.update(((self.count.get() or (0,))[0] + 1,))
                yield Row(k=key[0], n=row["n"])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
            return iter(())

        def close(self) -> None:
            pass

    return rows.groupBy("k").transformWithState(Ticking(), "k STRING, n BIGINT", "append", "processingTime")


def waiting(rows: DataFrame) -> DataFrame:
    """Return the rows; each key has a timeout in processing time that is far away."""

    def wait(key: Any, frames: Any, state: Any) -> Any:
        for frame in frames:
            state.update((len(frame),))
            state.setTimeoutDuration(3_600_000)
            yield frame.assign(k=key[0])[["k", "n"]]

    return rows.groupBy("k").applyInPandasWithState(
        wait, "k STRING, n BIGINT", "n BIGINT", "append", "ProcessingTimeTimeout"
    )


def life(directory: Path, *, bounded: bool) -> Life:
    """Write a job with two chains, both with processing time, and its input; return its life."""
    (directory / "in").mkdir()
    for file in range(FILES):
        lines = [json.dumps({"k": f"k{row}", "n": file * ROWS + row}) for row in range(ROWS)]
        (directory / "in" / f"{file}.json").write_text("\n".join(lines))
    spec = job_file(
        python("ticking", "rows", f"{__name__}:ticking"),
        python("waiting", "ticking", f"{__name__}:waiting", chain=False),
        sources=[files("rows", directory / "in", "k STRING, n BIGINT", bounded=bounded)],
        sinks=[sink("waiting", "json", directory / "out")],
        maxParallelism=2,
        checkpointing={"interval": "1s"},
    )
    return life_in(directory, spec)


def numbers(directory: Path) -> list[int]:
    """Return the published numbers, ascending."""
    files = (directory / "out").glob("*.json")
    return sorted(json.loads(line)["n"] for file in files for line in file.read_text().splitlines())


def test_a_bounded_job_does_not_wait_for_timers_timeouts_and_times_to_live_in_processing_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    one = life(tmp_path, bounded=True)
    with running(spark, one) as first:
        assert first.wait() is ExitCode.OK
        assert first.state is JobState.FINISHED
    assert numbers(tmp_path) == list(range(FILES * ROWS))

    with running(spark, one) as again:
        assert again.wait() is ExitCode.OK
        assert again.state is JobState.FINISHED
    assert numbers(tmp_path) == list(range(FILES * ROWS))


def test_a_drained_job_does_not_wait_for_processing_time_and_reads_on_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    one = life(tmp_path, bounded=False)
    with running(spark, one) as drained:
        drained.wait_for(lambda: len(numbers(tmp_path)) == FILES * ROWS, "all rows")
        drained.control.stop(savepoint=True, location=None, drain=True, trigger_id=TriggerId("drain"))
        assert drained.wait() is ExitCode.OK
        assert drained.state is JobState.STOPPED
    assert numbers(tmp_path) == list(range(FILES * ROWS))

    more = [json.dumps({"k": f"k{row}", "n": FILES * ROWS + row}) for row in range(ROWS)]
    (tmp_path / "in" / "more.json").write_text("\n".join(more))
    with running(spark, one) as resumed:
        resumed.wait_for(lambda: len(numbers(tmp_path)) == (FILES + 1) * ROWS, "the rows that came later")
        resumed.control.stop(savepoint=True, location=None, drain=True, trigger_id=TriggerId("again"))
        assert resumed.wait() is ExitCode.OK
    assert numbers(tmp_path) == list(range((FILES + 1) * ROWS))


def test_a_run_up_to_what_is_there_does_not_wait_for_processing_time_and_the_next_one_reads_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    one = replace(life(tmp_path, bounded=False), available_now=True)
    for number in range(2):
        if number:
            more = [json.dumps({"k": f"k{row}", "n": FILES * ROWS + row}) for row in range(ROWS)]
            (tmp_path / "in" / "more.json").write_text("\n".join(more))
        with running(spark, one) as each:
            assert each.wait() is ExitCode.OK
            assert each.state is JobState.STOPPED
        assert numbers(tmp_path) == list(range((FILES + number) * ROWS))
