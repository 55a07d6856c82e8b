"""Does by hand in plain Spark what streamjob does by itself: the process that the benchmark measures.

It has streamjob's settings of Spark, so that the queries are compared and not the settings.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from bench.by_hand.cases import BATCH, SLOTS, Place
from bench.by_hand.data import DELAY, ORDER_DDL, ORDERS_DDL, RATES_DDL, order_message

from streamjob_runtime.spark.session import SessionSettings, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BROKEN = "_corrupt_record"
_JOINED = "id BIGINT, region INT, amount DOUBLE, at TIMESTAMP, rate DOUBLE"


def _values(spark: SparkSession, place: Place) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": place.kafka,
        "subscribe": place.topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH),
    }
    return spark.readStream.format("kafka").options(**options).load()


def _files(spark: SparkSession, place: Place, name: str, schema: str, files: int) -> DataFrame:
    reader = spark.readStream.format("parquet").schema(schema).option("maxFilesPerTrigger", str(files))
    return reader.load(f"{place.files}/{name}")


def _start(frame: DataFrame, place: Place) -> Any:
    writer = frame.writeStream
    return writer.format("parquet").option("path", place.out) if place.out else writer.format("noop")


def _save(frame: DataFrame, place: Place) -> None:
    writer = frame.write.mode("append")
    if place.out:
        writer.parquet(place.out)
    else:
        writer.format("noop").save()


def _orders_of_json(spark: SparkSession, place: Place) -> DataFrame:
    from pyspark.sql import functions as f

    decoded = f.from_json(f.col("value").cast("string"), ORDER_DDL, {"mode": "FAILFAST"})
    return _values(spark, place).select(decoded.alias("value")).select("value.*")


def failfast(spark: SparkSession, place: Place) -> Any:
    """Decode JSON; a broken record fails the query."""
    return _start(_orders_of_json(spark, place), place)


def watermark(spark: SparkSession, place: Place) -> Any:
    """Decode JSON, and observe the event times."""
    return _start(_orders_of_json(spark, place).withWatermark("at", f"{DELAY} seconds"), place)


def csv(spark: SparkSession, place: Place) -> Any:
    """Decode CSV files; a broken record fails the query."""
    options = {"maxFilesPerTrigger": "1", "header": "true", "mode": "FAILFAST"}
    return _start(spark.readStream.schema(ORDERS_DDL).options(**options).csv(f"{place.files}/csv"), place)


def protobuf(spark: SparkSession, place: Place) -> Any:
    """Decode Protobuf in Python."""
    from pyspark.sql.pandas.functions import pandas_udf

    ddl = ORDER_DDL.replace("at TIMESTAMP", "at BIGINT")

    def decode(values: pd.Series) -> pd.DataFrame:
        parse = order_message().FromString
        found = [parse(value) for value in values]
        return pd.DataFrame(
            {
                name: [getattr(each, name) for each in found]
                for name in ("id", "customer", "product", "amount", "at", "note")
            }
        )

    decoded = pandas_udf(decode, ddl)  # type: ignore[call-overload]
    return _start(_values(spark, place).select(decoded("value").alias("value")).select("value.*"), place)


def _permissive(spark: SparkSession, place: Place) -> DataFrame:
    from pyspark.sql import functions as f

    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
    decoded = f.from_json(f.col("value").cast("string"), f"{ORDER_DDL}, {_BROKEN} STRING", options)
    return _values(spark, place).withColumn("decoded", decoded)


def drop(spark: SparkSession, place: Place) -> Any:
    """Decode JSON, and leave broken records out."""
    good = _permissive(spark, place).where(f"decoded.{_BROKEN} IS NULL").select("decoded.*").drop(_BROKEN)
    return _start(good, place)


def dead_letters(spark: SparkSession, place: Place) -> Any:
    """Decode JSON, and write broken records to files."""

    def write(batch: DataFrame, number: int) -> None:
        batch.persist()
        _save(batch.where(f"decoded.{_BROKEN} IS NULL").select("decoded.*").drop(_BROKEN), place)
        broken = batch.where(f"decoded.{_BROKEN} IS NOT NULL").drop("decoded")
        dead = broken.selectExpr("*", "'not JSON with the fields of an order' AS error", "now() AS failed")
        dead.write.mode("append").json(place.dead)
        batch.unpersist()

    return _permissive(spark, place).writeStream.foreachBatch(write)


def table(spark: SparkSession, place: Place) -> Any:
    """Join with a table that is read as a whole."""
    products = spark.read.parquet(f"{place.files}/products")
    return _start(_files(spark, place, "orders", ORDERS_DDL, 4).join(products, "product", "left"), place)


def lookup(spark: SparkSession, place: Place) -> Any:
    """Join with the rows that a database has for the keys of a batch."""
    from pyspark.sql.functions import broadcast

    reader = spark.read.format("jdbc").options(**place.jdbc, password=os.environ["BENCH_PASSWORD"])

    def write(batch: DataFrame, number: int) -> None:
        keys = ", ".join(str(row.product) for row in batch.select("product").distinct().collect())
        query = f"SELECT product, name, price FROM products WHERE product IN ({keys})"
        _save(batch.join(broadcast(reader.option("query", query).load()), "product", "left"), place)

    return _files(spark, place, "orders", ORDERS_DDL, 1).writeStream.foreachBatch(write)


def versions(spark: SparkSession, place: Place) -> Any:
    """Join with the versions that were valid at the event times of the rows."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    delay = f"{DELAY} seconds"
    orders = _files(spark, place, "orders", ORDERS_DDL, 1).withWatermark("at", delay)
    rates = _files(spark, place, "rates", RATES_DDL, 1).withWatermark("since", delay)
    both = orders.selectExpr("region", "id", "amount", "at", "CAST(NULL AS DOUBLE) AS rate").union(
        rates.selectExpr("region", "CAST(NULL AS BIGINT)", "CAST(NULL AS DOUBLE)", "since", "rate")
    )

    def join(key: tuple[int], arrived: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        kept = pickle.loads(state.get[0]) if state.exists else []
        rows = pd.concat([*kept, *(() if state.hasTimedOut else arrived)], ignore_index=True)
        now = pd.Timestamp(state.getCurrentWatermarkMs(), unit="ms")
        is_order = rows["rate"].isna()
        waiting, known = rows[is_order], rows[~is_order].sort_values("at")
        due, waiting = waiting[waiting["at"] <= now], waiting[waiting["at"] > now]
        # The version that is valid now, and those to come.
        needed = known.iloc[max(0, int((known["at"] <= now).sum()) - 1) :]
        state.update((pickle.dumps([waiting, needed]),))
        if len(waiting):
            state.setTimeoutTimestamp(
                max(int(waiting["at"].min().timestamp() * 1000), state.getCurrentWatermarkMs()) + 1
            )
        due = due.drop(columns="rate").sort_values("at")
        yield pd.merge_asof(due, known[["at", "rate"]], on="at")[["id", "region", "amount", "at", "rate"]]

    timeout = GroupStateTimeout.EventTimeTimeout
    grouped = both.groupBy("region")
    return _start(grouped.applyInPandasWithState(join, _JOINED, "kept BINARY", "append", timeout), place)


QUERIES: dict[str, Callable[[SparkSession, Place], Any]] = {
    each.__name__: each for each in (failfast, watermark, csv, protobuf, drop, dead_letters, table, lookup, versions)
}


def main(query: str, place: Place, scratch: Path) -> None:
    """Run a query to the end of its input."""
    scratch.mkdir(parents=True)
    settings = SessionSettings(
        name="by-hand",
        parallelism=SLOTS,
        max_parallelism=SLOTS,
        workdir=scratch,
        conf={"spark.jars": place.driver} if place.driver else {},
        connectors=("kafka",) if place.topic else (),
    )
    spark = start_session(settings)
    writer = QUERIES[query](spark, place).option("checkpointLocation", str(scratch / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    # Spark's own end takes seconds, and nothing of it is needed.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Place(**json.loads(sys.argv[2])), Path(sys.argv[3]))
