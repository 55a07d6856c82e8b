"""Spark accepts bytes of state for any function; the form of each function is checked instead."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from tests.integration.core import core

from streamjob.comparison.state_forms import differences
from streamjob.snapshot.state_form import StateForm
from streamjob_runtime.chain.query_planning import describe_forms
from streamjob_runtime.spark.gateway import java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = (
    "k STRING, n INT, m INT, big BIGINT, x DOUBLE, f FLOAT, at TIMESTAMP, day DATE, s STRING, bin BINARY, "
    "vec ARRAY<FLOAT>, arr ARRAY<INT>, v VARIANT"
)

FUNCTIONS: dict[str, list[tuple[str, str, bool]]] = {
    "ApproxTopK": [
        ("approx_top_k(n)", "approx_top_k(s)", False),
        ("approx_top_k(n, 5, 100)", "approx_top_k(n, 5, 1000)", False),
        ("approx_top_k(n, 5, 100)", "approx_top_k(n, 7, 100)", True),
    ],
    "ApproxTopKAccumulate": [
        ("approx_top_k_accumulate(n)", "approx_top_k_accumulate(s)", False),
        ("approx_top_k_accumulate(n, 100)", "approx_top_k_accumulate(n, 1000)", False),
    ],
    "ApproximatePercentile": [
        ("approx_percentile(n, 0.5)", "approx_percentile(x, 0.5)", False),
        ("approx_percentile(n, 0.5, 100)", "approx_percentile(n, 0.5, 1000)", False),
        ("approx_percentile(n, 0.5)", "approx_percentile(n, 0.9)", True),
    ],
    "BitmapAndAgg": [("bitmap_and_agg(bin)", "bitmap_or_agg(bin)", False)],
    "BitmapConstructAgg": [("bitmap_construct_agg(big)", "bitmap_or_agg(bin)", False)],
    "BitmapOrAgg": [("bitmap_or_agg(bin)", "bitmap_and_agg(bin)", False)],
    "CollectList": [
        ("collect_list(struct(n))", "collect_list(struct(at, n))", False),
        ("collect_list(struct(n))", "collect_list(struct(CAST(n AS STRING)))", False),
        ("collect_list(n)", "collect_set(n)", False),
        ("collect_list(n)", "array_sort(collect_list(n))", True),
        ("collect_list(n), collect_list(m)", "collect_list(m), collect_list(n)", False),
    ],
    "CollectSet": [("collect_set(n)", "collect_set(s)", False), ("collect_set(n)", "size(collect_set(n))", True)],
    "CountMinSketchAgg": [
        ("count_min_sketch(n, 0.5d, 0.5d, 1)", "count_min_sketch(s, 0.5d, 0.5d, 1)", False),
        ("count_min_sketch(n, 0.5d, 0.5d, 1)", "count_min_sketch(n, 0.1d, 0.5d, 1)", False),
        ("count_min_sketch(n, 0.5d, 0.5d, 1)", "count_min_sketch(n, 0.5d, 0.5d, 2)", False),
    ],
    "HistogramNumeric": [
        ("histogram_numeric(n, 5)", "histogram_numeric(x, 5)", False),
        ("histogram_numeric(n, 5)", "histogram_numeric(n, 9)", False),
    ],
    "HllSketchAgg": [
        ("hll_sketch_agg(n)", "hll_sketch_agg(s)", False),
        ("hll_sketch_agg(n, 12)", "hll_sketch_agg(n, 10)", False),
    ],
    "HllUnionAgg": [
        ("hll_union_agg(bin)", "hll_union_agg(bin, true)", False),
        ("hll_union_agg(bin)", "theta_union_agg(bin)", False),
    ],
    "HyperLogLogPlusPlus": [
        ("approx_count_distinct(n)", "approx_count_distinct(s)", False),
        ("approx_count_distinct(n, 0.05)", "approx_count_distinct(n, 0.01)", False),
    ],
    "KllMergeAggBigint": [("kll_merge_agg_bigint(bin)", "kll_merge_agg_double(bin)", False)],
    "KllMergeAggDouble": [("kll_merge_agg_double(bin)", "kll_merge_agg_float(bin)", False)],
    "KllMergeAggFloat": [("kll_merge_agg_float(bin)", "kll_merge_agg_bigint(bin)", False)],
    "KllSketchAggBigint": [
        ("kll_sketch_agg_bigint(big)", "kll_sketch_agg_double(x)", False),
        ("kll_sketch_agg_bigint(big, 100)", "kll_sketch_agg_bigint(big, 200)", False),
    ],
    "KllSketchAggDouble": [("kll_sketch_agg_double(x)", "kll_sketch_agg_double(f)", False)],
    "KllSketchAggFloat": [("kll_sketch_agg_float(f)", "kll_sketch_agg_double(f)", False)],
    "ListAgg": [
        ("listagg(s, ',')", "listagg(CAST(s AS BINARY), X'2C')", False),
        ("listagg(s, ',') WITHIN GROUP (ORDER BY n)", "listagg(s, ',') WITHIN GROUP (ORDER BY x)", False),
        ("listagg(s, ',')", "listagg(s, ';')", True),
    ],
    "MaxMinByK": [
        ("max_by(n, at, 3)", "max_by(n, at, 4)", False),
        ("max_by(n, at, 3)", "min_by(n, at, 3)", False),
        ("max_by(n, at, 3)", "max_by(s, at, 3)", False),
    ],
    "Mode": [("mode(n)", "mode(s)", False), ("mode(n)", "mode(n, true)", True)],
    "Percentile": [
        ("percentile(n, 0.5)", "percentile(x, 0.5)", False),
        ("percentile(n, 0.5)", "percentile(n, 0.5, m)", False),
        ("percentile(n, 0.5)", "percentile(n, array(0.5, 0.9))", True),
        ("median(n)", "percentile_cont(0.9) WITHIN GROUP (ORDER BY n DESC)", True),
    ],
    "PercentileDisc": [
        (
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY n)",
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY x)",
            False,
        ),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY n)", "percentile_disc(0.9) WITHIN GROUP (ORDER BY n DESC)", True),
    ],
    "SchemaOfVariantAgg": [("schema_of_variant_agg(v)", "collect_list(CAST(v AS STRING))", False)],
    "ThetaIntersectionAgg": [("theta_intersection_agg(bin)", "theta_union_agg(bin)", False)],
    "ThetaSketchAgg": [
        ("theta_sketch_agg(n)", "theta_sketch_agg(s)", False),
        ("theta_sketch_agg(n, 12)", "theta_sketch_agg(n, 10)", False),
    ],
    "ThetaUnionAgg": [("theta_union_agg(bin, 12)", "theta_union_agg(bin, 10)", False)],
    "TupleIntersectionAggDouble": [
        ("tuple_intersection_agg_double(bin)", "tuple_intersection_agg_integer(bin)", False)
    ],
    "TupleIntersectionAggInteger": [
        ("tuple_intersection_agg_integer(bin)", "tuple_intersection_agg_double(bin)", False)
    ],
    "TupleSketchAggDouble": [
        ("tuple_sketch_agg_double(n, x)", "tuple_sketch_agg_double(s, x)", False),
        ("tuple_sketch_agg_double(n, x, 12)", "tuple_sketch_agg_double(n, x, 10)", False),
    ],
    "TupleSketchAggInteger": [("tuple_sketch_agg_integer(n, m)", "tuple_sketch_agg_integer(s, m)", False)],
    "TupleUnionAggDouble": [("tuple_union_agg_double(bin)", "tuple_union_agg_integer(bin)", False)],
    "TupleUnionAggInteger": [("tuple_union_agg_integer(bin)", "tuple_union_agg_double(bin)", False)],
    "VectorAvg": [("vector_avg(vec)", "vector_sum(vec)", False)],
    "VectorSum": [("vector_sum(vec)", "vector_avg(vec)", False)],
}
"""Each function that keeps what Spark does not describe: a query, another one, and whether its state would fit."""

NOT_IN_QUERIES = {
    "ApproxCountDistinctForIntervals": "statistics of columns, which Spark makes for itself",
    "ApproxTopKCombine": "tested by its input: a struct that only approx_top_k_accumulate makes",
    "BloomFilterAggregate": "runtime filters of joins, which Spark makes for itself",
    "CollectFrequentItems": "DataFrame.stat, which takes no stream",
    "CollectTopK": "pandas on Spark, which takes no stream",
    "CollectUnion": "pandas on Spark, which takes no stream",
    "ComplexTypedAggregateExpression": "typed Datasets, which Python has none of",
    "HiveUDAFFunction": "functions of Hive, which streams do not call",
    "PandasMode": "pandas on Spark, which takes no stream",
    "PivotFirst": "pivot, which takes no stream",
    "ScalaAggregator": "functions that Scala registers; their encoders are in the form",
    "ScalaUDAF": "functions that Scala registers; their class is in the form",
    "V2Aggregator": "functions of catalogs; their class is in the form",
}
"""Functions that no query of a job calls by name."""


@pytest.fixture(scope="module")
def forms(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("events")
    for name in ("events", "others"):
        rows = spark.readStream.format("parquet").schema(SCHEMA).load(str(place))
        rows.withWatermark("at", "10 seconds").createOrReplaceTempView(name)

    def described(sql: str, mode: str = "update") -> tuple[StateForm, ...]:
        return describe_forms(spark, spark.sql(sql), mode)

    return described


CASES = [
    pytest.param(name, was, now, fits, id=f"{was} -> {now}")
    for name, cases in FUNCTIONS.items()
    for was, now, fits in cases
]


@pytest.mark.parametrize(("name", "was", "now", "fits"), CASES)
def test_a_function_goes_on_only_with_what_it_has_collected(
    forms: Any, name: str, was: str, now: str, fits: bool
) -> None:
    (before,) = forms(f"SELECT k, {was} FROM events GROUP BY k")
    (after,) = forms(f"SELECT k, {now} FROM events GROUP BY k")

    assert before.aggregates[0].function == name
    assert before.aggregates[0].opaque
    assert differences(before, before) == ()
    assert (differences(before, after) == ()) is fits, differences(before, after)


def test_the_table_has_each_function_of_spark_that_keeps_what_it_does_not_describe(spark: SparkSession) -> None:
    found = {name.rpartition(".")[2] for name in imperative_functions(spark)}

    assert found == FUNCTIONS.keys() | NOT_IN_QUERIES.keys()


_PLACE = re.compile(r"org/apache/spark/sql/(catalyst/expressions|execution|hive)/[^$]*\.class")


def imperative_functions(spark: SparkSession) -> list[str]:
    """Return the classes of Spark's jars that are aggregate functions with buffers of their own."""
    jvm = java_of(spark)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    base = jvm.java.lang.Class.forName(
        "org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate", False, loader
    )
    found = []
    for jar in sorted(Path(pyspark.__file__).parent.glob("jars/spark-*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if not _PLACE.fullmatch(entry) or b"mutableAggBufferOffset" not in archive.read(entry):
                    continue
                kind = jvm.java.lang.Class.forName(entry.removesuffix(".class").replace("/", "."), False, loader)
                if base.isAssignableFrom(kind) and not jvm.java.lang.reflect.Modifier.isAbstract(kind.getModifiers()):
                    found.append(kind.getName())
    return found


QUERIES = {
    "a longer window": ("GROUP BY window(at, '10 seconds')", "GROUP BY window(at, '20 seconds')", "10 s long, and are"),
    "another slide": (
        "GROUP BY window(at, '10 seconds', '5 seconds')",
        "GROUP BY window(at, '10 seconds', '2 seconds')",
        "10 s long every 5 s, and are 10 s long every 2 s",
    ),
    "another start": (
        "GROUP BY window(at, '10 seconds', '10 seconds')",
        "GROUP BY window(at, '10 seconds', '10 seconds', '3 seconds')",
        "and are 10 s long from 3 s on",
    ),
    "another gap": (
        "GROUP BY k, session_window(at, '7 seconds')",
        "GROUP BY k, session_window(at, '8 seconds')",
        "sessions with a gap of 7 s, and are sessions with a gap of 8 s",
    ),
    "an hour instead of a day": ("GROUP BY date_trunc('hour', at)", "GROUP BY date_trunc('day', at)", "another way"),
    "the beginning of another window": (
        "GROUP BY window(at, '1 minute').start",
        "GROUP BY window(at, '5 minutes').start",
        "another way",
    ),
    "another computed key": ("GROUP BY n % 10", "GROUP BY n % 20", "another way"),
}


@pytest.mark.parametrize("name", core(QUERIES, "a longer window"))
def test_other_windows_and_keys_are_other_state(forms: Any, name: str) -> None:
    was, now, words = QUERIES[name]
    (before,) = forms(f"SELECT count(*) FROM events {was}")
    (after,) = forms(f"SELECT count(*) FROM events {now}")

    (reason,) = differences(before, after)
    assert words in reason


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("GROUP BY window(at, '60 seconds')", "GROUP BY window(at, '1 minute')"),
        ("GROUP BY date_trunc('hour', at)", "GROUP BY date_trunc('HOUR', at)"),
        ("GROUP BY lower(k)", "GROUP BY lower(lower(k))"),
    ],
)
def test_the_same_windows_and_keys_in_other_words_are_the_same_state(forms: Any, was: str, now: str) -> None:
    (before,) = forms(f"SELECT count(*) FROM events {was}")
    (after,) = forms(f"SELECT count(*) FROM events {now}")

    assert differences(before, after) == ()


