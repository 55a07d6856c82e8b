"""Grouping by the fields of a window gives the same groups as grouping by the window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.integration.runtime.spark_settings import setting
from tests.integration.runtime.window_rules import ROWS, VIEW, ZONES, counted_in_turn, physical, show

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

SWITCH = "spark.streamjob.flatWindows"
WINDOWS = (
    "window(ts, '10 seconds')",
    "window(ts, '10 seconds', '2 seconds')",
    "window(ts, '7 seconds', '3 seconds')",
    "window(ts, '1 hour', '1 hour', '13 minutes')",
    "window(ts, '1 day')",
    "window(CAST(ts AS TIMESTAMP_NTZ), '1 day', '6 hours')",
)
FUNCTIONS = "count(*) AS n, sum(v) AS s, min(v) AS low, max(name) AS high, avg(v) AS mean, count(v) AS known"


def _rows(spark: SparkSession, sql: str, *, flat: bool) -> list[str]:
    with setting(spark, SWITCH, str(flat).lower()):
        return sorted(map(str, spark.sql(sql).collect()))


@pytest.mark.parametrize("window", WINDOWS)
def test_the_first_step_of_an_aggregation_groups_by_the_fields_of_a_window(spark: SparkSession, window: str) -> None:
    spark.range(10).selectExpr("timestamp_seconds(id) AS ts", "id AS v").createOrReplaceTempView(VIEW)
    sql = f"SELECT {window} AS w, v % 3 AS k, count(*) AS n FROM events GROUP BY {window}, v % 3"

    with setting(spark, SWITCH, "true"):
        flat = physical(spark.sql(sql))
    with setting(spark, SWITCH, "false"):
        plain = physical(spark.sql(sql))

    assert "keys=[window_0#" in flat
    assert "window_0#" not in plain


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, window=st.sampled_from(WINDOWS), zone=ZONES, ansi=st.booleans())
def test_groups_are_the_same_for_any_rows_and_windows(
    spark: SparkSession, rows: list[tuple[int | None, int | None, str | None]], window: str, zone: str, ansi: bool
) -> None:
    with (
        setting(spark, "spark.sql.session.timeZone", zone),
        setting(spark, "spark.sql.ansi.enabled", str(ansi).lower()),
    ):
        show(spark, rows)
        sql = (
            f"SELECT CAST(w.start AS STRING), CAST(w.end AS STRING), name, {FUNCTIONS} "
            f"FROM (SELECT {window} AS w, name, v FROM events) GROUP BY w, name"
        )

        assert _rows(spark, sql, flat=True) == _rows(spark, sql, flat=False)


def test_a_struct_that_an_aggregate_reads_too_stays(spark: SparkSession) -> None:
    spark.range(10).selectExpr("timestamp_seconds(id) AS ts").createOrReplaceTempView(VIEW)
    sql = (
        "SELECT w, max(w.end) AS last, count(*) AS n FROM (SELECT window(ts, '4 seconds') AS w FROM events) GROUP BY w"
    )

    assert _rows(spark, sql, flat=True) == _rows(spark, sql, flat=False)


def test_other_structs_stay_as_they_are(spark: SparkSession) -> None:
    spark.range(10).createOrReplaceTempView(VIEW)
    frame = spark.sql(
        "SELECT s, count(*) AS n FROM (SELECT struct(id % 2 AS a, id % 3 AS b) AS s FROM events) GROUP BY s"
    )

    assert "window_0#" not in physical(frame)
    assert frame.count() == 6


def test_state_does_not_depend_on_the_rule(spark: SparkSession, tmp_path: Path) -> None:
    counts = counted_in_turn(spark, tmp_path, SWITCH, "window(ts, '10 seconds')", lambda plan: "window_0#" in plan)

    assert list(counts.values()) == [30, 30, 30, 30]
