"""Reads which data files the versions of a Delta table appended: from its log, and a whole version with deltalake.

The log has a file of actions for each version: https://github.com/delta-io/delta/blob/master/PROTOCOL.md.
A version with actions `cdc` has all its changed rows in their files; one without has changed all rows of its files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import fs

from streamjob.job.connectors.lake_source import CHANGE_ROWS, parse_delta, start_of
from streamjob_runtime.chain.sources.lake import change_feed
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
from streamjob_runtime.sinks.delta.storage import Storage
from streamjob_runtime.sinks.errors import UnusableTable

_LOG = "_delta_log"
_LOGGED = re.compile(r"(\d{20})\.(json|checkpoint\..+)")
_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
_VECTORS = "deletionVectors"
_FEED = "delta.enableChangeDataFeed"
_READABLE = {"columnMapping", _VECTORS, "timestampNtz", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck"}
"""Features that ask nothing of a reader of Parquet files, or whose use is found."""
_ADDED = ("path", "size", "modificationTime", "partitionValues")

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Opened:
    """A table as it was when it was opened: its columns in the form of Spark's JSON, and its directory."""

    id: str
    version: int
    fields: Sequence[Mapping[str, Any]]
    files: fs.FileSystem
    delta: DeltaTable


class DeltaVersions:
    """The changes of a Delta table; see LakeTable. To find nothing new costs two requests.

    Args:
        label: the source's name in messages, as in "source orders".
        options: its resolved options.

    Raises:
        UnusableOptions: an option is invalid. `columns` and `changes` raise DeltaUnreachable, not this.
    """

    def __init__(self, label: str, options: Mapping[str, str]) -> None:
        self._options = parse_delta(options, label)
        self._label = f"{label}: table {self._options.path}"
        self._storage = Storage(label, options)
        self._opened: _Opened | None = None
        self._as_changes = self._options.on_change == CHANGE_ROWS

    def columns(self) -> TableColumns:
        """Return the table's columns; see LakeTable."""
        table = self._opened or self._open(None)
        fields = [{**field, "nullable": True} for field in table.fields]
        partitions = tuple(table.delta.metadata().partition_columns)
        if binary := [each["name"] for each in fields if each["name"] in partitions and each["type"] == "binary"]:
            raise UnusableTable(
                f"{self._label} has partitions by {binary[0]}, which is BINARY: its values are no text",
                "rewrite the table without this partition column",
            )
        if self._as_changes:
            if taken := {each["name"] for each in change_feed.FIELDS} & {each["name"].lower() for each in fields}:
                what = f"{self._label} has a column {min(taken)}, which is one of the change data feed"
                raise UnusableTable(what, "give the column another name")
            fields, partitions = [*fields, *change_feed.FIELDS], (*partitions, *change_feed.BESIDE)
        return TableColumns(json.dumps({"type": "struct", "fields": fields}), partitions)

    def changes(self, position: Position | None) -> Iterator[TableChange]:
        """Yield what follows a position; see LakeTable."""
        if position is not None and self._is_newest(position):
            return
        table = self._open(position)
        first = TableChange(position, "nothing") if position is not None else self._first(table)
        if position is not None and position.read is not None:
            first = (self._whole if position.whole else self._change)(table, position.number).rest(position.read)
        if position != first.position:
            yield self._present(table, first)
        for number in range(first.position.number + 1, table.version + 1):
            yield self._present(table, self._change(table, number))

    def _is_newest(self, position: Position) -> bool:
        table = self._opened
        if table is None or position != Position(table.id, table.version):
            return False
        with self._storage.explaining("cannot be read"):
            infos = table.files.get_file_info([_file_of(number) for number in (table.version, table.version + 1)])
        return [info.type for info in infos] == [fs.FileType.File, fs.FileType.NotFound]

    def _open(self, position: Position | None) -> _Opened:
        delta = self._storage.find()
        if delta is None and position is not None:
            raise TableMadeAgain(self._label, position.table, None)
        if delta is None:
            raise UnusableTable(f"{self._label} does not exist", "make it, or correct the option 'path'")
        with self._storage.explaining("cannot be read"):
            metadata, protocol = delta.metadata(), delta.protocol()
            fields = json.loads(delta.schema().to_json())["fields"]
            table = _Opened(str(metadata.id), delta.version(), fields, self._storage.files_of(delta)(), delta)
        if position is not None and position.table != table.id:
            raise TableMadeAgain(self._label, position.table, table.id)
        if position is not None and position.number > table.version:
            what = f"it ends with version {table.version}, and {position.number} was read: an older copy was restored"
            raise SnapshotsGone(self._label, what)
        unknown = sorted({*(protocol.reader_features or ())} - _READABLE)
        if protocol.min_reader_version > 3 or unknown:
            what = f"reader version {protocol.min_reader_version}, and the features {unknown}"
            raise UnusableTable(f"{self._label} has {what}, which cannot be read right", "drop the features")
        if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
            what = f"{self._label} maps its columns to other names in its files (delta.columnMapping.mode)"
            raise UnusableTable(f"{what}: Spark would read null from them", "read a table without it")
        self._check_feed(metadata.configuration, "it")
        self._opened = table
        return table

    def _first(self, table: _Opened) -> TableChange:
        start = start_of(self._options.starting_snapshot)
        if start == "current":
            return self._whole(table, table.version)
        logged, oldest = self._logged(table)
        if start == "oldest":
            return self._whole(table, oldest)
        number = start - 1 if isinstance(start, int) else table.version
        if isinstance(start, int) and start not in logged:
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
        with self._storage.explaining("has a log that cannot be listed"):
            infos = table.files.get_file_info(fs.FileSelector(_LOG))
        found = [(match, info) for info in infos if (match := _LOGGED.fullmatch(info.base_name))]
        logged = {int(match[1]): info.mtime for match, info in found if match[2] == "json"}
        wholes = {int(match[1]) for match, _ in found if match[2] != "json"} | {0}
        begin = table.version
        while begin - 1 in logged:
            begin -= 1
        # Without a gap up to the newest: from the first version, or from a checkpoint.
        return logged, min((each for each in wholes if each >= begin - 1), default=table.version)

    def _whole(self, table: _Opened, number: int) -> TableChange:
        if number != table.version and number < self._logged(table)[1]:
            raise self._gone(table, number)
        with self._storage.explaining(f"cannot be read at version {number}"):
            if table.delta.version() != number:
                table.delta.load_as_version(number)
            vectors = _VECTORS in (table.delta.protocol().reader_features or ())
            if vectors and any(batch.num_rows for batch in table.delta.deletion_vectors()):
                raise self._deletes(number)
            actions = pa.table(table.delta.get_add_actions())
        partitions = pa.table({})
        if "partition" in actions.column_names:
            partitions = pa.Table.from_struct_array(actions["partition"])
            partitions = partitions.cast(pa.schema([(name, pa.string()) for name in partitions.column_names]))
        columns = [actions[name].to_pylist() for name in ("path", "size_bytes", "modification_time")]
        rows = zip(*columns, partitions.to_pylist() or [{}] * actions.num_rows, strict=True)
        files = [self._file(table, number, dict(zip(_ADDED, row, strict=True))) for row in rows]
        files.sort(key=lambda file: (file.modified_ms, file.key))
        if self._as_changes:
            logged = number in self._logged(table)[0]
            time = _time_of(self._actions(table, number)) if logged else None
            files = [_of_feed(file, number, time, change_feed.INSERT) for file in files]
        return TableChange(Position(table.id, number), "table", tuple(files))

    def _change(self, table: _Opened, number: int) -> TableChange:
        actions = self._actions(table, number)
        if self._as_changes:
            return self._change_rows(table, number, actions)
        added = [each["add"] for each in actions if each.get("add", {}).get("dataChange")]
        removes = any(each.get("remove", {}).get("dataChange") for each in actions)
        if removes and self._options.on_change == "fail":
            commit: Action = next((each["commitInfo"] for each in actions if "commitInfo" in each), {})
            raise RowsChanged(self._label, f"version {number}", commit.get("operation", "not recorded"))
        files = tuple(self._file(table, number, file) for file in added)
        return TableChange(Position(table.id, number), "change" if removes else "append" if files else "nothing", files)

    def _change_rows(self, table: _Opened, number: int, actions: Sequence[Action]) -> TableChange:
        for each in actions:
            if "metaData" in each:
                self._check_feed(each["metaData"].get("configuration") or {}, f"version {number}")
        added, removed = (
            [each[name] for each in actions if each.get(name, {}).get("dataChange")] for name in ("add", "remove")
        )
        told = [each["cdc"] for each in actions if "cdc" in each]
        parts = [(change_feed.DELETE, removed), (change_feed.INSERT, added)]
        if told:
            parts = [(change_feed.BEFORE, told), (change_feed.AFTER, told)]
        time = _time_of(actions)
        files = tuple(
            _of_feed(self._file(table, number, {"modificationTime": time or 0, **file}), number, time, rows)
            for rows, given in parts
            for file in given
        )
        changes = bool(told or removed)
        return TableChange(Position(table.id, number), "change" if changes else "append" if files else "nothing", files)

    def _check_feed(self, configuration: Mapping[str, str | None], what: str) -> None:
        if self._as_changes and (configuration.get(_FEED) or "").lower() != "true":
            raise UnusableTable(
                f"{self._label}: {what} has no change data feed, which onChange: changeRows reads",
                f"ALTER TABLE … SET TBLPROPERTIES ({_FEED} = true), and start from a version after that",
            )

    def _present(self, table: _Opened, change: TableChange) -> TableChange:
        """Return a change whose files are there, also those that are no part of the table any more."""
        root = LakeFile.at(unquote(table.delta.table_uri), 0, 0).key.rstrip("/") + "/"
        passing = [each.key for each in change.files if each.values.get(change_feed.ROWS, "insert") != "insert"]
        paths = sorted({key.removeprefix(root) for key in passing if key.startswith(root)})
        with self._storage.explaining("has files that cannot be looked up"):
            infos = table.files.get_file_info(paths)
        if gone := [info.path for info in infos if info.type == fs.FileType.NotFound]:
            number = change.position.number
            what = f"{len(gone)} of the files with the changes of version {number} are gone, as VACUUM deletes them"
            raise SnapshotsGone(self._label, f"{what}: {gone[0]}")
        return change

    def _file(self, table: _Opened, number: int, file: Action) -> LakeFile:
        if file.get("deletionVector"):
            raise self._deletes(number)
        times = {field["name"] for field in table.fields if field["type"] == "timestamp"}
        values = {
            # Without a zone, a time is in UTC; an empty text is null.
            name: f"{text}Z" if text and name in times and not _ZONE.search(text) else text or None
            for name, text in (file.get("partitionValues") or {}).items()
        }
        path = unquote(file["path"])
        if not urlsplit(file["path"]).scheme and not path.startswith("/"):
            path = f"{unquote(table.delta.table_uri).rstrip('/')}/{path}"
        return LakeFile.at(path, file["size"], file["modificationTime"], values)

    def _actions(self, table: _Opened, number: int) -> Sequence[Action]:
        with self._storage.explaining(f"cannot be read at version {number}"):
            try:
                with table.files.open_input_stream(_file_of(number)) as stream:
                    return [json.loads(line) for line in stream.read().splitlines() if line.strip()]
            except FileNotFoundError:
                pass
        raise self._gone(table, number)

    def _gone(self, table: _Opened, number: int) -> SnapshotsGone:
        logged, _ = self._logged(table)
        left = f"the oldest that is left is {min(logged)}" if logged else "none is left"
        return SnapshotsGone(self._label, f"version {number} is not in its log any more: {left}")

    def _deletes(self, number: int) -> UnusableTable:
        what = f"{self._label}: version {number} has files with deletion vectors, which Spark would not apply"
        return UnusableTable(what, "REORG TABLE … APPLY (PURGE), and start from the table as it is then")


def _time_of(actions: Sequence[Action]) -> int | None:
    """Return when a version was committed, in ms since 1970, if it says so."""
    commit: Action = next((each["commitInfo"] for each in actions if "commitInfo" in each), {})
    time: int | None = commit.get("inCommitTimestamp", commit.get("timestamp"))
    return time


def _of_feed(file: LakeFile, number: int, time: int | None, rows: str) -> LakeFile:
    """Return a file with the columns of the change feed that it lacks; `rows` says which of its rows are read."""
    text = None if time is None else datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds")
    more = dict(zip(change_feed.BESIDE, (str(number), text, rows), strict=True))
    return replace(file, values={**file.values, **more}, group=f"{number} {rows}")


def _file_of(number: int) -> str:
    return f"{_LOG}/{number:020d}.json"
