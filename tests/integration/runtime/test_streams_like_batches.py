"""A streaming query returns what the same query over a table returns: NULL, NaN and -0.0 as keys, times and values.

The page `where-streaming-spark-differs.md` lists what is compared here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from tests.integration.runtime.purchases import add_file

from streamjob_runtime.spark.checkpoint_dir.forced_batch import force_flush

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

Case = str | Callable[["SparkSession"], "DataFrame"]
A = "id INT, k STRING, x DOUBLE, v INT, at TIMESTAMP"
B = "bid INT, bk STRING, bx DOUBLE, bv INT, bat TIMESTAMP"
KEYS = [None, "x", "", None, "x", "y"]
NUMBERS = [None, "NaN", -0.0, 0.0, None, 1.5]
VALUES = [None, 1, None, 2, 1, None]
NEAR = "bat BETWEEN at - INTERVAL 1 HOUR AND at + INTERVAL 1 HOUR"
JOINED_BY = {
    "a key": "k = bk",
    "two keys": "k = bk AND v = bv",
    "a key that may be NULL": "k <=> bk",
    "one of both": "k = bk AND v <=> bv",
    "numbers": "x = bx",
    "structs": "struct(k, x) = named_struct('k', bk, 'x', bx)",
    "arrays": "array(x) = array(bx)",
    "an expression": "coalesce(k, 'none') = coalesce(bk, 'none')",
    "a key, if a value is large": "k = bk AND v > 1 AND bv IS NOT NULL",
}
JOINS = ["INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI"]
BY_HOUR = "window(at, '1 hour')"
FUNCTIONS = (
    "count(*) AS n, count(v) AS c, sum(v) AS s, avg(v) AS m, min(x) AS low, max(x) AS high, max(k) AS last, "
    "sort_array(collect_list(v)) AS l, sort_array(collect_set(k)) AS ks, approx_count_distinct(k) AS d, "
    "bool_or(v > 1) AS o, max_by(v, id) AS newest, count_if(k IS NULL) AS nulls, stddev(v) AS dev, sum(x) AS sx"
)
AGGREGATIONS = {
    f"grouped by {key}": f"SELECT {key}, {FUNCTIONS} FROM a GROUP BY {BY_HOUR}, {key}"
    for key in ("k", "x", "v", "k, x", "struct(k, x)", "array(x)")
}
OTHERS = {
    "grouped by time": f"SELECT at, {FUNCTIONS} FROM a GROUP BY at",
    "rollup": f"SELECT k, v, count(*) AS n FROM a GROUP BY {BY_HOUR}, ROLLUP(k, v)",
    "sliding": "SELECT k, window.start AS s, count(*) AS n FROM a GROUP BY 1, window(at, '1 hour', '7 minutes')",
    "sessions by k": "SELECT k, session_window AS w, count(*) AS n FROM a GROUP BY session_window(at, '3 minutes'), k",
    "sessions by x": "SELECT x, session_window AS w, count(*) AS n FROM a GROUP BY session_window(at, '3 minutes'), x",
    "sessions with their own gaps": (
        "SELECT k, session_window AS w, count(*) AS n FROM a "
        "GROUP BY session_window(at, CASE WHEN v = 1 THEN '1 minute' WHEN v = 2 THEN '5 minutes' END), k"
    ),
    "windows over windows": (
        f"SELECT k, sum(n) AS n FROM (SELECT window, k, count(*) AS n FROM a GROUP BY {BY_HOUR}, k) "
        "GROUP BY window(window, '1 day'), k"
    ),
    "a filter behind groups": f"SELECT k, sum(v) AS s FROM a GROUP BY {BY_HOUR}, k HAVING sum(v) IS NULL OR k IS NULL",
    "distinct rows": "SELECT DISTINCT k, x, v, at FROM a",
    "distinct numbers": "SELECT DISTINCT x, date_trunc('HOUR', at) IS NULL AS t, at FROM a",
    "a union": "SELECT k, x FROM a UNION ALL SELECT bk, bx FROM b",
}
DUPLICATES: dict[str, Case] = {
    "duplicates by k": lambda spark: spark.table("a").dropDuplicates(["k"]).select("k"),
    "duplicates by x": lambda spark: spark.table("a").dropDuplicates(["x"]).select("x"),
    "duplicates by time and x": lambda spark: spark.table("a").dropDuplicates(["x", "at"]).select("x", "at"),
    "duplicates by a struct": lambda spark: (
        spark.sql("SELECT struct(k, x) AS s, at FROM a").dropDuplicates(["s"]).select("s")
    ),
    "duplicates by an array": lambda spark: (
        spark.sql("SELECT array(x) AS s, at FROM a").dropDuplicates(["s"]).select("s")
    ),
}


def _join(join: str, condition: str) -> str:
    columns = "id, NULL AS bid, k, x" if "SEMI" in join else "id, bid, k, x"
    return f"SELECT '{join}' AS type, {columns} FROM a {join} JOIN b ON {condition} AND {NEAR}"


def _together(queries: dict[str, str]) -> str:
    """Return one query that returns the rows of several as JSON: to start a query takes longer than to run it."""
    return " UNION ALL ".join(
        f"SELECT '{name}' AS type, to_json(struct(*), map('ignoreNullFields', 'false')) AS row FROM ({query})"
        for name, query in queries.items()
    )


CASES: dict[str, Case] = {
    **{
        f"joins by {name}": " UNION ALL ".join(_join(join, condition) for join in JOINS)
        for name, condition in JOINED_BY.items()
    },
    "a full join": _join("FULL", JOINED_BY["a key"]),
    "a left join of large values": _join("LEFT", "k = bk AND v > 1"),
    "aggregations": _together(AGGREGATIONS),
    "other queries": _together(OTHERS),
    **DUPLICATES,
}


def _rows(before: str, first: int) -> list[dict[str, Any]]:
    names = [before + each for each in (("id", "k", "x", "v", "at"))]
    return [
        dict(zip(names, (first + n, KEYS[n], NUMBERS[n], VALUES[n], f"2026-01-01T00:0{n}:00Z"), strict=True))
        for n in range(6)
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files")
    for number, first in enumerate((0, 10)):
        add_file(path / "a", number, _rows("", first))
        add_file(path / "b", number, _rows("b", 100 + first))
    return path


def _frame(spark: SparkSession, case: Case) -> DataFrame:
    return spark.sql(case) if isinstance(case, str) else case(spark)


def _plain(frame: DataFrame) -> list[str]:
    # The two zeros are equal; which one of them a result has, depends on the order of the rows.
    return sorted(json.dumps(each, default=str).replace("-0.0", "0.0") for each in frame.toArrow().to_pylist())


def _in_a_batch(spark: SparkSession, files: Path, case: Case) -> list[str]:
    for name, schema in (("a", A), ("b", B)):
        spark.read.schema(schema).json(str(files / name)).createOrReplaceTempView(name)
    return _plain(_frame(spark, case))


def _streams(spark: SparkSession, files: Path) -> None:
    for name, schema, at in (("a", A, "at"), ("b", B, "bat")):
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(files / name))
        rows.withWatermark(at, "1 day").createOrReplaceTempView(name)


def _streamed(spark: SparkSession, files: Path, case: Case, directory: Path) -> list[str]:
    """Return the result of a query that reads a file in each batch, with all that waits for the watermark."""
    _streams(spark, files)
    result = _frame(spark, case)
    out = directory / "out"
    for turn in range(2):
        writer = result.writeStream.option("checkpointLocation", str(directory / "checkpoint"))
        query = writer.format("parquet").option("path", str(out)).trigger(availableNow=True).start()
        query.awaitTermination()
        if turn == 0 and query.lastProgress is not None and query.lastProgress["stateOperators"]:
            force_flush(directory / "checkpoint", 0)
    return _plain(spark.read.schema(result.schema).parquet(str(out)))


def _differences(spark: SparkSession, files: Path, directory: Path, names: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, name in enumerate(names):
        try:
            batch = _in_a_batch(spark, files, CASES[name])
            streamed = _streamed(spark, files, CASES[name], directory / str(number))
        except PySparkException as error:
            found[name] = str(error)[:500]
            continue
        assert batch, name
        if streamed != batch:
            found[name] = {
                "only batch": [x for x in batch if x not in streamed],
                "only stream": [x for x in streamed if x not in batch],
                "counts": (len(batch), len(streamed)),
            }
    return found


FAST = ["a full join", "a left join of large values", "duplicates by x"]


@pytest.mark.slow
def test_joins_keep_rows_without_partner_and_duplicates_are_told_by_their_values(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    assert _differences(spark, files, tmp_path, FAST) == {}


@pytest.mark.parametrize("join", ["LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize(
    "condition",
    [
        "v > 1 AND bv > 1",
        "made > bat - INTERVAL 1 HOUR AND bmade > at - INTERVAL 1 HOUR",
        "CAST(at AS LONG) > CAST(bat AS LONG) - 60 AND CAST(bat AS LONG) > CAST(at AS LONG) - 60",
    ],
)
def test_an_outer_join_of_streams_needs_a_range_of_event_times(
    spark: SparkSession, files: Path, join: str, condition: str
) -> None:
    _streams(spark, files)
    a = "(SELECT *, at + INTERVAL 1 DAY AS made FROM a)"
    b = "(SELECT *, bat + INTERVAL 1 DAY AS bmade FROM b)"
    with pytest.raises(PySparkException, match="no range of the two event times"):
        spark.sql(f"SELECT * FROM {a} {join} JOIN {b} ON k = bk AND {condition}")
    assert spark.sql(f"SELECT * FROM {a} {join} JOIN {b} ON k = bk AND {condition} AND {NEAR}").isStreaming


@pytest.mark.slow
def test_every_kind_of_query_returns_what_it_returns_in_a_batch(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    assert _differences(spark, files, tmp_path, [each for each in CASES if each not in FAST]) == {}
