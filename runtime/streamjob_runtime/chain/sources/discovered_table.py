"""The files of a source that is a lake table, which our own stream reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from streamjob.clock import Clock
from streamjob.extras import from_extra
from streamjob.job.connectors import delta, iceberg
from streamjob.job.connectors.lake_source import NEWEST, LakeSourceOptions, parse_delta, parse_iceberg
from streamjob.job.model.spec import SourceSpec
from streamjob_runtime.spark.gateway import frame_of, java_schema, java_session, our_java
from streamjob_runtime.spark.text.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streamjob_runtime.discovery.lake.changes import LakeTable, Position, TableColumns
    from streamjob_runtime.discovery.lake.table_search import TableSearch

_LIMITS = ("maxFilesPerTrigger", "maxBytesPerTrigger")
_SAMPLE = 100
"""Files of a look at a table."""


class DiscoveredTable:
    """The files of a source that is a lake table.

    Args:
        source: the source.
        options: its options, resolved.
    """

    def __init__(self, source: SourceSpec, options: Mapping[str, str]) -> None:
        self._source = source
        self._who = f"Source {source.name!r}"
        self._options = dict(options)
        self._given: LakeSourceOptions = (
            parse_iceberg(options, self._who) if source.format == iceberg.FORMAT else parse_delta(options, self._who)
        )
        self._planned: TableColumns | None = None
        self._begin: Position | None = None
        self._java: Any = None

    @classmethod
    def of(cls, source: SourceSpec, options: Mapping[str, str]) -> DiscoveredTable | None:
        """Return the files of a source that is a lake table; None for any other source."""
        return cls(source, options) if source.format in (iceberg.FORMAT, delta.FORMAT) else None

    def begin(self, position: JsonValue) -> JsonValue:
        """Return where the source begins, to be kept with the positions of sources; None if it need not be kept.

        Args:
            position: what a snapshot has as its position; None without one.

        Raises:
            InvalidInput: the table is unusable.
            TableUnreachable: it cannot be reached.
        """
        from streamjob_runtime.discovery.lake.changes import Position

        if position is None and self._given.starting_snapshot == NEWEST:
            # After a restart, the newest snapshot is another one.
            position = next(iter(self._table().changes(None))).position.to_json()
        if not isinstance(position, dict) or "table" not in position:
            return None
        self._begin = Position.from_json(position)
        return position

    def stream(
        self, spark: SparkSession, form: str, options: Mapping[str, str], schema: StructType | None, surplus: Any = None
    ) -> DataFrame:
        """Return the rows of the files, in the table's columns.

        Args:
            options: of the source, resolved; those about the size of a batch count.

        Raises:
            InvalidInput: the table is unusable.
            TableUnreachable: it cannot be reached.
        """
        from pyspark.sql.types import StructType

        self._planned = self._table().columns()
        columns = StructType.fromJson(json.loads(self._planned.struct))
        self._java = our_java(spark).DiscoveredFiles(
            java_session(spark),
            "parquet",
            java_schema(spark, columns),
            {name: options[name] for name in _LIMITS if name in options},
            f"{self._source.format}:{self._source.name}",
            "",
            java_session(spark).sparkContext().longAccumulator(),
            list(self._planned.beside),
        )
        # The stream has those beside the files behind the others.
        return frame_of(spark, self._java.stream()).select(*map(quoted, columns.names))

    def offer_sample(self) -> None:
        """Offer some files to the query that reads them next, for a look at them."""
        from streamjob_runtime.discovery.lake.table_search import lines

        for change in self._table(startingSnapshot="current").changes(None):
            if change.files:
                self._java.inbox(0).offer(lines([(file, change.position) for file in change.files[:_SAMPLE]]))
                return

    def discoverer(self, folder: Path, clock: Clock) -> TableSearch:
        """Return what finds the files for a query.

        Args:
            folder: the source's folder below `sources/` of the query's checkpoint.
            clock: seconds since 1970.
        """
        from streamjob_runtime.discovery.lake.table_search import TableSearch

        assert self._planned is not None
        return TableSearch(
            who=self._who,
            table=self._table(),
            planned=self._planned,
            begin=self._begin,
            inbox=self._java.inbox(int(folder.name)),
            folder=folder,
            clock=clock,
            check_interval=self._given.check_interval,
        )

    def check_read(self, folder: Path, before: str, now: str, stopped: Callable[[], bool]) -> None:
        """Accept a batch: files of a table never change."""

    def _table(self, **options: str) -> LakeTable:
        options = self._options | options
        with from_extra(self._who, self._source.format):
            if self._source.format == iceberg.FORMAT:
                from streamjob_runtime.discovery.lake.iceberg_snapshots import IcebergSnapshots

                return IcebergSnapshots(self._who, options)
            from streamjob_runtime.discovery.lake.delta_versions import DeltaVersions

            return DeltaVersions(self._who, options)
