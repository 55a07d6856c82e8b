"""Aggregating the rows of each pane first gives the same sliding windows as repeating each row for its windows."""

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

SWITCH = "spark.streamjob.windowPanes"
WINDOWS = (
    "window(ts, '10 seconds', '2 seconds')",
    "window(ts, '1 hour', '5 minutes', '90 seconds')",
    "window(CAST(ts AS TIMESTAMP_NTZ), '1 day', '6 hours')",
)
OTHER_WINDOWS = (
    "window(ts, '10 seconds')",
    "window(ts, '10 seconds', '5 seconds')",
    "window(ts, '10 seconds', '3 seconds')",
)
NINE = "window(ts, '9 seconds', '3 seconds')"
FUNCTIONS = (
    "count(*) AS n, count(v) AS known, sum(v) AS s, avg(v) AS mean, min(v) AS low, max(v) AS high, "
    "sum(CAST(v AS DECIMAL(10,2))) AS exact, avg(CAST(v AS DECIMAL(20,2))) AS middle, "
    "count(*) FILTER (WHERE v > 0) AS some, approx_count_distinct(v) AS kinds, sum(v * 2 + length(name)) AS computed"
)
KEYS = ("name", "v % 3", "CAST(v AS DOUBLE) / 2", "name, v IS NULL")


def _is_by_panes(plan: str) -> bool:
    return "pane#" in plan


def _rows(spark: SparkSession, sql: str, *, panes: bool) -> list[str]:
    with setting(spark, SWITCH, str(panes).lower()):
        frame = spark.sql(sql)
        assert _is_by_panes(physical(frame)) == panes
        return sorted(map(str, frame.collect()))


def _grouped(window: str, functions: str, keys: str = "v % 3") -> str:
    return f"SELECT {functions} FROM events GROUP BY {window}, {keys}"


@pytest.fixture
def events(spark: SparkSession) -> SparkSession:
    """Return a session with a table of events."""
    columns = ("timestamp_seconds(id) AS ts", "CAST(id AS INT) AS v", "CAST(id % 7 AS STRING) AS name")
    spark.range(50).selectExpr(*columns).createOrReplaceTempView(VIEW)
    return spark


@pytest.mark.parametrize("window", WINDOWS)
def test_sliding_windows_are_aggregated_by_panes_first(events: SparkSession, window: str) -> None:
    assert _is_by_panes(physical(events.sql(_grouped(window, FUNCTIONS))))


@pytest.mark.parametrize("window", OTHER_WINDOWS)
def test_windows_with_few_or_uneven_panes_are_left_alone(events: SparkSession, window: str) -> None:
    assert not _is_by_panes(physical(events.sql(_grouped(window, "count(*)"))))


@pytest.mark.parametrize(
    "function",
    [
        "sum(CAST(v AS DOUBLE))",
        "avg(CAST(v AS FLOAT))",
        "avg(CAST(v AS BIGINT))",
        "first(v)",
        "collect_list(v)",
        "max_by(name, v)",
        # Spark adds short decimals as doubles.
        "avg(CAST(v AS DECIMAL(10,2)))",
    ],
)
def test_a_function_whose_result_may_depend_on_the_order_of_rows_is_left_alone(
    events: SparkSession, function: str
) -> None:
    assert not _is_by_panes(physical(events.sql(_grouped(WINDOWS[0], f"count(*), {function}"))))


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT max(w.end), count(*) FROM (SELECT {NINE} AS w FROM events) GROUP BY w",
        f"SELECT count(*) FROM (SELECT {NINE} AS w, ts FROM events) WHERE ts < w.start + INTERVAL 5 SECOND GROUP BY w",
        "SELECT k, count(*) FROM (SELECT explode(array(v, v + 1, v % 3, v % 5)) AS k FROM events) GROUP BY k",
        "SELECT v, name, count(*) FROM events GROUP BY CUBE (v, name)",
    ],
)
def test_other_uses_of_windows_and_of_repeated_rows_are_left_alone(events: SparkSession, sql: str) -> None:
    frame = events.sql(sql)

    assert not _is_by_panes(physical(frame))
    assert frame.collect()


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT s, count(*) FROM (SELECT second(w.start) % 7 AS s FROM (SELECT {NINE} AS w FROM events)) GROUP BY s",
        f"SELECT count(*), count(DISTINCT v % 5) FROM events GROUP BY {NINE}",
        f"SELECT sum(k) FROM (SELECT v * 2 AS k, ts FROM events WHERE v > 3) GROUP BY {NINE}",
    ],
)
def test_keys_may_be_computed_from_windows_and_rows_from_others(events: SparkSession, sql: str) -> None:
    assert _rows(events, sql, panes=True) == _rows(events, sql, panes=False)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=ROWS,
    window=st.sampled_from(WINDOWS),
    keys=st.sampled_from(KEYS),
    zone=ZONES,
    ansi=st.booleans(),
)
def test_groups_are_the_same_for_any_rows_and_windows(
    spark: SparkSession,
    rows: list[tuple[int | None, int | None, str | None]],
    window: str,
    keys: str,
    zone: str,
    ansi: bool,
) -> None:
    with (
        setting(spark, "spark.sql.session.timeZone", zone),
        setting(spark, "spark.sql.ansi.enabled", str(ansi).lower()),
    ):
        show(spark, rows)
        bounds = f"CAST({window}.start AS STRING) AS begins, CAST({window}.end AS STRING) AS ends"
        sql = _grouped(window, f"{bounds}, {keys}, {FUNCTIONS}", keys)

        assert _rows(spark, sql, panes=True) == _rows(spark, sql, panes=False)


def test_state_does_not_depend_on_the_rule(spark: SparkSession, tmp_path: Path) -> None:
    counts = counted_in_turn(spark, tmp_path, SWITCH, "window(ts, '12 seconds', '3 seconds')", _is_by_panes)

    assert sum(counts.values()) == 3 * 40 * 4
    assert max(counts.values()) == 3 * 12
