"""Grouping by the fields of a window gives the same groups as grouping by the window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.integration.runtime.spark_settings import setting

from streamjob_runtime.spark.gateway import java_frame, java_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

SWITCH = "spark.streamjob.flatWindows"
# Around 1970, before Spark's calendar changes in 1582, at both changes of the clock in Europe in 2024, and far ahead.
MOMENTS = (0, -1, -12_219_292_800_000_000, 1_711_846_800_000_000, 1_729_990_800_000_000, 32_503_680_000_000_000)
WINDOWS = (
    "window(ts, '10 seconds')",
    "window(ts, '10 seconds', '2 seconds')",
    "window(ts, '7 seconds', '3 seconds')",
    "window(ts, '1 hour', '1 hour', '13 minutes')",
    "window(ts, '1 day')",
    "window(CAST(ts AS TIMESTAMP_NTZ), '1 day', '6 hours')",
)
FUNCTIONS = "count(*) AS n, sum(v) AS s, min(v) AS low, max(name) AS high, avg(v) AS mean, count(v) AS known"


def _physical(frame: DataFrame) -> str:
    return str(java_frame(frame).queryExecution().executedPlan().toString())


def _rows(spark: SparkSession, sql: str, *, flat: bool) -> list[str]:
    with setting(spark, SWITCH, str(flat).lower()):
        return sorted(map(str, spark.sql(sql).collect()))


@pytest.mark.parametrize("window", WINDOWS)
def test_the_first_step_of_an_aggregation_groups_by_the_fields_of_a_window(spark: SparkSession, window: str) -> None:
    spark.range(10).selectExpr("timestamp_seconds(id) AS ts", "id AS v").createOrReplaceTempView("flat")
    sql = f"SELECT {window} AS w, v % 3 AS k, count(*) AS n FROM flat GROUP BY {window}, v % 3"

    with setting(spark, SWITCH, "true"):
        flat = _physical(spark.sql(sql))
    with setting(spark, SWITCH, "false"):
        plain = _physical(spark.sql(sql))

    assert "keys=[window_0#" in flat
    assert "window_0#" not in plain


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.none()
            | st.sampled_from(MOMENTS).flatmap(lambda at: st.integers(-20_000_000, 20_000_000).map(at.__add__)),
            st.none() | st.integers(-5, 5),
            st.none() | st.sampled_from(["a", "b", ""]),
        ),
        max_size=40,
    ),
    window=st.sampled_from(WINDOWS),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/Sao_Paulo"]),
    ansi=st.booleans(),
)
def test_groups_are_the_same_for_any_rows_and_windows(
    spark: SparkSession, rows: list[tuple[int | None, int | None, str | None]], window: str, zone: str, ansi: bool
) -> None:
    with (
        setting(spark, "spark.sql.session.timeZone", zone),
        setting(spark, "spark.sql.ansi.enabled", str(ansi).lower()),
    ):
        made = spark.createDataFrame(rows, "micros BIGINT, v INT, name STRING").repartition(3)
        made.selectExpr("timestamp_micros(micros) AS ts", "v", "name").createOrReplaceTempView("flat")
        sql = (
            f"SELECT CAST(w.start AS STRING), CAST(w.end AS STRING), name, {FUNCTIONS} "
            f"FROM (SELECT {window} AS w, name, v FROM flat) GROUP BY w, name"
        )

        assert _rows(spark, sql, flat=True) == _rows(spark, sql, flat=False)


def test_a_struct_that_an_aggregate_reads_too_stays(spark: SparkSession) -> None:
    spark.range(10).selectExpr("timestamp_seconds(id) AS ts").createOrReplaceTempView("flat")
    sql = "SELECT w, max(w.end) AS last, count(*) AS n FROM (SELECT window(ts, '4 seconds') AS w FROM flat) GROUP BY w"

    assert _rows(spark, sql, flat=True) == _rows(spark, sql, flat=False)


def test_other_structs_stay_as_they_are(spark: SparkSession) -> None:
    spark.range(10).createOrReplaceTempView("flat")
    frame = spark.sql(
        "SELECT s, count(*) AS n FROM (SELECT struct(id % 2 AS a, id % 3 AS b) AS s FROM flat) GROUP BY s"
    )

    assert "window_0#" not in _physical(frame)
    assert frame.count() == 6


def test_state_does_not_depend_on_the_rule(spark: SparkSession, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    counts: dict[str, int] = {}

    def process(batch: DataFrame, _: int) -> None:
        counts.update((row["start"], row["n"]) for row in batch.collect())

    for run, flat in enumerate((True, False, True)):
        (source / f"{run}.txt").write_text("".join(f"{second}\n" for second in range(40)))
        with setting(spark, SWITCH, str(flat).lower()):
            lines = spark.readStream.text(str(source)).selectExpr("timestamp_seconds(CAST(value AS BIGINT)) AS ts")
            lines.createOrReplaceTempView("flat")
            frame = spark.sql(
                "SELECT CAST(w.start AS STRING) AS start, n "
                "FROM (SELECT window(ts, '10 seconds') AS w, count(*) AS n FROM flat GROUP BY window(ts, '10 seconds'))"
            )
            writer = frame.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
            query = writer.foreachBatch(process).trigger(availableNow=True).start()
            query.awaitTermination()
        plan = java_query(query).streamingQuery().lastExecution().executedPlan().toString()
        assert ("window_0#" in plan) == flat

    assert list(counts.values()) == [30, 30, 30, 30]
