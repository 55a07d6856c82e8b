"""Aggregating the rows of each pane first gives the same sliding windows as repeating each row for its windows."""

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

SWITCH = "spark.streamjob.windowPanes"
# Around 1970, before Spark's calendar changes in 1582, at both changes of the clock in Europe in 2024, and far ahead.
MOMENTS = (0, -1, -12_219_292_800_000_000, 1_711_846_800_000_000, 1_729_990_800_000_000, 32_503_680_000_000_000)
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


def _physical(frame: DataFrame) -> str:
    return str(java_frame(frame).queryExecution().executedPlan().toString())


def _is_by_panes(plan: str) -> bool:
    return "pane#" in plan


def _rows(spark: SparkSession, sql: str, *, panes: bool) -> list[str]:
    with setting(spark, SWITCH, str(panes).lower()):
        frame = spark.sql(sql)
        assert _is_by_panes(_physical(frame)) == panes
        return sorted(map(str, frame.collect()))


def _grouped(window: str, functions: str, keys: str = "v % 3") -> str:
    return f"SELECT {functions} FROM events GROUP BY {window}, {keys}"


@pytest.fixture
def events(spark: SparkSession) -> SparkSession:
    """Return a session with a table of events."""
    columns = ("timestamp_seconds(id) AS ts", "CAST(id AS INT) AS v", "CAST(id % 7 AS STRING) AS name")
    spark.range(50).selectExpr(*columns).createOrReplaceTempView("events")
    return spark


@pytest.mark.parametrize("window", WINDOWS)
def test_sliding_windows_are_aggregated_by_panes_first(events: SparkSession, window: str) -> None:
    assert _is_by_panes(_physical(events.sql(_grouped(window, FUNCTIONS))))


@pytest.mark.parametrize("window", OTHER_WINDOWS)
def test_windows_with_few_or_uneven_panes_are_left_alone(events: SparkSession, window: str) -> None:
    assert not _is_by_panes(_physical(events.sql(_grouped(window, "count(*)"))))


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
    assert not _is_by_panes(_physical(events.sql(_grouped(WINDOWS[0], f"count(*), {function}"))))


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

    assert not _is_by_panes(_physical(frame))
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


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    keys=st.sampled_from(KEYS),
    flat=st.booleans(),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/Sao_Paulo"]),
    ansi=st.booleans(),
)
def test_groups_are_the_same_for_any_rows_and_windows(
    spark: SparkSession,
    rows: list[tuple[int | None, int | None, str | None]],
    window: str,
    keys: str,
    flat: bool,
    zone: str,
    ansi: bool,
) -> None:
    with (
        setting(spark, "spark.sql.session.timeZone", zone),
        setting(spark, "spark.sql.ansi.enabled", str(ansi).lower()),
        setting(spark, "spark.streamjob.flatWindows", str(flat).lower()),
    ):
        made = spark.createDataFrame(rows, "micros BIGINT, v INT, name STRING").repartition(3)
        made.selectExpr("timestamp_micros(micros) AS ts", "v", "name").createOrReplaceTempView("events")
        bounds = f"CAST({window}.start AS STRING) AS begins, CAST({window}.end AS STRING) AS ends"
        sql = _grouped(window, f"{bounds}, {keys}, {FUNCTIONS}", keys)

        assert _rows(spark, sql, panes=True) == _rows(spark, sql, panes=False)


def test_state_does_not_depend_on_the_rule(spark: SparkSession, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    counts: dict[str, int] = {}

    def process(batch: DataFrame, _: int) -> None:
        counts.update((row["start"], row["n"]) for row in batch.collect())

    for run, panes in enumerate((True, False, True)):
        (source / f"{run}.txt").write_text("".join(f"{second}\n" for second in range(40)))
        with setting(spark, SWITCH, str(panes).lower()):
            lines = spark.readStream.text(str(source)).selectExpr("timestamp_seconds(CAST(value AS BIGINT)) AS ts")
            lines.createOrReplaceTempView("events")
            window = "window(ts, '12 seconds', '3 seconds')"
            frame = spark.sql(
                f"SELECT CAST(w.start AS STRING) AS start, n "
                f"FROM (SELECT {window} AS w, count(*) AS n FROM events GROUP BY {window})"
            )
            writer = frame.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
            query = writer.foreachBatch(process).trigger(availableNow=True).start()
            query.awaitTermination()
        plan = java_query(query).streamingQuery().lastExecution().executedPlan().toString()
        assert _is_by_panes(plan) == panes

    assert sum(counts.values()) == 3 * 40 * 4
    assert max(counts.values()) == 3 * 12
