"""Joins of streams give the same rows, and store the same state, as with Spark's own state stores."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.spark_settings import setting

from streamjob_runtime.spark.gateway import java_query, read_as_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark]

SWITCH = "spark.streamjob.joinCounts"
OURS, SPARKS = "io.streamjob.rules.JoinCountsProvider", "RocksDBStateStoreProvider"
STORES = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
SCHEMA = "k BIGINT, n BIGINT, at TIMESTAMP"
BATCHES = 4

JOINS = {
    "without bounds": "SELECT l.n, r.n AS m FROM l JOIN r ON l.k = r.k",
    "rows that leave after an hour": (
        "SELECT l.n, r.n AS m FROM l JOIN r ON l.k = r.k AND l.at BETWEEN r.at - INTERVAL 1 HOUR AND r.at"
    ),
    "rows without a partner": (
        "SELECT l.n, r.n AS m FROM l LEFT JOIN r ON l.k = r.k AND r.at BETWEEN l.at AND l.at + INTERVAL 1 HOUR"
    ),
    "keys that leave": "SELECT l.n, r.n AS m FROM l JOIN r ON l.k = r.k AND l.at = r.at",
    "rows with a partner": (
        "SELECT l.n FROM l LEFT SEMI JOIN r ON l.k = r.k AND r.at BETWEEN l.at AND l.at + INTERVAL 1 HOUR"
    ),
}
FEW, MANY = 30, 40_000
"""How many keys there are: those of a batch fit into memory, or do not."""


def write(spark: SparkSession, directory: Path, keys: int) -> None:
    """Write the batches: an hour each, and a last one that ends the hours before."""
    rows = 300 if keys == FEW else 20_000
    for side in ("l", "r"):
        chance = random.Random(side)
        for batch in range(BATCHES):
            hour = batch if batch < BATCHES - 1 else 100
            made = [
                (chance.randrange(keys), number, 3600 * hour + chance.randrange(60) * 60)
                for number in range(batch * rows, (batch + 1) * rows)
            ]
            frame = spark.createDataFrame(made, "k BIGINT, n BIGINT, second BIGINT").coalesce(1)
            frame = frame.selectExpr("k", "n", "timestamp_seconds(1767225600 + second) AS at")
            frame.write.parquet(str(directory / side / f"batch={batch}"))


def views(spark: SparkSession, directory: Path, batch: int) -> None:
    """Let the views be streams of the batches so far: each run reads what is new as one batch."""
    for side in ("l", "r"):
        paths = f"{directory / side}/batch=[0-{batch}]"
        spark.readStream.schema(SCHEMA).parquet(paths).withWatermark("at", "0 seconds").createOrReplaceTempView(side)


def run(frame: DataFrame, checkpoint: Path) -> tuple[list[str], StreamingQuery]:
    found: list[str] = []
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.foreachBatch(lambda batch, _: found.extend(map(str, batch.collect()))).start()
    assert query.awaitTermination(120)
    return sorted(found), query


def provider(query: StreamingQuery) -> str:
    """Return the class of the state stores of the join in a query's last plan."""

    def search(plan: Any) -> str | None:
        if plan.getClass().getSimpleName() == "StreamingSymmetricHashJoinExec":
            package = "org$apache$spark$sql$execution$streaming$operators$stateful$join"
            conf = getattr(plan, f"{package}$StreamingSymmetricHashJoinExec$$storeConf")()
            return str(conf.providerClass())
        children = plan.children()
        return next(filter(None, (search(children.apply(at)) for at in range(children.size()))), None)

    found = search(java_query(query).streamingQuery().lastExecution().executedPlan())
    assert found is not None
    return found


def stored(spark: SparkSession, checkpoint: Path) -> dict[str, list[Any]]:
    """Return the rows of each state store, as they are stored."""

    def rows(store: str) -> list[Any]:
        reader = spark.read.format("statestore").option(read_as_stored(spark), True)
        frame = reader.options(operatorId=0, storeName=store).load(str(checkpoint))
        return sorted(map(str, frame.selectExpr("hex(key_bytes)", "hex(value_bytes)").collect()))

    return {store: rows(store) for store in STORES}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        pytest.param(JOINS["rows without a partner"], FEW, id="rows without a partner"),
        *(pytest.param(sql, FEW, id=name) for name, sql in JOINS.items() if name != "rows without a partner"),
        pytest.param(JOINS["without bounds"], MANY, id="more keys than fit into memory"),
        pytest.param(JOINS["keys that leave"], MANY, id="more keys that leave than fit into memory"),
    ],
)
def test_rows_and_state_are_the_same(spark: SparkSession, tmp_path: Path, sql: str, keys: int) -> None:
    write(spark, tmp_path, keys)
    ours, sparks = tmp_path / "ours", tmp_path / "sparks"

    for batch in range(BATCHES):
        views(spark, tmp_path, batch)
        frame = spark.sql(sql)
        # A checkpoint is continued either way.
        with setting(spark, SWITCH, "false" if batch == 1 else "true"):
            found, query = run(frame, ours)
        with setting(spark, SWITCH, "false"):
            expected, other = run(frame, sparks)

        assert provider(query).endswith(SPARKS if batch == 1 else OURS)
        assert provider(other).endswith(SPARKS)
        assert found == expected
        assert stored(spark, ours) == stored(spark, sparks)
    assert all(SPARKS in each.read_text() for each in (ours / "offsets").glob("[0-9]*"))


@pytest.mark.slow
def test_a_query_with_transform_with_state_keeps_sparks_stores(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Count(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.count = handle.getValueState("count", "n BIGINT")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            (before,) = self.count.get() or (0,)
            count = before + sum(1 for _ in rows)
            self.count.update((count,))
            yield Row(k=key[0], n=count)

        def close(self) -> None:
            pass

    for name in ("l", "r"):
        spark.range(10).selectExpr("id % 2 AS k", "id AS n").write.parquet(str(tmp_path / name))
    left, right = (spark.readStream.schema("k BIGINT, n BIGINT").parquet(str(tmp_path / name)) for name in ("l", "r"))
    counted = (
        left.join(right.drop("n"), "k").groupBy("k").transformWithState(Count(), "k BIGINT, n BIGINT", "append", "none")
    )

    found, query = run(counted, tmp_path / "checkpoint")

    assert found == ["Row(k=0, n=25)", "Row(k=1, n=25)"]
    assert provider(query).endswith(SPARKS)
