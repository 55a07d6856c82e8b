"""Errors that only Spark can find: a senseless operator is named, and nothing has started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import Life, running
from tests.integration.runtime.purchases import write_job
from tests.jobs import job_file, python, sink, source, sql

from streamjob.errors import InvalidInput, InvalidJob
from streamjob.job.loading.load import load_job
from streamjob_runtime.process.checking.validation import validate_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

WATERMARK = {"column": "timestamp", "delay": "1s"}
STEPS = """
import pandas
from pyspark.sql import functions as f

@f.pandas_udf("double")
def mean(values: "pandas.Series") -> float:
    return values.mean()

def averaged(events):
    return events.groupBy(f.window("timestamp", "1 second")).agg(mean("value"))

def folded(events):
    return events.withColumn("number", f.expr("CAST('abc' AS INT)"))

def undefined(events):
    return events.withColumn("shop", shop_of("value"))

def _joined(left, right, name):
    near = "l.value = r.value AND l.timestamp BETWEEN r.timestamp - INTERVAL 10 SECONDS AND r.timestamp"
    return left.alias("l").join(right.alias("r"), f.expr(near)).selectExpr("l.*", f"r.timestamp AS {name}")

def deduplicated(left, right):
    return _joined(left, right, "second").dropDuplicates()

def joined_twice(left, right):
    return _joined(_joined(left, right, "second"), right, "third")

def with_one_event_time(left, right):
    return _joined(left, right, "second").selectExpr(
        "value", "timestamp", "second + INTERVAL 0 SECONDS AS second"
    ).dropDuplicates()

def avro(events):
    from pyspark.sql.avro.functions import from_avro

    return events.select(from_avro(f.encode(f.col("value").cast("string"), "utf-8"), '"long"'))

def nothing(events):
    return None

def still(events):
    return events.sparkSession.range(3)

def endless(events):
    return events.groupBy("value").count()

def rare(events):
    return events.groupBy("value").count().dropDuplicates(["count"])

def ranked(events):
    countries = events.sparkSession.range(9).withColumnRenamed("id", "value")
    counts = events.union(events).dropDuplicates(["value"]).groupBy("value").count()
    return counts.join(countries, "value").where("count > 1").orderBy("count").limit(3)

def misspelt(events):
    return events.select("vlaue")
