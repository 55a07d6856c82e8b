"""Does by hand in plain Spark what streamjob does by itself: the process that the benchmark measures.

It has streamjob's settings of Spark, so that the queries are compared and not the settings.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.by_hand.cases import BATCH, SLOTS, Place
from bench.by_hand.data import DELAY, ORDER_DDL, ORDERS_DDL

from streamjob_runtime.spark.session import SessionSettings, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BROKEN = "_corrupt_record"


def _values(spark: SparkSession, place: Place) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": place.kafka,
        "subscribe": place.topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH),
    }
    return spark.readStream.format("kafka").options(**options).load()


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


QUERIES: dict[str, Callable[[SparkSession, Place], Any]] = {
    each.__name__: each for each in (failfast, watermark, csv, drop, dead_letters)
}


def main(query: str, place: Place, scratch: Path) -> None:
    """Run a query to the end of its input."""
    scratch.mkdir(parents=True)
    settings = SessionSettings(
        name="by-hand",
        parallelism=SLOTS,
        max_parallelism=SLOTS,
        workdir=scratch,
        connectors=("kafka",) if place.topic else (),
    )
    spark = start_session(settings)
    writer = QUERIES[query](spark, place).option("checkpointLocation", str(scratch / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    # Spark's own end takes seconds, and nothing of it is needed.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Place(**json.loads(sys.argv[2])), Path(sys.argv[3]))
