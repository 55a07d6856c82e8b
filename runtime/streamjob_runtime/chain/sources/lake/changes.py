"""The changes of a lake table that a source reads: their files in order, and the positions between them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from streamjob.errors import CannotRestore, InvalidInput, JobFailed
from streamjob_runtime.discovery.objects import Found, key_of
from streamjob_runtime.sinks.bucket.layout import partition_directory

ROOT = "lake:/"  # above the directories that tell columns
BEFORE = -1  # the number of a position before the first snapshot


class SnapshotsGone(CannotRestore):
    """The table no longer has the snapshots that follow the position of a source."""

    def __init__(self, label: str, what: str) -> None:
        super().__init__(
            f"{label}: {what}",
            "start without state (--from none), with startingSnapshot: current or oldest; and keep snapshots longer "
            "than the job may be stopped",
        )


class TableMadeAgain(CannotRestore):
    """The table was deleted or replaced, and another one has its name: a position means nothing in it."""

    def __init__(self, label: str, expected: str, found: str | None) -> None:
        super().__init__(
            f"{label} is gone: table {expected} was read"
            if found is None
            else f"{label} is table {found}, and table {expected} was read: it was made again",
            "bring the table back; or start without state (--from none), which reads the new one from its beginning",
        )


class RowsChanged(JobFailed):
    """A snapshot deletes or overwrites rows, and `onChange` does not say how to read that."""

    def __init__(self, label: str, snapshot: str, operation: str) -> None:
        super().__init__(
            f"{label}: {snapshot} is no append: its operation is {operation}, and its changes cannot be read as new "
            "rows",
            "say onChange: addedFiles, which reads the files that it adds and ignores what it deletes; or, for a Delta "
            "table with a change data feed, onChange: changeRows; or start without state (--from none) from the table "
            "as it is now",
        )


class UnusableStart(InvalidInput):
    """The table has no snapshot at which the source can begin as `startingSnapshot` says."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table is read; it can be kept as JSON.

    Args:
        table: the table's id.
        number: the snapshot's id or the version that is read last; BEFORE if none is.
        whole: whether the table as it was there is being read, instead of what the snapshot adds.
        read: how many files of it are read, in their order; None if all are.
    """

    table: str
    number: int
    whole: bool = False
    read: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the position as a JSON object."""
        rest = {} if self.read is None else {"whole": self.whole, "read": self.read}
        return {"table": self.table, "snapshot": self.number, **rest}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Position:
        """Return the position of a JSON object that `to_json` has made."""
        return cls(value["table"], value["snapshot"], value.get("whole", False), value.get("read"))


@dataclass(frozen=True, slots=True)
class LakeFile(Found):
    """A Parquet file of a table, with the time when it became a part of the table.

    Args:
        values: the columns whose values are not in the file, as texts that Spark casts to their types; None is null.
        group: a batch has files of one group; empty for any.
    """

    values: Mapping[str, str | None] = field(default_factory=dict)
    group: str = ""

    @classmethod
    def at(cls, path: str, size: int, modified_ms: int, values: Mapping[str, str | None] | None = None) -> LakeFile:
        """Return the file at a path or URI as it is in the store, in which nothing is percent-encoded."""
        uri = path if urlsplit(path).scheme else f"file://{path}"
        return cls(key_of(uri), size, modified_ms, "", values or {})

    def before(self, behind: Position) -> LakeFile:
        """Return the file with the position behind it as its version."""
        return replace(self, version=json.dumps(behind.to_json()))

    def line(self) -> str:
        """Return it as an entry of a source's log has it: directories tell Spark the columns that it lacks."""
        names = sorted(self.values)
        fields = {"path": self.key, "size": self.size, "modified": self.modified_ms, "version": self.version}
        directory = ROOT + partition_directory(names, [self.values[name] for name in names])
        group = {"group": self.group} if self.group else {}
        return json.dumps({**fields, "directory": directory, **group}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class TableChange:
    """The files that a source reads of one snapshot.

    Args:
        position: the position when all its files are read.
        kind: `table`: all files that the table had; `append`: those that the snapshot added; `change`: it deleted rows,
            too; `nothing`: it has only moved rows, or there is nothing to read.
        files: in the order of reading. It is the same each time.
        skipped: how many of its files were read before and are left out.
    """

    position: Position
    kind: Literal["table", "append", "change", "nothing"]
    files: Sequence[LakeFile] = ()
    skipped: int = 0

    def after(self, count: int) -> Position:
        """Return the position when the first `count` files are read."""
        if count >= len(self.files):
            return self.position
        return replace(self.position, whole=self.kind == "table", read=self.skipped + count)

    def rest(self, read: int) -> TableChange:
        """Return the change without its first files, which were read."""
        return replace(self, files=self.files[read:], skipped=read)


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a table as the JSON of a StructType of Spark, and the names of those that are not in its files."""

    struct: str
    beside: tuple[str, ...] = ()


class LakeTable(Protocol):
    """A table whose changes are read."""

    def columns(self) -> TableColumns:
        """Return the table's columns as they were when `changes` has asked for it, or as they are."""
        ...

    def changes(self, position: Position | None) -> Iterator[TableChange]:
        """Yield what follows a position, up to the newest snapshot; for None, what `startingSnapshot` says comes first.

        Raises:
            SnapshotsGone, TableMadeAgain, RowsChanged, UnusableStart, UnusableTable: see there.
            StreamJobError: the table, its catalog or its files cannot be reached.
        """
        ...