@pytest.mark.parametrize(
    ("key", "plain"),
    [
        ("n", True),
        ("CAST(n AS BIGINT)", True),
        ("CAST(CAST(f AS INT) AS DOUBLE)", False),
        ("CAST(CAST(big AS FLOAT) AS BIGINT)", False),
        ("n + 1", False),
    ],
)
def test_a_key_is_a_column_only_if_no_cast_loses_a_part_of_its_values(forms: Any, key: str, plain: bool) -> None:
    (form,) = forms(f"SELECT count(*) FROM events GROUP BY {key}")

    assert form.keys[0].plain is plain


def test_a_window_that_another_operator_makes_is_seen(forms: Any, spark: SparkSession) -> None:
    windows = {}
    for size in ("1 minute", "2 minutes"):
        spark.sql(f"SELECT window(at, '{size}') AS w, n FROM events").createOrReplaceTempView("windowed")
        (windows[size],) = forms("SELECT count(*) FROM windowed GROUP BY w")

    (reason,) = differences(windows["1 minute"], windows["2 minutes"])
    assert "60 s long, and are 120 s long" in reason


@pytest.mark.parametrize(
    ("behind", "time"),
    [("SELECT DISTINCT k, n, at FROM events", "at"), ("SELECT k, max(at) AS latest FROM events GROUP BY k", "latest")],
)
def test_a_window_behind_other_state_of_the_query_is_seen(
    forms: Any, spark: SparkSession, behind: str, time: str
) -> None:
    spark.sql(behind).createOrReplaceTempView("behind")
    before, after = (
        forms(f"SELECT count(*) FROM behind GROUP BY window({time}, '{size} minute')")[0] for size in (1, 2)
    )

    (reason,) = differences(before, after)
    assert "60 s long, and are 120 s long" in reason


