"""The files of a source that is a lake table, which our own stream reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from streamjob.extras import from_extra
from streamjob.job.connectors import iceberg
from streamjob.job.connectors.file_source import FileSourceFields
from streamjob.job.connectors.lake_source import CHANGE_ROWS, NEWEST, LakeSourceOptions, parse_delta, parse_iceberg
from streamjob.job.model.spec import SourceSpec
from streamjob.job.query.quoting import quoted
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles, entry_of
from streamjob_runtime.spark.gateway import frame_of, java_schema, java_session, our_java

if TYPE_CHECKING:
    from pydantic import JsonValue
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streamjob_runtime.chain.sources.lake.changes import LakeFile, LakeTable, Position, TableColumns
    from streamjob_runtime.discovery.discoverer import Check
    from streamjob_runtime.discovery.objects import Found

_LIMITS = ("maxFilesPerTrigger", "maxBytesPerTrigger")
_SAMPLE = 100  # files of a look at a table


class DiscoveredTable(DiscoveredFiles):
    """The files of a source that is a lake table; takes what DiscoveredFiles takes."""

    def __init__(self, spark: SparkSession, source: SourceSpec, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._source = source
        self._who = f"Source {source.name!r}"
        self._options = _server(source.format, options) | dict(options)
        parse = parse_iceberg if source.format == iceberg.FORMAT else parse_delta
        self._start: LakeSourceOptions = parse(options, self._who)
        # The position alone tells what was read: no file needs to be known, and their order is that of the table.
        interval = self._start.check_interval
        self.given = FileSourceFields(check_interval=interval, order="name", forget_after=1.0)
        self._columns: TableColumns | None = None
        self._begin: Position | None = None
        self._whole = None
        self._cheap = False
        self._java: Any = None

    def go_on(self, log: Path | None, position: JsonValue) -> None:
        """Go on behind what was read; a source that has read nothing has the position of `begin`."""
        from streamjob_runtime.chain.sources.lake.changes import Position

        if isinstance(position, dict) and "table" in position:
            self._begin = Position.from_json(position)
        elif position is None and self._start.starting_snapshot == NEWEST:
            self._begin = next(iter(self._table().changes(None))).position

    def begin(self) -> dict[str, Any] | None:
        """Return where the source begins, if the table may tell another place later."""
        return None if self._begin is None else self._begin.to_json()

    def stream(
        self, form: str, options: Mapping[str, str], schema: StructType | None, surplus: Any = None
    ) -> DataFrame:
        """Return the rows of the files, in the table's columns. Raises what `columns` does."""
        from pyspark.sql.types import StructType

        from streamjob_runtime.chain.sources.lake.change_feed import changes_of
        from streamjob_runtime.chain.sources.lake.changes import ROOT, LakeFile

        self._columns = self._table().columns()
        columns = StructType.fromJson(json.loads(self._columns.struct))
        # It tells which columns are not in the files.
        sample = LakeFile.at("/any", 0, 0, dict.fromkeys(self._columns.beside))
        spark = self._spark
        self._java = our_java(spark).DiscoveredFiles(
            java_session(spark),
            "parquet",
            java_schema(spark, columns),
            {name: options[name] for name in _LIMITS if name in options},
            ROOT,
            sample.line(),
            java_session(spark).sparkContext().longAccumulator(),
            False,
        )
        # The stream has those columns behind the others.
        frame = frame_of(spark, self._java.stream()).select(*map(quoted, columns.names))
        return changes_of(frame) if self._start.on_change == CHANGE_ROWS else frame

    def offer_sample(self) -> None:
        """Offer some files to the query that reads them next, for a look at them."""
        (change,) = self._table(startingSnapshot="current").changes(None)
        self._java.inbox(0).offer("\n".join(each.line() for each in change.files[:_SAMPLE]))

    def _search(self, recent: Sequence[Found], known: int) -> Check:
        from streamjob_runtime.chain.sources.lake.table_search import TableSearch

        assert self._columns is not None
        return TableSearch(self._table(), self._columns, self._begin, recent)

    def overlaps(self, other: DiscoveredFiles) -> bool:
        """Return that the files of a table are no other source's."""
        return False

    def line(self, found: Found) -> str:
        """Return a file as an entry of the source's log has it."""
        return cast("LakeFile", found).line()

    def placed(self, found: Found) -> None:
        """Accept a file."""

    def check_read(self, folder: Path, before: str, now: str, stopped: Callable[[], bool]) -> int:
        """Accept a batch: files of a table never change."""
        return entry_of(now)

    def _table(self, **more: str) -> LakeTable:
        with from_extra(self._who, self._source.format):
            if self._source.format == iceberg.FORMAT:
                from streamjob_runtime.chain.sources.lake.iceberg_snapshots import IcebergSnapshots

                return IcebergSnapshots(self._who, self._options | more)
            from streamjob_runtime.chain.sources.lake.delta_versions import DeltaVersions

            return DeltaVersions(self._who, self._options | more)


def _server(form: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return options that name the S3 server of the snapshot store, as far as the given ones do not."""
    # It loads boto3, which a job without a bucket does without.
    from streamjob.store.s3_connection import S3Settings

    store = S3Settings.from_environment()
    if (endpoint := store.endpoint) is None:
        return {}
    region = store.region or "us-east-1"
    found = {"catalog.s3.endpoint": endpoint, "catalog.s3.region": region}
    if form != iceberg.FORMAT:
        found = {"storage.AWS_ENDPOINT_URL": endpoint, "storage.AWS_REGION": region}
        found["storage.AWS_ALLOW_HTTP"] = str(endpoint.startswith("http:")).lower()
    names = {name.lower() for name in given}
    return {name: text for name, text in found.items() if name.lower() not in names}
