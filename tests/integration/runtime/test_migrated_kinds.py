"""A changed job carries the state of joins, deduplication and Python functions over, as if it had always been so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.core import core
from tests.integration.runtime.embedded import life_in, running
from tests.integration.runtime.graphs import BEGIN, Row, add_rows, job, manifests, output, rows_of, source
from tests.jobs import sql

from streamjob.errors import ExitCode
from streamjob.protocol.log.restore import ClaimMode
from streamjob_runtime.checkpointing.ledger import RestoreFrom

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

KEYS, HALF, ROWS = 3, 30, 48
BEFORE = [*(Row(f"k{number % KEYS}", number // KEYS, number) for number in range(HALF)), Row("old", 7, 20)]
BEHIND = [Row(f"k{number % KEYS}", number // KEYS, number) for number in range(HALF, ROWS)]
END = Row("end", 0, 9999)

Rows = Counter[tuple[Any, ...]]
Operator = dict[str, Any]


def carried(
    spark: SparkSession,
    directory: Path,
    before: Operator,
    after: Operator,
    until: Callable[[Rows], bool],
    *,
    sources: tuple[str, ...] = ("a",),
    behind: tuple[Row, ...] = (),
    **fields: Any,
) -> tuple[Rows, Rows]:
    """Run a job over the first rows and a changed one over the rest; return what each has published."""
    first, second = directory / "first", directory / "second"

    def spec(place: Path, operator: Operator, **more: Any) -> dict[str, Any]:
        inputs = [source(name, directory / name, delay="10s") for name in sources]
        return job(place, inputs, [operator], ["out"], **more)

    for name in sources:
        # A row of the first side has no partner.
        add_rows(directory / name, 0, BEFORE if name == "a" else BEFORE[:-1])
    with running(spark, life_in(first, spec(first, before))) as one:
        one.wait_for_batches()
        assert one.stop() is ExitCode.OK
    for name in sources:
        add_rows(directory / name, 1, [*behind, *BEHIND])
        add_rows(directory / name, 2, [END])
    root = first / "snapshots" / "default" / "job"
    newest = manifests(root)[-1]
    uri = (root / f"checkpoints/{newest.epoch}-{newest.id}/manifest.json").as_uri()
    life = life_in(second, spec(second, after, **fields), restore_from=RestoreFrom(uri, ClaimMode.NO_CLAIM))
    with running(spark, life) as other:
        other.wait_for(lambda: until(rows_of(output(second, "out"))), "the last row", 90)
        assert other.stop() is ExitCode.OK
    return rows_of(output(first, "out")), rows_of(output(second, "out"))


def function(name: str, **fields: Any) -> Operator:
    return {"name": "out", "inputs": ["a"], "python": f"{__name__}:{name}", **fields}


def counts_then(a: DataFrame) -> DataFrame:
    return _counts(a, "n INT, total INT, gone STRING", lambda n, total: (n, total, "x"))


def counts_now(a: DataFrame) -> DataFrame:
    return _counts(a.withColumnRenamed("k", "name"), "sum BIGINT, n BIGINT", lambda n, total: (total, n), at=(1, 0))


def _counts(
    a: DataFrame, state: str, kept: Callable[[int, int], tuple[Any, ...]], at: tuple[int, int] = (0, 1)
) -> DataFrame:
    """Return number and sum of the rows of each key, once the watermark has passed an hour."""
    from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

    an_hour = int(BEGIN.timestamp() + 3600) * 1000

    def count(key: tuple[Any, ...], frames: Iterator[Any], held: GroupState) -> Iterator[Any]:
        import pandas as pd

        had = held.get if held.exists else (0, 0)
        n, total = had[at[0]], had[at[1]]
        if held.hasTimedOut:
            held.remove()
            yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})
            return
        for frame in frames:
            n, total = n + len(frame), total + int(frame["n"].sum())
        held.update(kept(n, total))
        if key[0] != "end":
            held.setTimeoutTimestamp(an_hour)

    return a.groupBy(a.columns[0]).applyInPandasWithState(
        count, "k STRING, n BIGINT, total BIGINT", state, "append", GroupStateTimeout.EventTimeTimeout
    )


def test_the_state_and_the_timeouts_of_a_function_are_carried_over(spark: SparkSession, tmp_path: Path) -> None:
    before, after = carried(
        spark,
        tmp_path,
        function("counts_then"),
        function("counts_now", renames={"total": "sum", "k": "name"}),
        lambda rows: rows.total() == KEYS + 1,
    )

    number = ROWS // KEYS
    assert before.total() == 0
    assert after == Counter({**{(f"k{key}", number, sum(range(number))): 1 for key in range(KEYS)}, ("old", 1, 7): 1})


def processed_then(a: DataFrame) -> DataFrame:
    return _processed(a, {"count": "n INT", "listed": "n BIGINT", "mapped": "times INT", "gone": "n INT"}, "count")


def processed_now(a: DataFrame) -> DataFrame:
    variables = {"listed": "m BIGINT", "total": "n BIGINT", "mapped": "times BIGINT", "more": "n BIGINT, at STRING"}
    return _processed(a.selectExpr("k AS name", "n", "at"), variables, "total")


def _processed(a: DataFrame, variables: dict[str, str], counted: str) -> DataFrame:
    """Return how many rows of each key there are, their numbers in order and by number, once timers have ended."""
    from pyspark.sql import Row as SparkRow
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    an_hour = int(BEGIN.timestamp() + 3600) * 1000

    class Processor(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.count = handle.getValueState(counted, variables[counted])
            self.listed = handle.getListState("listed", variables["listed"])
            self.mapped = handle.getMapState("mapped", "n BIGINT", variables["mapped"])
            self.other = [handle.getValueState(name, variables[name]) for name in ("gone", "more") if name in variables]

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[SparkRow]:
            for n in sorted(row["n"] for row in rows):
                self.count.update(((self.count.get() or (0,))[0] + 1,))
                self.listed.appendValue((n,))
                self.mapped.updateValue((n,), (n * n,))
                if key[0] != "end" and n % 4 == 3:
                    self.handle.registerTimer(an_hour + n)
            return iter([])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[SparkRow]:
            listed = [n for (n,) in self.listed.get()]
            mapped = sum(square for _, (square,) in self.mapped.iterator())
            at = expiredTimerInfo.getExpiryTimeInMs() - an_hour
            yield SparkRow(k=key[0], n=(self.count.get() or (0,))[0], listed=str(listed), mapped=mapped, at=at)

        def close(self) -> None:
            pass

    return a.groupBy(a.columns[0]).transformWithState(
        Processor(), "k STRING, n BIGINT, listed STRING, mapped BIGINT, at BIGINT", "append", "eventtime"
    )


def test_variables_and_timers_of_a_processor_are_carried_over(spark: SparkSession, tmp_path: Path) -> None:
    before, after = carried(
        spark,
        tmp_path,
        function("processed_then"),
        function("processed_now", renames={"count": "total", "n": "m", "k": "name"}),
        lambda rows: rows.total() == KEYS * ROWS // KEYS // 4 + 1,
    )

    number = ROWS // KEYS
    found = (number, str([*range(number)]), sum(n * n for n in range(number)))
    expected = Counter((f"k{key}", *found, at) for key in range(KEYS) for at in range(3, number, 4))
    assert before.total() == 0
    assert after == expected + Counter([("old", 1, "[7]", 49, 7)])


def pairs(columns: str, kind: str = "", seconds: int = 20) -> Operator:
    return sql(
        "out",
        ["a", "b"],
        f"SELECT {columns} FROM a {kind} JOIN b ON a.k = b.k AND b.n BETWEEN a.n AND a.n + 4 "
        f"AND b.at BETWEEN a.at - INTERVAL {seconds} SECONDS AND a.at + INTERVAL {seconds} SECONDS",
    )


@pytest.mark.parametrize("kind", core(["", "LEFT"], "LEFT"))
def test_the_rows_that_wait_in_a_join_are_carried_over(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    before, after = carried(
        spark,
        tmp_path,
        pairs("a.k, a.n, b.n AS m, a.gate, b.gate AS other", kind),
        pairs("a.k, a.n, b.n AS m", kind, 10),
        lambda rows: all(rows[f"k{key}", 15, 15] for key in range(KEYS)) and (kind == "" or rows["old", 7, None] > 0),
        sources=("a", "b"),
    )

    def within(seconds: int, numbers: range) -> Rows:
        return Counter(
            (f"k{key}", n, m)
            for key in range(KEYS)
            for n in range(ROWS // KEYS)
            for m in numbers
            if 0 <= m - n <= 4 and (m - n) * KEYS <= seconds
        )

    alone = Counter([("old", 7, None)] if kind else [])
    assert Counter(row[:3] for row in before.elements()) == within(20, range(HALF // KEYS))
    found = Counter(row for row in after.elements() if row[0] != "end")
    assert found == within(10, range(HALF // KEYS, ROWS // KEYS)) + alone


def unique_then(a: DataFrame) -> DataFrame:
    return a.selectExpr("k", "CAST(n AS INT) AS n", "at").dropDuplicates(["n", "k", "at"])


def unique_now(a: DataFrame) -> DataFrame:
    return a.selectExpr("k AS name", "n", "at").dropDuplicates(["name", "n", "at"])


def unique_for_a_while_then(a: DataFrame) -> DataFrame:
    return a.selectExpr("k", "CAST(n AS INT) AS n", "at").dropDuplicatesWithinWatermark(["n", "k"])


def unique_for_a_while_now(a: DataFrame) -> DataFrame:
    return a.selectExpr("k AS name", "n", "at").dropDuplicatesWithinWatermark(["name", "n"])


@pytest.mark.parametrize("kind", core(["unique", "unique_for_a_while"], "unique_for_a_while"))
def test_what_was_there_before_is_told_after_other_names_and_types(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    before, after = carried(
        spark,
        tmp_path,
        function(f"{kind}_then"),
        function(f"{kind}_now", renames={"k": "name"}),
        lambda rows: any(row[0] == "end" for row in rows),
        behind=tuple(BEFORE[-9:]),
    )

    def named(rows: list[Row]) -> Counter[tuple[str, int]]:
        return Counter((row.k, row.n) for row in rows)

    assert Counter(row[:2] for row in before.elements()) == named(BEFORE)
    assert Counter(row[:2] for row in after.elements()) == named([*BEHIND, END])
