"""The author's queries change the variables and timers of a Python function, and the sides of a join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.core import core
from tests.integration.runtime.embedded import Life, life_in, running
from tests.integration.runtime.graphs import BEGIN, Row, add_rows, job, source
from tests.integration.runtime.stories import NEVER
from tests.integration.runtime.test_migrated_kinds import BEFORE, BEHIND, HALF, KEYS, ROWS, carried, pairs
from tests.jobs import sql

from streamjob.comparison.starting import ComparedStart, compare_start
from streamjob.errors import CannotRestore, ExitCode
from streamjob.job.loading.load import load_job
from streamjob.protocol.log.records import JobId
from streamjob_runtime.migrating.applying import KeysMerged, StateNotMigrated
from streamjob_runtime.migrating.transforming import MigrationQueryRefused
from streamjob_runtime.process.checking.migration import Migrator
from streamjob_runtime.process.checking.start_check import SparkToAsk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

AN_HOUR_MS = int(BEGIN.timestamp() + 3600) * 1000
TOTALS = "SELECT k, sum({}) AS total FROM a GROUP BY k, window(at, '1 hour')"
ALONE = ("old", 7, None, "before 7")
COUNTED = {"count": "n INT", "listed": "n BIGINT, note STRING", "mapped": "times INT"}


def function(name: str) -> dict[str, Any]:
    return {"name": "out", "inputs": ["a"], "python": f"{__name__}:{name}"}


def by_key(a: DataFrame) -> DataFrame:
    return _processed(a, COUNTED)


def by_letter(a: DataFrame) -> DataFrame:
    variables = {**COUNTED, "count": "n BIGINT", "mapped": "times BIGINT", "since": "least STRING, note STRING"}
    return _processed(a.selectExpr("substring(k, 1, 1) AS letter", "n", "at"), variables)


def _processed(a: DataFrame, variables: Mapping[str, str]) -> DataFrame:
    """Return what the variables of each key have when a timer ends."""
    from pyspark.sql import Row as SparkRow
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Processor(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.count = handle.getValueState("count", variables["count"])
            self.listed = handle.getListState("listed", variables["listed"])
            self.mapped = handle.getMapState("mapped", "n BIGINT", variables["mapped"])
            self.since = handle.getValueState("since", variables["since"]) if "since" in variables else None

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[SparkRow]:
            for n in sorted(row["n"] for row in rows):
                self.count.update(((self.count.get() or (0,))[0] + 1,))
                self.listed.appendValue((n, None if n % 2 else "even"))
                self.mapped.updateValue((n,), ((self.mapped.getValue((n,)) or (0,))[0] + 1,))
                if n % 4 == 3:
                    self.handle.registerTimer(AN_HOUR_MS + n)
            if key[0].startswith("o"):
                self.listed.clear()
            return iter([])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[SparkRow]:
            listed = [tuple(each) for each in self.listed.get()]
            mapped = sorted((n, times) for (n,), (times,) in self.mapped.iterator())
            since = None if self.since is None else tuple(self.since.get() or ())
            at = expiredTimerInfo.getExpiryTimeInMs() - AN_HOUR_MS
            (n,) = self.count.get() or (0,)
            yield SparkRow(k=key[0], n=n, listed=str(listed), mapped=str(mapped), since=str(since), at=at)

        def close(self) -> None:
            pass

    result = "k STRING, n BIGINT, listed STRING, mapped STRING, since STRING, at BIGINT"
    return a.groupBy(a.columns[0]).transformWithState(Processor(), result, "append", "eventtime")


MERGED = {
    "count": "SELECT substring(k, 1, 1) AS letter, sum(n) AS n FROM count GROUP BY 1",
    "listed": (
        "SELECT substring(k, 1, 1) AS letter, n, note, "
        "row_number() OVER (PARTITION BY substring(k, 1, 1) ORDER BY n) AS position FROM listed"
    ),
    "mapped": "SELECT substring(k, 1, 1) AS letter, n, sum(times) AS times FROM mapped GROUP BY 1, 2",
    "since": (
        "SELECT substring(count.k, 1, 1) AS letter, concat('least ', min(mapped.n)) AS least, "
        "CAST(NULL AS STRING) AS note FROM count JOIN mapped ON count.k = mapped.k GROUP BY 1"
    ),
    "timers": "SELECT DISTINCT substring(k, 1, 1) AS letter, expires FROM timers",
}


@pytest.mark.core
def test_queries_put_the_variables_and_timers_of_several_keys_together(spark: SparkSession, tmp_path: Path) -> None:
    before, after = carried(
        spark,
        tmp_path,
        function("by_key"),
        function("by_letter"),
        lambda rows: rows.total() == HALF // KEYS // 4 * 2 + 1,
        migrate={"out": {"sql": MERGED}},
    )

    first, then = (sorted(row.n for row in rows if row.k != "old") for rows in (BEFORE, BEHIND))
    listed = [(n, None if n % 2 else "even") for n in (*first, *then)]
    mapped = sorted(Counter((*first, *then)).items())
    expected = [("k", len(listed), str(listed), str(mapped), "('least 0', None)", at) for at in (3, 7, 11, 15)]
    assert before.total() == 0
    assert after == Counter([*expected, ("o", 1, "[]", "[(7, 1)]", "('least 7', None)", 7)])


def test_a_query_returns_state_of_one_table(spark: SparkSession, tmp_path: Path) -> None:
    before, after = carried(
        spark,
        tmp_path,
        sql("out", ["a"], TOTALS.format("n")),
        sql("out", ["a"], TOTALS.format("n * 2")),
        lambda rows: rows.total() == KEYS + 1,
        migrate={"out": {"sql": "SELECT sum * 2 AS sum, k, window FROM state"}},
    )

    total = 2 * sum(range(ROWS // KEYS))
    assert before.total() == 0
    assert after == Counter([*((f"k{key}", total) for key in range(KEYS)), ("old", 14)])


@pytest.mark.parametrize("kind", core(["", "LEFT"], "LEFT"))
def test_queries_change_the_rows_that_wait_in_a_join(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    sides = {
        "left_side": "SELECT *, concat('before ', n) AS gate FROM left_side",
        "right_side": "SELECT k, n + 1 AS n, at, matched FROM right_side",
    }
    _, after = carried(
        spark,
        tmp_path,
        pairs("a.k, a.n, b.n AS m", kind),
        pairs("a.k, a.n, b.n AS m, a.gate", kind),
        lambda rows: all(rows[f"k{key}", 15, 15, ""] for key in range(KEYS)) and (not kind or rows[ALONE] > 0),
        sources=("a", "b"),
        migrate={"out": {"sql": sides}},
    )

    first, last = HALF // KEYS, ROWS // KEYS
    there = [(n, m) for n in range(first) for m in range(first, last)]
    came = [(n, m) for n in range(first, last) for m in range(1, first + 1)] + [
        (n, m) for n in range(first, last) for m in range(first, last)
    ]
    expected = Counter(
        (f"k{key}", n, m, f"before {n}" if n < first else "")
        for key in range(KEYS)
        for n, m in (*there, *came)
        if 0 <= m - n <= 4
    )
    assert Counter(row for row in after.elements() if row[0] != "end") == expected + Counter([ALONE] if kind else [])


def of_each_kind(a: DataFrame) -> DataFrame:
    return _of_each_kind(a)


def of_one_more(a: DataFrame) -> DataFrame:
    return _of_each_kind(a, "more")


def _of_each_kind(a: DataFrame, *more: str) -> DataFrame:
    """Return nothing; keep variables of each kind, with and without a time to live, and timers."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Processor(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.variables = [
                (
                    handle.getValueState(f"single{suffix}", "n INT, k STRING", ttl),
                    handle.getListState(f"listed{suffix}", "n INT", ttl),
                    handle.getMapState(f"mapped{suffix}", "n INT, k STRING", "n INT", ttl),
                )
                for suffix, ttl in (("", None), ("_x", 3_600_000))
            ]
            self.more = [handle.getValueState(name, "n INT") for name in more]

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            for n in sorted(row["n"] for row in rows):
                for single, listed, mapped in self.variables:
                    single.update((n, None if n % 2 else "even"))
                    listed.appendValue((n,))
                    mapped.updateValue((n, key[0]), (n * n,))
                self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 3_600_000 + n)
            return iter([])

        def close(self) -> None:
            pass

    return a.groupBy("k").transformWithState(Processor(), "k STRING", "append", "processingtime")


