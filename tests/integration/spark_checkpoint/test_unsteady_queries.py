"""What makes a query give other rows when a batch runs again is named before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

from streamjob_runtime.chain.event_time.event_times import with_observed_time
from streamjob_runtime.pinning.dependence import unsteady
from streamjob_runtime.spark.gateway import once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.core]

WINDOWS = "GROUP BY window(t, '10 seconds'), k"


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Iterator[DataFrame]:
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "5 seconds")
    result = stream.selectExpr("timestamp t", "value id", "value % 3 k", "value % 5 n", "value / 7 v")
    result.createOrReplaceTempView("rows")
    spark.range(3).selectExpr("id k", "'x' name").write.mode("overwrite").saveAsTable("names_of_keys")
    yield result
    spark.catalog.dropTempView("rows")
    spark.sql("DROP TABLE names_of_keys")


def found(spark: SparkSession, frame: DataFrame, *, on_executors: bool) -> list[str]:
    return [each.what for each in unsteady(spark, frame, "append", on_executors=on_executors)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT *, current_timestamp(), now(), current_date(), unix_timestamp(), localtimestamp() FROM rows",
        f"SELECT k, count(*), sum(n), avg(n), min(v), max(v), sum(CAST(v AS DECIMAL(20, 6))) FROM rows {WINDOWS}",
        f"SELECT k, sort_array(collect_list(v)), size(collect_set(id)), approx_count_distinct(id) FROM rows {WINDOWS}",
        f"SELECT k, max_by(v, struct(n, v)), min_by(n, n), mode(n, true), percentile(v, 0.5) FROM rows {WINDOWS}",
        f"SELECT k, count_if(n > 1), bool_or(n > 2), bit_xor(n) FROM rows {WINDOWS}",
        "SELECT DISTINCT k, t FROM rows",
        "SELECT k, name FROM rows JOIN VALUES (1, 'a') AS names(key, name) ON k = key",
        "SELECT a.id FROM rows a LEFT JOIN rows b ON a.id = b.id AND a.t <= b.t AND a.t >= b.t - INTERVAL 1 SECOND",
    ],
)
def test_a_function_of_the_rows_is_steady_also_on_executors(spark: SparkSession, rows: DataFrame, query: str) -> None:
    assert found(spark, spark.sql(query), on_executors=True) == []


def test_keys_alone_are_steady_without_their_duplicates(spark: SparkSession, rows: DataFrame) -> None:
    assert found(spark, rows.select("k", "t").dropDuplicates(["k", "t"]), on_executors=True) == []
    assert found(spark, rows.dropDuplicates(["k", "t"]).select("k"), on_executors=True) == []


def test_our_own_expressions_are_steady(spark: SparkSession, rows: DataFrame) -> None:
    from streamjob.job.model.spec import Watermark

    stream = spark.readStream.format("rate").load()
    observed = with_observed_time(stream, Watermark(column="timestamp", delay=1))
    assert observed is not None
    timed = observed.frame.select("timestamp", once(spark, f.col("value")).alias("v"))

    assert found(spark, timed, on_executors=True) == []


NOWHERE: dict[str, tuple[str, str]] = {
    "rand": ("SELECT rand() FROM rows", "rand() gives another value each time"),
    "rand of a seed": ("SELECT rand(7) FROM rows", "rand() gives another value each time"),
    "uuid": ("SELECT id, upper(uuid()) FROM rows WHERE n > 1", "uuid() gives another value each time"),
    "number of a row": (
        "SELECT monotonically_increasing_id() FROM rows",
        "monotonically_increasing_id() gives another value each time",
    ),
    "shuffle": ("SELECT shuffle(array(id, n)) FROM rows", "shuffle() gives another value each time"),
    "within a condition": ("SELECT id FROM rows WHERE rand() < 0.5", "rand() gives another value each time"),
    "time of day": ("SELECT current_time() FROM rows", "current_time() gives another value each time"),
    "table": (
        "SELECT id, name FROM rows JOIN names_of_keys USING (k)",
        "it reads a table (columns: k, name), which may have other rows by then",
    ),
    "table in a subquery": (
        "SELECT id FROM rows WHERE k > (SELECT max(k) FROM names_of_keys)",
        "it reads a table (columns: k, name), which may have other rows by then",
    ),
}


@pytest.mark.parametrize("name", NOWHERE)
def test_what_is_unsteady_is_named_in_one_process_too(spark: SparkSession, rows: DataFrame, name: str) -> None:
    query, what = NOWHERE[name]

    assert found(spark, spark.sql(query), on_executors=False) == [what]


def test_a_python_function_is_named_if_it_is_declared_so(spark: SparkSession, rows: DataFrame) -> None:
    steady = f.udf(lambda value: value, "long")
    assert found(spark, rows.select(steady("id")), on_executors=True) == []

    def draw(value: int) -> int:
        return value

    drawn = f.udf(draw, "long").asNondeterministic()
    expected = ["the Python function draw is declared as not deterministic"]
    assert found(spark, rows.select(drawn("id")), on_executors=False) == expected


def _python_state(rows: DataFrame) -> DataFrame:
    from pyspark.sql.streaming.state import GroupStateTimeout

    def count(key: Any, frames: Any, state: Any) -> Any:
        yield from ()

    return rows.groupBy("k").applyInPandasWithState(count, "k long", "n long", "append", GroupStateTimeout.NoTimeout)


def aggregated(call: str) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: rows.sparkSession.sql(f"SELECT k, {call} x FROM rows {WINDOWS}")


FLOATS = "{}() of DOUBLE or FLOAT depends on the order in which executors add"
ORDER = "{}() depends on the order in which rows come from executors"
ON_EXECUTORS: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "sum": (aggregated("sum(v)"), FLOATS.format("sum")),
    "avg": (aggregated("avg(v)"), FLOATS.format("avg")),
    "stddev": (aggregated("stddev(v)"), ORDER.format("stddev")),
    "collect_list": (aggregated("collect_list(id)"), ORDER.format("collect_list")),
    "collect_set": (aggregated("collect_set(id)"), ORDER.format("collect_set")),
    "first": (aggregated("first(id)"), ORDER.format("first")),
    "last": (aggregated("last(id)"), ORDER.format("last")),
    "any_value": (aggregated("any_value(id)"), ORDER.format("first")),
    "max_by": (aggregated("max_by(id, n)"), ORDER.format("max_by")),
    "mode": (aggregated("mode(n)"), ORDER.format("mode")),
    "listagg": (aggregated("listagg(CAST(id AS STRING))"), ORDER.format("listagg")),
    "percentile_approx": (aggregated("percentile_approx(v, 0.5)"), ORDER.format("percentile_approx")),
    "columns of a duplicate": (
        lambda rows: rows.dropDuplicatesWithinWatermark(["k"]).select("k", "id"),
        "of duplicates, any one gives the columns t, id",
    ),
    "limit": (lambda rows: rows.limit(10), "LIMIT 10 takes any rows"),
    "state of Python": (
        _python_state,
        "applyInPandasWithState gets the rows of a key in the order in which they come from executors",
    ),
}


@pytest.mark.parametrize("name", ON_EXECUTORS)
def test_what_depends_on_the_order_of_rows_is_named_on_executors(
    spark: SparkSession, rows: DataFrame, name: str
) -> None:
    make, what = ON_EXECUTORS[name]

    assert found(spark, make(rows), on_executors=True) == [what]
    assert found(spark, make(rows), on_executors=False) == []
