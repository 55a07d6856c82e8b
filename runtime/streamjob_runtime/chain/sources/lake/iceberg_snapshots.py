"""Reads which data files the snapshots of an Iceberg table appended, with pyiceberg.

A snapshot's manifests tell its added files (status ADDED, with its id): https://iceberg.apache.org/spec/#manifests.
The snapshots are those of the branch `main`, from the current one back over their parents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import takewhile

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from streamjob.job.connectors.lake_source import parse_iceberg, start_of
from streamjob_runtime.chain.sources.lake.changes import (
    BEFORE,
    LakeFile,
    Position,
    RowsChanged,
    SnapshotsGone,
    TableChange,
    TableColumns,
    TableMadeAgain,
    UnusableStart,
)
from streamjob_runtime.chain.sources.lake.iceberg_columns import spark_columns
from streamjob_runtime.sinks.errors import UnusableTable
from streamjob_runtime.sinks.iceberg.catalogs import Explainer, open_catalog


class IcebergSnapshots:
    """The changes of an Iceberg table; see LakeTable. Takes what DeltaVersions takes.

    Raises:
        CatalogRefuses, CatalogUnreachable: see there; `columns` and `changes` raise them, too.
    """

    def __init__(self, label: str, options: Mapping[str, str]) -> None:
        self._options = parse_iceberg(options, label)
        self._label = f"{label}: table {self._options.table}"
        self._explainer = Explainer(label, options)
        self._catalog = open_catalog(options, self._options, self._explainer)
        self._loaded: Table | None = None

    def columns(self) -> TableColumns:
        """Return the table's columns; see LakeTable."""
        return TableColumns(spark_columns((self._loaded or self._load(None)).schema(), self._label))

    def changes(self, position: Position | None) -> Iterator[TableChange]:
        """Yield what follows a position; see LakeTable."""
        table = self._load(position)
        first = TableChange(position, "nothing") if position is not None else self._first(table)
        if position is not None and position.read is not None:
            snapshot = table.metadata.snapshot_by_id(position.number)
            if snapshot is None:
                raise self._gone(table.metadata, position.number)
            first = (self._whole if position.whole else self._change)(table, snapshot).rest(position.read)
        if position != first.position:
            yield first
        for snapshot in self._since(table.metadata, first.position.number):
            yield self._change(table, snapshot)

    def _load(self, position: Position | None) -> Table:
        with self._explainer.explaining(f"table {self._options.table} cannot be read"):
            try:
                table = self._catalog.load_table(self._options.table)
            except NoSuchTableError:
                if position is not None:
                    raise TableMadeAgain(self._label, position.table, None) from None
                fix = "make it, or correct the option 'table'; names are compared exactly"
                raise UnusableTable(f"{self._label} does not exist", fix) from None
        self._loaded = table
        found = str(table.metadata.table_uuid)
        if position is not None and position.table != found:
            raise TableMadeAgain(self._label, position.table, found)
        return table

    def _first(self, table: Table) -> TableChange:
        start = start_of(self._options.starting_snapshot)
        snapshots = _lineage(table.metadata)
        if start in ("current", "oldest") and snapshots:
            return self._whole(table, snapshots[0 if start == "current" else -1])
        if isinstance(start, int):
            found = [each for each in snapshots if each.snapshot_id == start]
            if not found:
                left = f"the oldest is {snapshots[-1].snapshot_id}" if snapshots else "it has none"
                what = f"{self._label} has no snapshot {start} in its history: {left}"
                raise UnusableStart(what, "name one of its snapshots, or say startingSnapshot: oldest")
            return self._change(table, found[0])
        if isinstance(start, datetime):
            later = list(takewhile(lambda each: each.timestamp_ms >= start.timestamp() * 1000, snapshots))
            if len(later) == len(snapshots) > 0 and not _is_first(snapshots[-1]):
                what = f"{self._label} has lost snapshots since {start}: its oldest is of {_time(snapshots[-1])}"
                raise UnusableStart(what, "name a later time, or say startingSnapshot: oldest")
            if later:
                return self._change(table, later[-1])
        number = snapshots[0].snapshot_id if snapshots else BEFORE
        return TableChange(Position(str(table.metadata.table_uuid), number), "nothing")

    def _since(self, metadata: TableMetadata, number: int) -> Iterator[Snapshot]:
        """Return the snapshots after one, the oldest first. It may have expired itself."""
        snapshots = _lineage(metadata)
        found = list(takewhile(lambda each: each.snapshot_id != number, snapshots))
        # If it has expired, or nothing was read, either it comes before the oldest that is left, or some are lost.
        before = BEFORE if not found or _is_first(found[-1]) else found[-1].parent_snapshot_id
        if len(found) == len(snapshots) and before != number:
            raise self._gone(metadata, number)
        return reversed(found)

    def _gone(self, metadata: TableMetadata, number: int) -> SnapshotsGone:
        oldest = next(reversed(_lineage(metadata)), None)
        if oldest is None or _is_first(oldest):
            what = f"snapshot {number}, which was read, is not in its history any more: it was rolled back or replaced"
        else:
            after = "from the first on" if number == BEFORE else f"after {number}, which was read,"
            what = f"snapshots {after} have expired: the oldest that is left is {oldest.snapshot_id} of {_time(oldest)}"
        return SnapshotsGone(self._label, what)

    def _change(self, table: Table, snapshot: Snapshot) -> TableChange:
        operation = snapshot.summary.operation if snapshot.summary else None
        position = Position(str(table.metadata.table_uuid), snapshot.snapshot_id)
        if operation is Operation.REPLACE:
            return TableChange(position, "nothing")
        name = f"snapshot {snapshot.snapshot_id}"
        if operation is not Operation.APPEND and self._options.on_change == "fail":
            raise RowsChanged(self._label, name, operation.value if operation else "not recorded")
        entries = self._entries(table, snapshot, only_its_own=True)
        its_own = [each for each in entries if each.snapshot_id == snapshot.snapshot_id]
        added = [each.data_file for each in its_own if each.status is ManifestEntryStatus.ADDED]
        data = [file for file in added if file.content is DataFileContent.DATA]
        # Equality deletes never apply to the files of their own snapshot, but deletes by position may.
        if data and any(file.content is DataFileContent.POSITION_DELETES for file in added):
            what = f"{self._label}: {name} adds files and delete files, which may apply to them"
            raise UnusableTable(what, "let its writer copy on write, or start from the table as it is now")
        files = tuple(self._file(file, snapshot) for file in data)
        return TableChange(position, "append" if operation is Operation.APPEND else "change", files)

    def _whole(self, table: Table, snapshot: Snapshot) -> TableChange:
        entries = self._entries(table, snapshot, only_its_own=False)
        if any(entry.data_file.content is not DataFileContent.DATA for entry in entries):
            what = f"{self._label}: snapshot {snapshot.snapshot_id} has delete files, which Spark would not apply"
            raise UnusableTable(what, "compact the table so that none are left, or say startingSnapshot: newest")
        entries.sort(key=lambda each: (each.sequence_number or 0, each.data_file.file_path))
        by_id = {each.snapshot_id: each for each in table.metadata.snapshots}
        files = [self._file(each.data_file, by_id.get(each.snapshot_id or BEFORE, snapshot)) for each in entries]
        return TableChange(Position(str(table.metadata.table_uuid), snapshot.snapshot_id), "table", files)

    def _entries(self, table: Table, snapshot: Snapshot, *, only_its_own: bool) -> list[ManifestEntry]:
        with self._explainer.explaining(f"snapshot {snapshot.snapshot_id} cannot be read"):
            return [
                entry
                for manifest in snapshot.manifests(table.io)
                if not only_its_own or manifest.added_snapshot_id == snapshot.snapshot_id
                for entry in manifest.fetch_manifest_entry(table.io)
            ]

    def _file(self, file: DataFile, snapshot: Snapshot) -> LakeFile:
        if file.file_format is not FileFormat.PARQUET:
            what = f"{self._label}: {file.file_path} is a file of format {file.file_format}: only Parquet is read"
            raise UnusableTable(what, "rewrite the table's files as Parquet")
        return LakeFile.at(file.file_path, file.file_size_in_bytes, snapshot.timestamp_ms)


def _lineage(metadata: TableMetadata) -> list[Snapshot]:
    """Return the current snapshot and its ancestors, as far as they have not expired; the newest first."""
    return list(ancestors_of(metadata.current_snapshot(), metadata))


def _is_first(snapshot: Snapshot) -> bool:
    """Return whether a table's first snapshot is this one; pyiceberg forgets the parents that have expired."""
    # Tables of version 1 have no sequence numbers.
    if snapshot.sequence_number:
        return snapshot.parent_snapshot_id is None and snapshot.sequence_number == 1
    if snapshot.parent_snapshot_id is not None or snapshot.summary is None:
        return False
    total = snapshot.summary.additional_properties.get("total-data-files")
    return total is not None and total == snapshot.summary.additional_properties.get("added-data-files")


def _time(snapshot: Snapshot) -> str:
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
