"""A flush at end of input brings out all that Spark still holds, as the same query over the whole input would give."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pytest
from pyspark.sql import Row, functions
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from tests.integration.core import core

from streamjob_runtime.spark.checkpoint_dir.forced_batch import force_flush, needs_another_flush

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from tests.integration.spark_checkpoint.conftest import Lab, Run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Query = Callable[["DataFrame", "DataFrame"], "DataFrame"]
NEAR = "k = k2 AND ts2 BETWEEN ts - INTERVAL 8 seconds AND ts + INTERVAL 8 seconds"


def fill(lab: Lab) -> None:
    """Two inputs without late rows, whose last rows are too young to fire without a flush."""
    for i in range(6):
        at = [f"00:{(second := 100 + 6 * i + d) // 60:02d}:{second % 60:02d}" for d in range(5)]
        lab.put([("a", at[0], i), ("b", at[1], 10 * i), (f"k{i // 3}", at[2], i), ("a", at[0], i)])
        lab.put([("a", at[3], 100 + i)] + ([("b", at[4], 200 + i)] if i % 2 else []), "right")


def window_aggregation(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.groupBy(functions.window("ts", "10 seconds"), "k").agg(functions.sum("v").alias("s"))


def sliding_windows(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.groupBy(functions.window("ts", "20 seconds", "5 seconds")).agg(functions.sum("v").alias("s"))


def session_windows(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.groupBy(functions.session_window("ts", "7 seconds"), "k").count()


def drop_duplicates(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.dropDuplicates(["k", "ts"])


def drop_duplicates_within_watermark(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.dropDuplicatesWithinWatermark(["k", "ts"])


def _join(left: DataFrame, right: DataFrame, how: str) -> DataFrame:
    other = right.selectExpr("k k2", "ts ts2", "v v2")
    return left.join(other, functions.expr(NEAR), how)


def inner_join(left: DataFrame, right: DataFrame) -> DataFrame:
    return _join(left, right, "inner")


def left_outer_join(left: DataFrame, right: DataFrame) -> DataFrame:
    return _join(left, right, "leftOuter")


def right_outer_join(left: DataFrame, right: DataFrame) -> DataFrame:
    return _join(left, right, "rightOuter")


def full_outer_join(left: DataFrame, right: DataFrame) -> DataFrame:
    return _join(left, right, "fullOuter")


def left_semi_join(left: DataFrame, right: DataFrame) -> DataFrame:
    return _join(left, right, "leftSemi")


def window_into_window(left: DataFrame, right: DataFrame) -> DataFrame:
    small = left.groupBy(functions.window("ts", "10 seconds"), "k").agg(functions.sum("v").alias("s"))
    return small.groupBy(functions.window(functions.window_time("window"), "30 seconds")).agg(
        functions.sum("s").alias("s")
    )


def windows_into_outer_join(left: DataFrame, right: DataFrame) -> DataFrame:
    ours = left.groupBy(functions.window("ts", "10 seconds"), "k").agg(functions.sum("v").alias("s"))
    theirs = right.groupBy(functions.window("ts", "10 seconds"), "k").agg(functions.sum("v").alias("t"))
    return ours.join(theirs, ["window", "k"], "leftOuter")


def outer_join_into_window(left: DataFrame, right: DataFrame) -> DataFrame:
    joined = _join(left, right, "leftOuter")
    return joined.groupBy(functions.window("ts", "10 seconds"), "k").agg(functions.count("v2").alias("n"))


def dedup_into_session_into_window(left: DataFrame, right: DataFrame) -> DataFrame:
    sessions = left.dropDuplicates(["k", "ts"]).groupBy(functions.session_window("ts", "7 seconds"), "k").count()
    time_of = functions.window(functions.window_time("session_window"), "1 minute")
    return sessions.groupBy(time_of).agg(functions.sum("count").alias("n"))


AS_BATCH: list[Query] = [
    window_aggregation,
    sliding_windows,
    session_windows,
    drop_duplicates,
    inner_join,
    left_outer_join,
    right_outer_join,
    full_outer_join,
    left_semi_join,
    window_into_window,
    windows_into_outer_join,
    outer_join_into_window,
    dedup_into_session_into_window,
]


@pytest.mark.parametrize(
    "query",
    core(AS_BATCH, full_outer_join, kept=[session_windows, dedup_into_session_into_window, windows_into_outer_join]),
    ids=lambda query: query.__name__,
)
def test_with_a_flush_a_stream_gives_what_the_batch_gives(lab: Lab, query: Query) -> None:
    fill(lab)
    checkpoint = lab.directory()

    def make() -> DataFrame:
        return query(lab.input(), lab.input("right"))

    streamed = lab.run(make(), checkpoint)
    flushed = flush(lab, make, checkpoint)

    expected = sorted(tuple(map(str, row)) for row in query(lab.batch_input(), lab.batch_input("right")).collect())
    assert sorted(streamed.all_rows() + flushed[0].all_rows()) == expected
    assert_nothing_is_left(flushed[-1])
    assert not any(run.all_rows() for run in flushed[1:]), "one flush was not enough"


def test_a_flush_empties_the_state_of_drop_duplicates_within_watermark(lab: Lab) -> None:
    fill(lab)
    checkpoint = lab.directory()

    def make() -> DataFrame:
        return drop_duplicates_within_watermark(lab.input(), lab.input("right"))

    lab.run(make(), checkpoint)
    flushed = flush(lab, make, checkpoint)

    assert_nothing_is_left(flushed[-1])
    assert len(flushed) == 1


def test_a_flush_leaves_nothing_for_the_next_start(lab: Lab) -> None:
    fill(lab)
    checkpoint = lab.directory()

    def make() -> DataFrame:
        return window_into_window(lab.input(), lab.input("right"))

    lab.run(make(), checkpoint)
    flush(lab, make, checkpoint)

    assert lab.run(make(), checkpoint).all_rows() == []


@pytest.mark.parametrize("again", [False, True], ids=["once", "with a timeout set in a timeout"])
def test_a_flush_fires_event_time_timeouts(lab: Lab, again: bool) -> None:
    checkpoint = lab.directory()
    lab.put([("a", "00:00:00", 1), ("a", "00:00:01", 2), ("b", "00:00:02", 5)])

    def total(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        held = cast(Any, state.get)[0] if state.exists else 0
        if state.hasTimedOut:
            yield pd.DataFrame({"k": [key[0]], "total": [held]})
            if again and held > 0:
                state.update((-held,))
                state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 3_600_000)
            else:
                state.remove()
            return
        for frame in frames:
            held += int(frame["v"].sum())
            newest = int(frame["ts"].max().timestamp() * 1000)
        state.update((held,))
        state.setTimeoutTimestamp(newest + 60_000)

    def make() -> DataFrame:
        timeout = GroupStateTimeout.EventTimeTimeout
        grouped = lab.input().groupBy("k")
        return grouped.applyInPandasWithState(total, "k string, total long", "total long", "append", timeout)

    assert lab.run(make(), checkpoint).all_rows() == []
    flushed = flush(lab, make, checkpoint)

    rows = [row for run in flushed for row in run.all_rows()]
    assert rows == [("a", "3"), ("b", "5"), *([("a", "-3"), ("b", "-5")] if again else [])]
    assert_nothing_is_left(flushed[-1])


@pytest.mark.parametrize("generations", [1, 4], ids=["once", "with timers registered by timers"])
def test_a_flush_fires_event_time_timers(lab: Lab, generations: int) -> None:
    checkpoint = lab.directory()
    lab.put([("a", "00:00:00", 1), ("a", "00:00:01", 2), ("b", "00:00:02", 5)])

    class Remind(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.values = handle.getListState("values", "v bigint")
            self.fired = handle.getMapState("fired", "what string", "n bigint")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            for row in rows:
                self.values.appendValue((row["v"],))
                newest = int(row["ts"].timestamp() * 1000)
            self.fired.updateValue(("timers",), (0,))
            self.handle.registerTimer(newest + 60_000)
            return iter([])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
            count = cast(Any, self.fired.getValue(("timers",)))[0] + 1
            yield Row(k=key[0], generation=count, held=str(sorted(value[0] for value in self.values.get())))
            if count < generations:
                self.fired.updateValue(("timers",), (count,))
                self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 3_600_000)
            else:
                self.values.clear()
                self.fired.clear()

        def close(self) -> None:
            pass

    def make() -> DataFrame:
        schema = "k string, generation bigint, held string"
        return lab.input().groupBy("k").transformWithState(Remind(), schema, "append", "eventtime")

    assert lab.run(make(), checkpoint).all_rows() == []
    flushed = flush(lab, make, checkpoint)

    rows = sorted(row for run in flushed for row in run.all_rows())
    assert rows == [(k, str(g), held) for k, held in (("a", "[1, 2]"), ("b", "[5]")) for g in range(1, generations + 1)]
    assert state_rows(lab, checkpoint) == 0


def test_a_timer_that_only_registers_a_timer_asks_for_another_flush(lab: Lab) -> None:
    checkpoint = lab.directory()
    lab.put([("a", "00:00:00", 1)])

    class Echo(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            self.handle.registerTimer(1_800_000_000_000)
            return iter([])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
            if expiredTimerInfo.getExpiryTimeInMs() == 1_800_000_000_000:
                self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 3_600_000)
                yield Row(k=key[0], what="first")
            else:
                yield Row(k=key[0], what="second")

        def close(self) -> None:
            pass

    def make() -> DataFrame:
        return lab.input().groupBy("k").transformWithState(Echo(), "k string, what string", "append", "eventtime")

    lab.run(make(), checkpoint)
    flushed = flush(lab, make, checkpoint)

    assert [run.all_rows() for run in flushed] == [[("a", "first")], [("a", "second")]]


def flush(lab: Lab, make: Callable[[], DataFrame], checkpoint: Path) -> list[Run]:
    runs: list[Run] = []
    while True:
        batch = force_flush(checkpoint, int(time.time() * 1000))
        assert batch is not None
        run = lab.run(make(), checkpoint)
        assert list(run.rows) == [batch]
        runs.append(run)
        if not needs_another_flush(run.operators(batch)):
            return runs
        assert len(runs) < 10, run.operators(batch)


def assert_nothing_is_left(run: Run) -> None:
    for operator in run.operators(max(run.rows)):
        assert operator["numRowsTotal"] == 0, operator


def state_rows(lab: Lab, checkpoint: Path) -> int:
    """Rows of list, map and timer state; the counter of transformWithState counts other things too."""
    return sum(
        lab.spark.read.format("statestore").options(**options).load(str(checkpoint)).count()
        for options in ({"stateVarName": "values"}, {"stateVarName": "fired"}, {"readRegisteredTimers": "true"})
    )
