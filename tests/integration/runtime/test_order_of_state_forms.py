"""Forms of state are listed in Spark's order, even for queries with several stateful operators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamjob.ids import BatchId, ChainUid
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.query_planning import describe_forms, describe_state
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import operator_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


NAMES = {
    "aggregation": "stateStoreSave",
    "join": "symmetricHashJoin",
    "limit": "globalLimit",
    "sessions": "sessionWindowStateStoreSaveExec",
}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT k FROM events LIMIT 5",
        (
            "SELECT w, count(*) FROM (SELECT window(at, '1 minute') AS w, k, count(*) FROM events "
            "GROUP BY k, window(at, '1 minute')) GROUP BY w"
        ),
        (
            "SELECT window(events.at, '1 minute'), count(*) FROM events JOIN others ON events.n = others.n "
            "AND events.at = others.at GROUP BY 1"
        ),
        "SELECT k, count(*) FROM events GROUP BY k, session_window(at, '5 seconds')",
        (
            "SELECT k, window(at, '1 minute') AS w, count(*) AS c FROM events GROUP BY k, window(at, '1 minute') "
            "UNION ALL SELECT k, session_window(at, '1 minute') AS w, count(*) AS c FROM others "
            "GROUP BY k, session_window(at, '1 minute')"
        ),
    ],
)
def test_forms_are_in_the_order_in_which_spark_numbers_the_operators(
    spark: SparkSession, tmp_path: Path, query: str
) -> None:
    for name in ("events", "others"):
        rows = spark.readStream.format("rate").load().selectExpr("timestamp AS at", "value AS n", "string(value) AS k")
        rows.withWatermark("at", "10 seconds").createOrReplaceTempView(name)
    frame = spark.sql(query)
    describe_state(spark, ChainUid("all"), Dataflow(frame, "append", (), (), {}, {}), tmp_path)

    named = list(operator_names(tmp_path, BatchId(0)).values())
    assert [NAMES[each.kind] for each in describe_forms(spark, frame, "append")] == named
    assert named
