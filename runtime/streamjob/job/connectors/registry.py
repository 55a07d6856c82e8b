"""All connectors, by the name of their format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streamjob.job.connectors import delta, iceberg, jdbc, kafka_connector, lake_source, of_spark, postgresql
from streamjob.job.connectors.connector import ALL_MODES, AsSink, AsSource, AsTable, Connector

CONNECTORS: Mapping[str, Connector] = {
    each.name: each
    for each in (
        *of_spark.CONNECTORS,
        *(replace(each, source=lake_source.SOURCES[each.name]) for each in (delta.CONNECTOR, iceberg.CONNECTOR)),
        jdbc.CONNECTOR,
        kafka_connector.CONNECTOR,
        postgresql.CONNECTOR,
    )
}


def source_of(name: str) -> AsSource:
    """Return what a source of this format is like; nothing is known of a Java class."""
    known = CONNECTORS.get(name)
    return AsSource() if known is None or known.source is None else known.source


def table_of(name: str) -> AsTable:
    """Return what a table of this format is like; nothing is known of a Java class."""
    known = CONNECTORS.get(name)
    return AsTable() if known is None or known.table is None else known.table


def sink_of(name: str) -> AsSink:
    """Return what a sink of this format is like; nothing is known of a Java class, or of one of Python."""
    known = CONNECTORS.get(name)
    return AsSink(output_modes=ALL_MODES) if known is None or known.sink is None else known.sink