class Kept:
    """A job that was stopped with state of each kind.

    Args:
        directory: where its input and snapshots are.
    """

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark, self.directory = spark, directory
        add_rows(directory / "a", 0, [*BEFORE[:HALF], Row("old", 7, 20)])
        with running(spark, self.life("of_each_kind")) as life:
            life.wait_for_batches()
            assert life.stop() is ExitCode.OK

    def life(self, name: str, **fields: Any) -> Life:
        spec = job(self.directory, [source("a", self.directory / "a")], [function(name)], ["out"], **fields)
        return life_in(self.directory, spec, restarts=NEVER)

    def changed(self, queries: Mapping[str, str]) -> tuple[ComparedStart, Migrator]:
        life = self.life("of_one_more", migrate={"out": {"sql": dict(queries)}})
        scratch = self.directory / f"scratch-{len(list(self.directory.glob('scratch-*')))}"
        ask = SparkToAsk(lambda *_: (self.spark, scratch))
        migrator = Migrator(ask, life.location, None, write=False, strict=False, note=lambda text: None)
        name = "spark.sql.shuffle.partitions"
        before = self.spark.conf.get(name)
        try:
            return compare_start(
                load_job(life.file), "latest", life.location, JobId("default", "job"), False, migrator
            ), migrator
        finally:
            self.spark.conf.set(name, str(before))


