"""A query restarted from the files of one batch alone goes on as if it had not been stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pytest
from tests.integration.core import core

from streamjob.ids import BatchId
from streamjob.store.hashing import file_sha256
from streamjob_runtime.spark.checkpoint_dir.forced_batch import force_batch
from streamjob_runtime.spark.checkpoint_dir.hold import Hold, hold
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from tests.integration.spark_checkpoint.conftest import Lab, Run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def window_aggregation(lab: Lab) -> DataFrame:
    from pyspark.sql import functions

    grouped = (
        lab.input()
        .groupBy(functions.window("ts", "10 seconds"), "k")
        .agg(functions.count("*").alias("n"), functions.sum("v").alias("s"))
    )
    return grouped.selectExpr("cast(window.start as string) w", "k", "n", "s")


def drop_duplicates(lab: Lab) -> DataFrame:
    return lab.input().dropDuplicates(["k", "ts"])


def drop_duplicates_within_watermark(lab: Lab) -> DataFrame:
    return lab.input().dropDuplicatesWithinWatermark(["k"])


def _join(lab: Lab, how: str) -> DataFrame:
    from pyspark.sql import functions

    right = lab.input("right").selectExpr("k k2", "ts ts2", "v v2")
    near = functions.expr("k = k2 AND ts2 BETWEEN ts - INTERVAL 8 seconds AND ts + INTERVAL 8 seconds")
    return lab.input().join(right, near, how).select("k", "ts", "v", "v2")


def inner_join(lab: Lab) -> DataFrame:
    return _join(lab, "inner")


def left_outer_join(lab: Lab) -> DataFrame:
    return _join(lab, "leftOuter")


def session_windows(lab: Lab) -> DataFrame:
    from pyspark.sql import functions

    sessions = lab.input().groupBy(functions.session_window("ts", "7 seconds"), "k").count()
    return sessions.selectExpr(
        "cast(session_window.start as string) b", "cast(session_window.end as string) e", "k", "count"
    )


def apply_in_pandas_with_state(lab: Lab) -> DataFrame:
    from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

    def count(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        seen = cast(Any, state.get)[0] if state.exists else 0
        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"k": [key[0]], "what": ["timeout"], "n": [seen]})
            return
        newest = 0
        for frame in frames:
            seen += len(frame)
            newest = max(newest, int(frame["ts"].max().timestamp() * 1000))
        state.update((seen,))
        state.setTimeoutTimestamp(max(newest, state.getCurrentWatermarkMs()) + 9000)
        yield pd.DataFrame({"k": [key[0]], "what": ["rows"], "n": [seen]})

    return (
        lab.input()
        .groupBy("k")
        .applyInPandasWithState(
            count, "k string, what string, n long", "n long", "append", GroupStateTimeout.EventTimeTimeout
        )
    )


def transform_with_state(lab: Lab) -> DataFrame:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Remember(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.values = handle.getListState("values", "v bigint")
            self.counts = handle.getMapState("counts", "v bigint", "n bigint")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            newest = 0
            for row in rows:
                self.values.appendValue((row["v"],))
                parity = (row["v"] % 2,)
                seen = cast(Any, self.counts.getValue(parity))[0] if self.counts.containsKey(parity) else 0
                self.counts.updateValue(parity, (seen + 1,))
                newest = max(newest, int(row["ts"].timestamp() * 1000))
            self.handle.registerTimer(newest + 9000)
            yield self._row(key, "rows")

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
            yield self._row(key, f"timer {expiredTimerInfo.getExpiryTimeInMs()}")
            self.values.clear()
            self.counts.clear()

        def _row(self, key: Any, what: str) -> Row:
            values = sorted(value[0] for value in self.values.get()) if self.values.exists() else []
            counts = sorted((k[0], n[0]) for k, n in self.counts.iterator()) if self.counts.exists() else []
            return Row(k=key[0], what=what, held=f"{values} {counts}")

        def close(self) -> None:
            pass

    return (
        lab.input()
        .groupBy("k")
        .transformWithState(Remember(), "k string, what string, held string", "append", "eventtime")
    )


OPERATORS: dict[str, tuple[Callable[[Lab], DataFrame], dict[str, str]]] = {
    "window aggregation": (window_aggregation, {}),
    "dropDuplicates": (drop_duplicates, {}),
    "dropDuplicatesWithinWatermark": (drop_duplicates_within_watermark, {}),
    "inner join": (inner_join, {"joinSide": "left"}),
    "left outer join": (left_outer_join, {"joinSide": "right"}),
    "session windows": (session_windows, {}),
    "applyInPandasWithState": (apply_in_pandas_with_state, {}),
    "transformWithState": (transform_with_state, {"stateVarName": "counts"}),
}


def fill(lab: Lab) -> None:
    """Ten files whose time moves on by 6 seconds each, with late and repeated rows and keys that come and go."""
    for i in range(10):
        at = [f"00:{(second := 100 + 6 * i + d) // 60:02d}:{second % 60:02d}" for d in range(5)]
        rows = [("a", at[0], i), ("b", at[1], 10 * i), (f"k{i // 3}", at[2], i), ("a", at[0], i)]
        if i == 5:
            rows.append(("late", "00:00:30", 5))
        lab.put(rows)
        lab.put([("a", at[3], 100 + i)] + ([("b", at[4], 200 + i)] if i % 2 else []), "right")


def is_without_data(checkpoint: Path, number: int) -> bool:
    before, after = (read_offsets(checkpoint, BatchId(n)).sources for n in (number - 1, number))
    return before == after


@pytest.mark.parametrize("name", core(OPERATORS, "window aggregation", kept=["inner join", "transformWithState"]))
def test_a_query_restarted_from_the_files_of_a_batch_goes_on_exactly(lab: Lab, name: str) -> None:
    make, state_options = OPERATORS[name]
    fill(lab)
    checkpoint = lab.directory()
    holds: dict[int, Hold] = {}
    contents: dict[int, dict[str, str]] = {}
    no_data: set[int] = set()

    def hold_previous(number: int) -> None:
        if number == 5:
            wait_for_snapshot(checkpoint, above=1)
        if number > 0:
            holds[number - 1] = hold(checkpoint, BatchId(number - 1), lab.directory("hold"))
            contents[number - 1] = hashes(holds[number - 1])
            if is_without_data(checkpoint, number):
                no_data.add(number)

    uninterrupted = lab.run(make(lab), checkpoint, before_batch=hold_previous)
    last = max(uninterrupted.rows)
    middle = last // 2
    assert any(rows for number, rows in uninterrupted.rows.items() if number > (middle + last) // 2)

    assert {number: hashes(held) for number, held in holds.items()} == contents, "Spark wrote into a held file"

    first, first_holds = restart(lab, make, holds[middle], forced=middle + 1 in no_data)
    assert first.rows == {n: rows for n, rows in uninterrupted.rows.items() if n > middle}

    again = (middle + last) // 2
    second, _ = restart(lab, make, first_holds[again], forced=again + 1 in no_data)
    assert second.rows == {n: rows for n, rows in uninterrupted.rows.items() if n > again}

    assert state(lab, second_directory(lab), state_options) == state(lab, checkpoint, state_options)
    for held in (holds[middle], first_holds[again]):
        assert any(path.endswith(".zip") for path in held.files), "the cut has no snapshot"
    # A snapshot of a partition from which all keys have expired has none; which version it is of, the clock decides.
    everything = [path for held in (*holds.values(), *first_holds.values()) for path in held.files]
    assert any(path.endswith(".sst") for path in everything), "no cut has an SST"


def restart(lab: Lab, make: Callable[[Lab], DataFrame], held: Hold, *, forced: bool) -> tuple[Run, dict[int, Hold]]:
    target = lab.restore(held)
    if forced:
        force_batch(target, timestamp_ms=0)
    holds: dict[int, Hold] = {}

    def hold_previous(number: int) -> None:
        if number == held.files.batch + 3:
            wait_for_snapshot(target, above=held.files.batch + 1)
        if number - 1 > held.files.batch:
            holds[number - 1] = hold(target, BatchId(number - 1), lab.directory("hold"))

    return lab.run(make(lab), target, before_batch=hold_previous), holds


def hashes(held: Hold) -> dict[str, str]:
    return {path: file_sha256(held.directory / path) for path in held.files}


def wait_for_snapshot(checkpoint: Path, above: int) -> None:
    """Wait until maintenance has written a snapshot of a version above one, and a file of RocksDB with it."""
    deadline = time.monotonic() + 60
    while not (
        any(int(file.name.split("_")[0]) > above for file in checkpoint.glob("state/**/*.zip"))
        and any(checkpoint.glob("state/**/*.sst"))
    ):
        assert time.monotonic() < deadline, "maintenance wrote no snapshot"
        time.sleep(0.05)


def second_directory(lab: Lab) -> Path:
    return max(lab.root.glob("restored-*"), key=lambda path: int(path.name.split("-")[1]))


def state(lab: Lab, checkpoint: Path, options: dict[str, str]) -> list[str]:
    """The state as Spark's own reader sees it."""
    reader = lab.spark.read.format("statestore").options(**options)
    return sorted(json.dumps(row.asDict(recursive=True), default=str) for row in reader.load(str(checkpoint)).collect())
