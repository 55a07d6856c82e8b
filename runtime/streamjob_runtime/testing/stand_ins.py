"""Puts sources that a test feeds and sinks that it reads in place of a job's own; everything else stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from streamjob.job.connectors.kafka_source import FORMAT as KAFKA
from streamjob.job.connectors.options import option
from streamjob.job.connectors.registry import source_of
from streamjob.job.model.spec import JobSpec, SourceSpec
from streamjob_runtime.testing import collecting

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_PARTITIONS = 2
_KAFKA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
_HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
_SOCKET = {"value": "string"}


def under_test(spec: JobSpec, feeds: Path, columns: Mapping[str, str], collected: Mapping[str, str]) -> JobSpec:
    """Return a job with other sources and sinks.

    All sources are unbounded: the test decides when they end. Names, uids, watermarks and operators stay.

    Args:
        feeds: the directory with a directory of JSON files for each source.
        columns: the columns of each source, as `name TYPE, …`.
        collected: the name of the `Collected` of each sink.
    """
    sources = tuple(
        source.model_copy(
            update={
                "format": "json",
                "schema_ddl": columns[source.name],
                "options": {"path": str(feeds / source.name), "mode": "FAILFAST", "checkInterval": "10ms"},
                "bounded": False,
                "replayable": True,
            }
        )
        for source in spec.sources
    )
    sinks = tuple(
        sink.model_copy(
            update={
                "format": collecting.FORMAT,
                "function": None,
                "options": {collecting.OPTION: collected[sink.name]},
                "partition_by": (),
                "publish": "checkpoint",
            }
        )
        for sink in spec.sinks
    )
    policy = spec.checkpointing.model_copy(update={"interval": None, "location": None})
    return spec.model_copy(
        update={
            "sources": sources,
            "sinks": sinks,
            "checkpointing": policy,
            "parallelism": _PARTITIONS,
            "max_parallelism": _PARTITIONS,
        }
    )


def with_tables(spec: JobSpec, directory: Path, columns: Mapping[str, StructType]) -> JobSpec:
    """Return a job with files of JSON in place of some of its tables.

    Args:
        directory: the directory with a directory of files for each table.
        columns: the columns of each table that a test gives rows.
    """
    tables = tuple(
        table.model_copy(
            update={
                "format": "json",
                "schema_ddl": columns[table.name].toDDL(),
                "options": {"path": str(directory / table.name)},
                "refresh": None,
                "max_age": None,
            }
        )
        if table.name in columns
        else table
        for table in spec.tables
    )
    return spec.model_copy(update={"tables": tables})


def columns_of(source: SourceSpec, ask: Callable[[SourceSpec], StructType]) -> str:
    """Return the columns of a source, as `name TYPE, …`.

    Args:
        ask: returns the columns that the source itself names.
    """
    if source.schema_ddl is not None:
        return source.schema_ddl
    if source.format == KAFKA:
        with_headers = (option(source.options, "includeHeaders") or "").lower() == "true"
        return f"{_KAFKA}, {_HEADERS}" if with_headers else _KAFKA
    known = _SOCKET if source.format == "socket" else source_of(source.format).columns
    if known is not None:
        return ", ".join(f"{name} {kind.upper()}" for name, kind in known.items())
    ddl: str = ask(source).toDDL()
    return ddl


def fields_of(ddl: str) -> StructType:
    """Return columns, given as `name TYPE, …`, as Spark's type of a row."""
    from pyspark.sql.types import StructType

    return cast("StructType", StructType.fromDDL(ddl))