@pytest.fixture(scope="module")
def each_kind(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(spark, tmp_path_factory.mktemp("kept"))


@pytest.mark.parametrize(
    ("queries", "kind", "said"),
    [
        ({"single": "SELECT k FROM single"}, MigrationQueryRefused, r"migrates 'single' in .*: it returns \(k\)"),
        ({"single": "SELECT nothing FROM single"}, MigrationQueryRefused, "UNRESOLVED_COLUMN"),
        (
            {"single": "SELECT k, 'x' AS n, k_2 FROM single"},
            MigrationQueryRefused,
            "its n is of type string, and not int",
        ),
        ({"listed": "SELECT k, n FROM listed"}, MigrationQueryRefused, r"it returns \(k, n\)"),
        (
            {"listed": "SELECT k, n, 1 AS position FROM listed"},
            StateNotMigrated,
            "elements of `listed` have the same position",
        ),
        ({"timers": "SELECT k, CAST(NULL AS TIMESTAMP) AS expires FROM timers"}, StateNotMigrated, "expires cannot"),
        ({"single": "SELECT 'all' AS k, n, k_2 FROM single"}, KeysMerged, "have one key after its migration"),
    ],
)
def test_what_a_query_must_not_return_is_refused_with_the_reason(
    each_kind: Kept, queries: Mapping[str, str], kind: type[CannotRestore], said: str
) -> None:
    with pytest.raises(kind, match=said):
        each_kind.changed(queries)


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        ({"others": "SELECT 1"}, "the queries under `migrate` are to return others, and not its"),
        ({"listed_x": "SELECT * FROM listed_x"}, "its listed_x has a time to live"),
    ],
)
def test_a_table_that_no_query_returns_is_refused_with_those_that_are_there(
    each_kind: Kept, queries: Mapping[str, str], said: str
) -> None:
    start, _ = each_kind.changed(queries)

    (refusal,) = start.compared.refusals
    assert said in str(refusal)
    assert "timers (k string, expires timestamp)" in str(refusal)