JOIN = (
    "SELECT * FROM events {} JOIN others ON events.n = others.n "
    "AND others.at BETWEEN events.at - interval {} AND events.at + interval 1 hour"
)


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        (("", "5 minutes"), ("", "50 minutes"), "right side were kept until the watermark was 300001 ms past them"),
        (("", "5 minutes"), ("", "1 minute"), None),
        (("", "5 minutes"), ("LEFT OUTER", "5 minutes"), "join of the kind INNER, and is one of the kind LEFT OUTER"),
    ],
)
def test_a_join_that_would_miss_rows_is_other_state(
    forms: Any, was: tuple[str, str], now: tuple[str, str], words: str | None
) -> None:
    (before,) = forms(JOIN.format(*was), "append")
    (after,) = forms(JOIN.format(*now), "append")

    found = differences(before, after)
    assert (words is None and not found) or (words is not None and words in found[0])


def test_a_join_on_another_column_of_the_same_type_is_other_state(forms: Any) -> None:
    sql = JOIN.format("", "5 minutes")
    (before,) = forms(sql, "append")
    (after,) = forms(sql.replace("events.n", "events.m"), "append")

    assert differences(before, after) == ("its key was ['n = n'], and is ['m = n']",)


@pytest.mark.parametrize(("was", "now", "fits"), [("10 seconds", "1 hour", False), ("1 hour", "10 seconds", True)])
def test_keys_that_are_to_be_kept_longer_than_they_were_are_other_state(
    spark: SparkSession, tmp_path: Path, was: str, now: str, fits: bool
) -> None:
    def deduplicated(delay: str) -> StateForm:
        rows = spark.readStream.format("parquet").schema(SCHEMA).load(str(tmp_path)).withWatermark("at", delay)
        (form,) = describe_forms(spark, rows.dropDuplicatesWithinWatermark(["k"]), "append")
        return form

    assert (differences(deduplicated(was), deduplicated(now)) == ()) is fits


def test_what_keeps_no_state_has_no_form(forms: Any) -> None:
    assert forms("SELECT upper(k) FROM events") == ()
