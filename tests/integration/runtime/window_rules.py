"""Events for windows, and the plans, rows and states that a rule for Spark's plans leads to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from tests.integration.runtime.spark_settings import setting

from streamjob_runtime.spark.gateway import java_frame, java_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = "events"
# Around 1970, before Spark's calendar changes in 1582, at both changes of the clock in Europe in 2024, and far ahead.
_MOMENTS = (0, -1, -12_219_292_800_000_000, 1_711_846_800_000_000, 1_729_990_800_000_000, 32_503_680_000_000_000)
ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(_MOMENTS).flatmap(lambda at: st.integers(-20_000_000, 20_000_000).map(at.__add__)),
        st.none() | st.integers(-5, 5),
        st.none() | st.sampled_from(["a", "b", ""]),
    ),
    max_size=40,
)
"""Events: microseconds, a number and a name."""
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/Sao_Paulo"])


def show(spark: SparkSession, rows: list[tuple[int | None, int | None, str | None]]) -> None:
    """Make the view `events` of rows, in three partitions, with the columns `ts`, `v` and `name`."""
    made = spark.createDataFrame(rows, "micros BIGINT, v INT, name STRING").repartition(3)
    made.selectExpr("timestamp_micros(micros) AS ts", "v", "name").createOrReplaceTempView(VIEW)


def physical(frame: DataFrame) -> str:
    """Return the plan that Spark would run."""
    return str(java_frame(frame).queryExecution().executedPlan().toString())


def counted_in_turn(
    spark: SparkSession, directory: Path, switch: str, window: str, is_applied: Callable[[str], bool]
) -> Mapping[str, int]:
    """Count 40 events, one a second, three times in the same state: with the rule, without it, and with it again.

    Args:
        spark: the session.
        directory: an empty directory.
        switch: the setting that turns the rule off.
        window: the window of `ts`.
        is_applied: whether a plan shows the rule.

    Returns:
        The counts by the starts of their windows.
    """
    source, checkpoint = directory / "in", directory / "checkpoint"
    source.mkdir()
    counts: dict[str, int] = {}

    def process(batch: DataFrame, _: int) -> None:
        counts.update((row["start"], row["n"]) for row in batch.collect())

    for run, on in enumerate((True, False, True)):
        (source / f"{run}.txt").write_text("".join(f"{second}\n" for second in range(40)))
        with setting(spark, switch, str(on).lower()):
            lines = spark.readStream.text(str(source)).selectExpr("timestamp_seconds(CAST(value AS BIGINT)) AS ts")
            lines.createOrReplaceTempView(VIEW)
            frame = spark.sql(
                "SELECT CAST(w.start AS STRING) AS start, n "
                f"FROM (SELECT {window} AS w, count(*) AS n FROM {VIEW} GROUP BY {window})"
            )
            writer = frame.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
            query = writer.foreachBatch(process).trigger(availableNow=True).start()
            query.awaitTermination()
        plan = java_query(query).streamingQuery().lastExecution().executedPlan().toString()
        assert is_applied(plan) == on
    return counts
