"""Counts the rows of state as they are stored, with checksums that do not depend on their order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from streamjob.comparison.rewrite_checks import Contents
from streamjob.ids import BatchId
from streamjob_runtime.spark.gateway import read_as_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def stored_rows(spark: SparkSession, location: str, operator: int, store: str, batch: BatchId) -> DataFrame:
    """Return a store's rows as stored, with one partition of the frame per state partition."""
    reader = spark.read.format("statestore").option(read_as_stored(spark), True)
    return reader.options(operatorId=operator, storeName=store, batchId=batch).load(location)


def key_of(frame: DataFrame) -> list[str]:
    """Return the columns that decide a row's partition; none for a store with a single row for everything."""
    kind: Any = frame.schema["partition_key"].dataType
    names: list[str] = kind.names
    return names


def contents(frame: DataFrame, partitions: int) -> Mapping[tuple[str, int], Contents]:
    """Return the content of a store by column family and partition; what has no rows is left out.

    Args:
        frame: the rows as stored.
        partitions: the number of partitions that a row's key is to decide about.
    """
    from pyspark.sql import functions as f

    misplaced = f"pmod(hash(partition_key.*), {partitions}) <> spark_partition_id()" if key_of(frame) else "false"
    row = frame.select(
        f.col("column_family_name").alias("family"),
        f.spark_partition_id().alias("partition"),
        # The sum of 64-bit numbers does not fit into 64 bits.
        f.xxhash64("key_bytes", "value_bytes").cast("decimal(20,0)").alias("hash"),
        f.expr(misplaced).alias("misplaced"),
    )
    measured = row.groupBy("family", "partition").agg(f.count("*"), f.sum("hash"), f.count_if("misplaced"))
    return {
        (family, partition): Contents(rows, wrapped(int(total)), wrong)
        for family, partition, rows, total, wrong in measured.collect()
    }


def total(parts: Collection[Contents]) -> Contents:
    """Return the content of several partitions or column families together."""
    return Contents(
        sum(part.rows for part in parts),
        wrapped(sum(part.checksum for part in parts)),
        sum(part.misplaced for part in parts),
    )


def wrapped(number: int) -> int:
    """Return a sum as Java has it in 64 bits."""
    return (number + 2**63) % 2**64 - 2**63
