"""The columns of rows that become Kafka records: those of Spark's own sink, and the timestamp."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADERS = "array<struct<key:string,value:binary>>"
TYPES: Mapping[str, tuple[str, ...]] = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "headers": (HEADERS,),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}


def mismatches(columns: Mapping[str, str], topic: str | None, *, keyed: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the reasons why rows cannot become records, with fixes.

    Args:
        columns: their types by name, as Spark writes them.
        topic: the topic for all rows; None if each row names its own.
        keyed: whether records need a key.
    """
    if keyed and "key" not in columns:
        yield "rows have no column key, by which mode: upsert replaces them", "add the option key: id, or the column"
    if "value" not in columns:
        yield "rows have no column value", "make it: to_json(struct(*)) AS value"
    if topic is None and "topic" not in columns:
        yield "neither an option topic nor a column topic names a topic for the rows", "add the option topic: name"
    for name, kind in columns.items():
        if name not in TYPES:
            known = ", ".join(TYPES)
            yield (
                f"a record has no place for the column {name}",
                f"put it into the value, or leave it out; there are {known}",
            )
        elif kind not in TYPES[name]:
            yield f"the column {name} is {kind}, and has to be {' or '.join(TYPES[name])}", _FIXES.get(name, "cast it")


_FIXES = {
    "value": "cast it, or make it with to_json(…) or to_avro(…)",
    "key": "cast it: CAST(… AS string) AS key",
    "headers": "make it with array(struct('name' AS key, CAST(… AS binary) AS value))",
}


def records(batch: DataFrame, topic: str | None) -> DataFrame:
    """Return rows in the staged form: topic, partition, timestamp in milliseconds, key, value, headers."""
    from pyspark.sql import functions as f

    def column(name: str, kind: str) -> Column:
        return (batch[name] if name in batch.columns else f.lit(None)).cast(kind).alias(name)

    return batch.select(
        column("topic", "string") if topic is None else f.lit(topic).alias("topic"),
        column("partition", "int"),
        f.unix_millis(column("timestamp", "timestamp")).alias("timestamp"),
        column("key", "binary"),
        column("value", "binary"),
        column("headers", HEADERS),
    )
