"""Reads which data files the snapshots of an Iceberg table appended, with pyiceberg.

A snapshot's manifests tell its added files (status ADDED, with its id): https://iceberg.apache.org/spec/#manifests.
The snapshots are those of the branch `main`, from the current one back over their parents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import takewhile

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import (
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from streamjob.job.connectors.lake_source import parse_iceberg, start_of
from streamjob_runtime.discovery.lake.changes import (
    BEFORE,
    LakeFile,
    Position,
    TableChange,
    TableColumns,
    UnusableStart,
    made_again,
    rows_changed,
    snapshots_gone,
)
from streamjob_runtime.discovery.lake.iceberg_columns import spark_columns
from streamjob_runtime.lakes.errors import UnusableTable
from streamjob_runtime.lakes.iceberg_catalogs import Explainer, open_catalog

_COMPACT = "compact the table so that no delete files are left, or say startingSnapshot: newest"


class IcebergSnapshots:
    """The changes of an Iceberg table; see LakeTable.

    Args:
        label: the source's name in messages, as in "source orders".
        options: its resolved options.

    Raises:
        UnusableOptions: an option is invalid.
        CatalogRefuses: the catalog refuses the credentials, or does not match the options.
        CatalogUnreachable: the catalog or the files' store does not answer; `columns` and `changes` raise both, too.
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
        if position is None:
            first = self._first(table)
        elif position.read is not None:
            snapshot = table.metadata.snapshot_by_id(position.number)
            if snapshot is None:
                raise self._gone(table.metadata, position.number)
            whole = self._whole if position.whole else self._change
            first = whole(table, snapshot).rest(position.read)
        else:
            first = TableChange(position, "nothing")
        if position != first.position:
            yield first
        for snapshot in self._since(table.metadata, first.position.number):
            yield self._change(table, snapshot)

    def _load(self, position: Position | None) -> Table:
        expected = position.table if position else None
        with self._explainer.explaining(f"table {self._options.table} cannot be read"):
            try:
                table = self._catalog.load_table(self._options.table)
            except NoSuchTableError:
                if expected is not None:
                    raise made_again(self._label, expected, None) from None
                fix = "make it, or correct the option 'table'; names are compared exactly"
                raise UnusableTable(f"{self._label} does not exist", fix) from None
        self._loaded = table
        found = str(table.metadata.table_uuid)
        if expected is not None and expected != found:
            raise made_again(self._label, expected, found)
        return table

    def _first(self, table: Table) -> TableChange:
        start = start_of(self._options.starting_snapshot)
        snapshots = list(_lineage(table.metadata))
        if start in ("current", "oldest") and snapshots:
            return self._whole(table, snapshots[0 if start == "current" else -1])
        found = None
        if isinstance(start, int):
            found = next((each for each in snapshots if each.snapshot_id == start), None)
            if found is None:
                left = f"the oldest is {snapshots[-1].snapshot_id}" if snapshots else "it has none"
                what = f"{self._label} has no snapshot {start} in its history: {left}"
                raise UnusableStart(what, "name one of its snapshots, or say startingSnapshot: oldest")
        elif isinstance(start, datetime):
            later = list(takewhile(lambda each: each.timestamp_ms >= start.timestamp() * 1000, snapshots))
            if len(later) == len(snapshots) > 0 and not _is_first(snapshots[-1]):
                what = f"{self._label} has lost snapshots since {start}: its oldest is of {_time(snapshots[-1])}"
                raise UnusableStart(what, "name a later time, or say startingSnapshot: oldest")
            found = later[-1] if later else None
        if found is not None:
            return self._change(table, found)
        number = snapshots[0].snapshot_id if snapshots else BEFORE
        return TableChange(Position(str(table.metadata.table_uuid), number), "nothing")

    def _since(self, metadata: TableMetadata, number: int) -> Iterator[Snapshot]:
        """Return the snapshots after one, the oldest first. It may have expired itself."""
        snapshots = list(_lineage(metadata))
        found = list(takewhile(lambda each: each.snapshot_id != number, snapshots))
        if len(found) == len(snapshots):
            # It has expired, or nothing was read: either the oldest that is left follows, or some are lost.
            oldest = found[-1] if found else None
            first = oldest is None or _is_first(oldest)
            if not (first if number == BEFORE else oldest is not None and oldest.parent_snapshot_id == number):
                raise self._gone(metadata, number)
        return reversed(found)

    def _gone(self, metadata: TableMetadata, number: int) -> Exception:
        oldest = next(reversed(list(_lineage(metadata))), None)
        if oldest is None or _is_first(oldest):
            what = f"snapshot {number}, which was read, is not in its history any more: it was rolled back or replaced"
        else:
            after = "from the first on" if number == BEFORE else f"after {number}, which was read,"
            what = f"snapshots {after} have expired: the oldest that is left is {oldest.snapshot_id} of {_time(oldest)}"
        return snapshots_gone(self._label, what)

    def _change(self, table: Table, snapshot: Snapshot) -> TableChange:
        position = Position(str(table.metadata.table_uuid), snapshot.snapshot_id)
        operation = snapshot.summary.operation if snapshot.summary else None
        if operation is Operation.REPLACE:
            return TableChange(position, "nothing")
        if operation is not Operation.APPEND and self._options.on_change == "fail":
            name = operation.value if operation else "not recorded"
            raise rows_changed(self._label, f"snapshot {snapshot.snapshot_id}", name)
        with self._explainer.explaining(f"snapshot {snapshot.snapshot_id} cannot be read"):
            added = [
                entry
                for manifest in snapshot.manifests(table.io)
                if manifest.added_snapshot_id == snapshot.snapshot_id
                for entry in manifest.fetch_manifest_entry(table.io)
                if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
            ]
        data = [entry for entry in added if entry.data_file.content is DataFileContent.DATA]
        # Equality deletes never apply to the files of their own snapshot, but deletes by position may.
        if data and any(entry.data_file.content is DataFileContent.POSITION_DELETES for entry in added):
            what = (
                f"{self._label}: snapshot {snapshot.snapshot_id} adds files and delete files, which may apply to them"
            )
            raise UnusableTable(what, "let its writer copy on write, or start from the table as it is now")
        files = tuple(self._file(entry, snapshot) for entry in data)
        return TableChange(position, "append" if operation is Operation.APPEND else "change", files)

    def _whole(self, table: Table, snapshot: Snapshot) -> TableChange:
        with self._explainer.explaining(f"snapshot {snapshot.snapshot_id} cannot be read"):
            manifests = snapshot.manifests(table.io)
            entries = [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io)]
        if any(entry.data_file.content is not DataFileContent.DATA for entry in entries):
            what = f"{self._label}: snapshot {snapshot.snapshot_id} has delete files, which Spark would not apply"
            raise UnusableTable(what, _COMPACT)
        entries.sort(key=lambda entry: (entry.sequence_number or 0, entry.data_file.file_path))
        by_id = {each.snapshot_id: each for each in table.metadata.snapshots}
        files = tuple(self._file(entry, by_id.get(entry.snapshot_id or BEFORE, snapshot)) for entry in entries)
        return TableChange(Position(str(table.metadata.table_uuid), snapshot.snapshot_id), "table", files)

    def _file(self, entry: ManifestEntry, snapshot: Snapshot) -> LakeFile:
        file = entry.data_file
        if file.file_format is not FileFormat.PARQUET:
            what = f"{self._label}: {file.file_path} is a file of format {file.file_format}: only Parquet is read"
            raise UnusableTable(what, "rewrite the table's files as Parquet")
        return LakeFile(file.file_path, file.file_size_in_bytes, snapshot.timestamp_ms, file.record_count)


def _lineage(metadata: TableMetadata) -> Iterator[Snapshot]:
    """Yield the current snapshot and its ancestors, as far as they have not expired; the newest first."""
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    number = metadata.current_snapshot_id
    while number is not None and (snapshot := by_id.get(number)) is not None:
        yield snapshot
        number = snapshot.parent_snapshot_id


def _is_first(snapshot: Snapshot) -> bool:
    """Return whether a table's first snapshot is this one; pyiceberg forgets the parents that have expired."""
    return snapshot.parent_snapshot_id is None and (snapshot.sequence_number or 1) == 1


def _time(snapshot: Snapshot) -> str:
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