"""

AVRO = """SELECT from_avro(encode(CAST(value AS STRING), 'utf-8'), '"long"', map()) AS value FROM events"""
SESSIONS = (
    "SELECT session_window.start, count(*) AS n FROM events GROUP BY session_window(timestamp, '10 seconds'), value"
)
STAR = "SELECT named_struct('a', value) AS r, r.* FROM events"


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ({"sql": "SELECT vlaue FROM events"}, ["'broken'", "vlaue"]),
        ({"python": "steps:misspelt"}, ["'broken'", "vlaue"]),
        ({"python": "steps:nothing"}, ["'broken'", "returned NoneType", "return the DataFrame"]),
        ({"python": "steps:still"}, ["'broken'", "does not stream"]),
        ({"python": "steps:endless"}, ["'broken'", "as one query", "append", "watermark"]),
        (
            {"python": "steps:undefined"},
            ["'broken'", "steps.py, line 16: NameError", "shop_of"],
        ),
        ({"python": "steps:averaged"}, ["'broken'", "as one query", "pandas"]),
        ({"python": "steps:folded"}, ["'broken'", "as one query", "abc"]),
        ({"python": "steps:avro"}, ["'broken'", "decode the records in the source"]),
        ({"sql": AVRO}, ["'broken'", "decode the records in the source"]),
        ({"sql": SESSIONS, "outputMode": "update"}, ["'broken'", "session", "leave outputMode out"]),
        ({"sql": STAR}, ["'broken'", "r.*", "compute the column in a query inside"]),
    ],
    ids=[
        "sql",
        "python",
        "no frame",
        "no stream",
        "never complete",
        "mistake",
        "no physical plan",
        "not optimized",
        "avro",
        "avro in sql",
        "updated sessions",
        "star",
    ],
)
def test_an_operator_that_spark_refuses_is_named(
    spark: SparkSession,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    operator: dict[str, Any],
    words: list[str],
) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    broken = {"name": "broken", "inputs": ["events"], **operator}
    # Updated rows may be written again only where none is kept.
    sinks = [sink("broken") if "outputMode" in operator else sink("broken", "json", "out")]
    file = write_job(tmp_path, job_file(broken, sources=[source("events", watermark=WATERMARK)], sinks=sinks))

    with running(spark, life_of(file)) as job, pytest.raises(InvalidInput) as refused:
        job.wait()

    for word in words:
        assert word in str(refused.value)
    assert "Relation" not in str(refused.value), "the message has Spark's plan"
    assert "vlaue" not in capfd.readouterr().err
    assert not list((tmp_path / "snapshots").rglob("manifest.json"))


def life_of(file: Path) -> Life:
    return Life(file=file, location=str(file.parent / "snapshots"))


def of_two_streams(directory: Path, function: str) -> Path:
    """Write a job of an operator that reads two streams with a watermark; return its file."""
    (directory / "steps.py").write_text(STEPS)
    sources = [source(name, watermark=WATERMARK) for name in ("left", "right")]
    broken = python("broken", ["left", "right"], f"steps:{function}")
    return write_job(directory, job_file(broken, sources=sources, sinks=[sink("broken", "json", "out")]))


@pytest.mark.parametrize("function", ["deduplicated", "joined_twice"])
def test_an_operator_that_reads_two_event_times_is_refused_before_it_starts(
    spark: SparkSession, tmp_path: Path, function: str
) -> None:
    file = of_two_streams(tmp_path, function)

    with (
        running(spark, life_of(file)) as job,
        pytest.raises(InvalidInput, match="one event time before the operator that reads both"),
    ):
        job.wait(30)


def test_a_column_that_is_computed_from_an_event_time_is_none(spark: SparkSession, tmp_path: Path) -> None:
    validate_with(spark, tmp_path / "scratch", load_job(of_two_streams(tmp_path, "with_one_event_time")))


def test_a_mistake_in_the_function_of_a_source_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    sources, sinks = [source("events", python="steps:undefined")], [sink("events", "json", "out")]
    file = write_job(tmp_path, job_file(sources=sources, sinks=sinks))

    with (
        running(spark, life_of(file)) as job,
        pytest.raises(InvalidInput, match=r"Source 'events': steps.py, line 16: NameError"),
    ):
        job.wait(30)


def test_a_source_that_spark_refuses_is_named(spark: SparkSession, tmp_path: Path) -> None:
    sources = [source("ticks", options={"rowsPerSecond": "many"})]
    file = write_job(tmp_path, job_file(sources=sources, sinks=[sink("ticks", "json", "out")]))

    with running(spark, life_of(file)) as job, pytest.raises(InvalidInput, match="'ticks'"):
        job.wait(30)


def test_validate_names_all_that_spark_refuses(spark: SparkSession, tmp_path: Path) -> None:
    operators = [
        sql("column", "events", "SELECT vlaue FROM events"),
        sql("function", "events", "SELECT uper(value) AS v FROM events"),
        sql("types", "events", "SELECT value + array(1) AS v FROM events"),
        sql("behind", "column"),
    ]
    sinks = [sink(name, "json", name) for name in ("function", "types", "behind")]
    file = write_job(tmp_path, job_file(*operators, sources=[source("events")], sinks=sinks))

    with pytest.raises(InvalidJob) as refused:
        validate_with(spark, tmp_path / "scratch", load_job(file))

    named = [str(problem).partition(":")[0] for problem in refused.value.problems]
    assert named == ["operator 'column'", "operator 'function'", "operator 'types'"]
    for words in ("vlaue", "uper", "array"):
        assert words in str(refused.value).lower()


def test_validate_names_what_spark_cannot_run_together(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    endless = python("endless", "events", "steps:endless")
    file = write_job(tmp_path, job_file(endless, sources=[source("events")], sinks=[sink("endless", "json", "out")]))

    with pytest.raises(InvalidInput, match="as one query"):
        validate_with(spark, tmp_path / "scratch", load_job(file))


PAST = "SELECT value, count(*) AS n FROM events GROUP BY value UNION ALL SELECT value, 1 FROM others"


def replacing(directory: Path, operator: dict[str, Any]) -> Path:
    """Write a job of an operator whose whole results replace a table; return its file."""
    (directory / "steps.py").write_text(STEPS)
    whole = {"name": "whole", "outputMode": "complete", **operator}
    table = sink("whole", "delta", directory / "table", options={"mode": "replace"})
    return write_job(directory, job_file(whole, sources=[source(name) for name in whole["inputs"]], sinks=[table]))


@pytest.mark.parametrize(
    "operator",
    [{"inputs": ["events"], "python": "steps:rare"}, {"inputs": ["events", "others"], "sql": PAST}],
    ids=["only new rows", "rows past it"],
)
def test_an_operator_that_gives_no_whole_results_replaces_no_table(
    spark: SparkSession, tmp_path: Path, operator: dict[str, Any]
) -> None:
    file = replacing(tmp_path, operator)

    with pytest.raises(InvalidInput, match="does not give its whole result with each batch") as refused:
        validate_with(spark, tmp_path / "scratch", load_job(file))
    with running(spark, life_of(file)) as job, pytest.raises(type(refused.value)):
        job.wait(30)
    assert not (tmp_path / "table").exists()


def test_whatever_follows_an_aggregation_of_tables_and_rows_gives_whole_results(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = replacing(tmp_path, {"inputs": ["events"], "python": "steps:ranked"})

    validate_with(spark, tmp_path / "scratch", load_job(file))


def test_validate_leaves_everything_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    kept = sql("kept", "events", "SELECT value FROM events")
    file = write_job(tmp_path, job_file(kept, sources=[source("events")], sinks=[sink("kept", "json", "out")]))

    validate_with(spark, tmp_path / "scratch", load_job(file))

    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "scratch") == [file.name]
