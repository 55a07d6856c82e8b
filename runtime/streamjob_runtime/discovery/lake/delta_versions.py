"""Reads which data files the versions of a Delta table appended: from its log, and a whole version with deltalake.

The log has a file of actions for each version: https://github.com/delta-io/delta/blob/master/PROTOCOL.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import fs

from streamjob.job.connectors.changes import CHANGE_TYPE
from streamjob.job.connectors.lake_source import parse_delta, start_of
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
from streamjob_runtime.lakes.delta_storage import Storage
from streamjob_runtime.lakes.errors import UnusableTable

_LOG = "_delta_log"
_LOGGED = re.compile(r"(\d{20})\.(json|checkpoint\..+)")
_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
_NEWEST_READER = 3
_VECTORS = "deletionVectors"
_READABLE = frozenset(
    {"columnMapping", _VECTORS, "timestampNtz", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck"}
)
"""Features that ask nothing of a reader of Parquet files, or whose use is found."""

_ADDED = ("path", "size", "modificationTime", "numRecords", "partitionValues")

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Opened:
    """A table as it was when it was opened.

    Args:
        root: its location, without a slash at the end.
        fields: its columns in the form of Spark's JSON.
        times: the names of the columns of type timestamp.
        partitions: the names of the columns that are not in its files.
        feed: whether it records which rows are changed.
        files: its directory.
    """

    id: str
    version: int
    root: str
    fields: Sequence[Mapping[str, Any]]
    times: frozenset[str]
    partitions: tuple[str, ...]
    feed: bool
    files: fs.FileSystem
    delta: DeltaTable


class DeltaVersions:
    """The changes of a Delta table; see LakeTable. To find nothing new costs two requests.

    Args:
        label: the source's name in messages, as in "source orders".
        options: its resolved options.

    Raises:
        UnusableOptions: an option is invalid.
        DeltaUnreachable: its files cannot be read; `columns` and `changes` raise it, not this.
    """

    def __init__(self, label: str, options: Mapping[str, str]) -> None:
        self._options = parse_delta(options, label)
        self._label = f"{label}: table {self._options.path}"
        self._storage = Storage(label, options)
        self._rows = self._options.on_change == "changeRows"
        self._opened: _Opened | None = None
        self._known: tuple[_Opened, object] | None = None
        """The table, and the log's file of the newest version that was read: while it is there, it is this table."""

    def columns(self) -> TableColumns:
        """Return the table's columns; see LakeTable."""
        table = self._opened or self._open(None)
        fields = [{**field, "nullable": True} for field in table.fields]
        if self._rows:
            fields.append({"name": CHANGE_TYPE, "type": "string", "nullable": True, "metadata": {}})
        # Recorded changes have their kind in the file.
        beside = (*([CHANGE_TYPE] if self._rows else []), *table.partitions)
        return TableColumns(json.dumps({"type": "struct", "fields": fields}), beside)

    def changes(self, position: Position | None) -> Iterator[TableChange]:
        """Yield what follows a position; see LakeTable."""
        known = self._known
        if position is not None and known is not None and known[1] == self._mark(known[0], position.number):
            table = known[0]
        else:
            table = self._open(position)
        if position is None:
            first = self._first(table)
        elif position.read is None:
            first = TableChange(position, "nothing")
        elif position.whole:
            first = self._whole(table, position.number).rest(position.read)
        else:
            first = self._change(table, position.number).rest(position.read)
        if position != first.position:
            yield first
        number = first.position.number
        while (actions := self._actions(table, number + 1)) is not None:
            if any("metaData" in each or "protocol" in each for each in actions):
                table = self._open(first.position)
            number += 1
            yield self._change(table, number, actions)
        mark = self._mark(table, number)
        self._known = None if mark is None else (table, mark)

    def _open(self, position: Position | None) -> _Opened:
        delta = self._storage.find()
        if delta is None and position is not None:
            raise made_again(self._label, position.table, None)
        if delta is None:
            raise UnusableTable(f"{self._label} does not exist", "make it, or correct the option 'path'")
        with self._storage.explaining("cannot be read"):
            fields = json.loads(delta.schema().to_json())["fields"]
            configuration, protocol = delta.metadata().configuration, delta.protocol()
            table = _Opened(
                str(delta.metadata().id),
                delta.version(),
                unquote(delta.table_uri).rstrip("/"),
                fields,
                frozenset(field["name"] for field in fields if field["type"] == "timestamp"),
                tuple(delta.metadata().partition_columns),
                configuration.get("delta.enableChangeDataFeed", "").lower() == "true",
                self._storage.files_of(delta)(),
                delta,
            )
        if position is not None and position.table != table.id:
            raise made_again(self._label, position.table, table.id)
        if position is not None and position.number > table.version:
            what = f"it ends with version {table.version}, and {position.number} was read: an older copy was restored"
            raise snapshots_gone(self._label, what)
        unknown = sorted(set(protocol.reader_features or ()) - _READABLE)
        if protocol.min_reader_version > _NEWEST_READER or unknown:
            what = f"reader version {protocol.min_reader_version}, and the features {unknown}"
            raise UnusableTable(f"{self._label} has {what}, which cannot be read right", "drop the features")
        if configuration.get("delta.columnMapping.mode", "none") != "none":
            what = f"{self._label} maps its columns to other names in its files (delta.columnMapping.mode)"
            raise UnusableTable(f"{what}: Spark would read null from them", "read a table without it")
        self._opened = table
        return table

    def _first(self, table: _Opened) -> TableChange:
        start = start_of(self._options.starting_snapshot)
        if start == "current":
            return self._whole(table, table.version)
        logged, oldest = self._logged(table)
        if start == "oldest":
            return self._whole(table, oldest)
        number = table.version
        if isinstance(start, int):
            number = start - 1
            if start > table.version or start not in logged:
                what = f"{self._label} has no version {start} in its log: versions {min(logged)} to {table.version} are"
                raise UnusableStart(what, "name one of its versions, or say startingSnapshot: oldest")
        if isinstance(start, datetime):
            while number in logged and logged[number] >= start:
                number -= 1
            if number not in logged and number != BEFORE:
                what = f"{self._label} has lost versions since {start}: the oldest in its log is {number + 1}"
                raise UnusableStart(what, "name a later time, or say startingSnapshot: oldest")
        return TableChange(Position(table.id, number), "nothing")

    def _logged(self, table: _Opened) -> tuple[Mapping[int, datetime], int]:
        """Return when each version of the log was written, and the oldest version that can be read as a whole."""
        logged: dict[int, datetime] = {}
        wholes = set()
        with self._storage.explaining("has a log that cannot be listed"):
            for info in table.files.get_file_info(fs.FileSelector(_LOG)):
                if match := _LOGGED.fullmatch(info.base_name):
                    if match[2] == "json":
                        logged[int(match[1])] = info.mtime
                    else:
                        wholes.add(int(match[1]))
        oldest = table.version
        while oldest in logged:
            oldest -= 1
        # Without a gap up to the newest: from the first version, or from a checkpoint.
        return logged, 0 if oldest == BEFORE else min(
            (each for each in wholes if each >= oldest), default=table.version
        )

    def _whole(self, table: _Opened, number: int) -> TableChange:
        if number != table.version and number < self._logged(table)[1]:
            raise self._gone(table, number)
        with self._storage.explaining(f"cannot be read at version {number}"):
            if table.delta.version() != number:
                table.delta.load_as_version(number)
            vectors = _VECTORS in (table.delta.protocol().reader_features or ())
            for batch in table.delta.deletion_vectors() if vectors else ():
                if batch.num_rows:
                    raise self._deletes(number)
            actions = pa.table(table.delta.get_add_actions())
        partitions = pa.table({})
        if "partition" in actions.column_names:
            partitions = pa.Table.from_struct_array(actions["partition"])
            partitions = partitions.cast(pa.schema([(name, pa.string()) for name in partitions.column_names]))
        columns = [actions[name].to_pylist() for name in ("path", "size_bytes", "modification_time", "num_records")]
        values = partitions.to_pylist() or [{}] * actions.num_rows
        files = [
            self._file(table, number, dict(zip(_ADDED, each, strict=True)), "insert")
            for each in zip(*columns, values, strict=True)
        ]
        files.sort(key=lambda file: (file.modified_ms, file.path))
        return TableChange(Position(table.id, number), "table", tuple(files))

    def _change(self, table: _Opened, number: int, actions: Sequence[Action] | None = None) -> TableChange:
        actions = actions or self._actions(table, number) or ()
        added = [each["add"] for each in actions if each.get("add", {}).get("dataChange")]
        removed = [each["remove"] for each in actions if each.get("remove", {}).get("dataChange")]
        recorded = [each["cdc"] for each in actions if "cdc" in each]
        commit: Action = next((each["commitInfo"] for each in actions if "commitInfo" in each), {})
        recordless = not recorded and any(each.get("partitionValues") is None for each in removed)
        if removed and (self._options.on_change == "fail" or (self._rows and (not table.feed or recordless))):
            more = ", or changeRows, if delta.enableChangeDataFeed records them"
            raise rows_changed(self._label, f"version {number}", commit.get("operation", "not recorded"), more)
        chosen: list[tuple[Action, str | None]] = [(each, "insert") for each in added]
        if removed and self._rows:
            chosen = [(each, None) for each in recorded] or [*((each, "delete") for each in removed), *chosen]
        at = {"modificationTime": commit.get("timestamp", 0)}
        files = tuple(self._file(table, number, {**at, **file}, change) for file, change in chosen)
        return TableChange(Position(table.id, number), "change" if removed else "append" if files else "nothing", files)

    def _file(self, table: _Opened, number: int, file: Action, change: str | None) -> LakeFile:
        if file.get("deletionVector"):
            raise self._deletes(number)
        values = {
            # Without a zone, a time is in UTC; an empty text is null.
            name: f"{text}Z" if text and name in table.times and not _ZONE.search(text) else text or None
            for name, text in (file.get("partitionValues") or {}).items()
        }
        if self._rows and change is not None:
            values[CHANGE_TYPE] = change
        path = unquote(file["path"])
        location = path if urlsplit(file["path"]).scheme or path.startswith("/") else f"{table.root}/{path}"
        records = file.get("numRecords", json.loads(file.get("stats") or "{}").get("numRecords"))
        return LakeFile(location, file.get("size") or 0, file["modificationTime"], records, values)

    def _actions(self, table: _Opened, number: int) -> list[Action] | None:
        """Return the actions of a version; None if there is none yet."""
        with self._storage.explaining(f"cannot be read at version {number}"):
            try:
                with table.files.open_input_stream(_file_of(number)) as stream:
                    return [json.loads(line) for line in stream.read().splitlines() if line.strip()]
            except FileNotFoundError:
                pass
        if number <= table.version:
            raise self._gone(table, number)
        return None

    def _mark(self, table: _Opened, number: int) -> object:
        """Return what tells a version's file of the log from each other one; None if it is not there."""
        with self._storage.explaining("cannot be read"):
            info = table.files.get_file_info(_file_of(number))
        return (table.id, number, info.size, info.mtime_ns) if info.type is fs.FileType.File else None

    def _gone(self, table: _Opened, number: int) -> Exception:
        logged, _ = self._logged(table)
        left = f"the oldest that is left is {min(logged)}" if logged else "none is left"
        return snapshots_gone(self._label, f"version {number} is not in its log any more: {left}")

    def _deletes(self, number: int) -> Exception:
        what = f"{self._label}: version {number} has files with deletion vectors, which Spark would not apply"
        return UnusableTable(what, "REORG TABLE … APPLY (PURGE), and start from the table as it is then")


def _file_of(number: int) -> str:
    return f"{_LOG}/{number:020d}.json"
