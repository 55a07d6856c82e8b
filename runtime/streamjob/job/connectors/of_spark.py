"""The connectors that are Spark's alone, and files."""

from __future__ import annotations

from dataclasses import replace

from streamjob.job.connectors import file_source
from streamjob.job.connectors.connector import (
    ALL_MODES,
    BOTH_DELIVERIES,
    AsSink,
    AsSource,
    AsTable,
    Connector,
    Schema,
)


def _files(
    name: str,
    *,
    schema: Schema = "needed",
    schema_of_table: Schema = "optional",
    columns: dict[str, str] | None = None,
    bounded: bool = True,
    exactly_once: bool = True,
    table: bool = True,
    written: bool = True,
    text_records: bool = False,
) -> Connector:
    sink = AsSink(deliveries=BOTH_DELIVERIES, partitions=True) if exactly_once else AsSink(partitions=True)
    return Connector(
        name=name,
        source=AsSource(schema=schema, columns=columns, bounded=bounded, problems=file_source.problems),
        table=AsTable(schema=schema_of_table) if table else None,
        sink=sink if written else None,
        text_records=text_records,
        path="files",
    )


FUNCTION = "function"
"""The format of a sink that is a function of the job."""
_BINARY = {"path": "string", "modificationTime": "timestamp", "length": "bigint", "content": "binary"}
_RATE = AsSource(
    schema="refused",
    columns={"timestamp": "timestamp", "value": "bigint"},
    known=frozenset({"numPartitions", "rampUpTime", "rowsPerSecond"}),
)
_MICRO_BATCH = frozenset({"advanceMillisPerBatch", "numPartitions", "rowsPerBatch", "startTimestamp"})


def _seen(*known: str) -> AsSink:
    """Return a sink that keeps no rows, so that none is there twice."""
    return AsSink(output_modes=ALL_MODES, known=frozenset(known))


CONNECTORS = (
    _files("avro", exactly_once=False),
    _files("binaryFile", schema="optional", columns=_BINARY, table=False, written=False),
    _files("csv", schema_of_table="needed", text_records=True),
    _files("json", schema_of_table="needed", text_records=True),
    _files("orc"),
    _files("parquet"),
    _files("text", schema="optional", columns={"value": "string"}),
    _files("xml", schema_of_table="needed", bounded=False, exactly_once=False),
    Connector(name="console", sink=_seen("numRows", "truncate")),
    Connector(name="deltaSharing", source=AsSource(), table=AsTable()),
    Connector(name="eventhubs", source=AsSource()),
    Connector(name=FUNCTION, sink=AsSink(output_modes=ALL_MODES)),
    Connector(name="kinesis", source=AsSource()),
    Connector(name="memory", sink=_seen()),
    Connector(name="noop", sink=_seen()),
    Connector(name="pulsar", source=AsSource()),
    Connector(name="rate", source=_RATE),
    Connector(name="rate-micro-batch", source=replace(_RATE, known=_MICRO_BATCH)),
    Connector(name="socket", source=AsSource(replayable=False, known=frozenset({"host", "includeTimestamp", "port"}))),
)
