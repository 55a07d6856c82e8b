"""What a lake table gives to a source: the files of its changes in their order, and the positions between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from streamjob.errors import CannotRestore, InvalidInput, JobFailed

BEFORE = -1
"""The number of a position before the first snapshot."""


class SnapshotsGone(CannotRestore):
    """The table no longer has the snapshots that follow the position of a source."""


class TableMadeAgain(CannotRestore):
    """The table was deleted or replaced, and another one has its name: a position means nothing in it."""


class RowsChanged(JobFailed):
    """A snapshot deletes or overwrites rows, and `onChange` does not say how to read that."""


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
class LakeFile:
    """A Parquet file of a table.

    Args:
        path: its location as it is in the store; nothing is percent-encoded.
        size: bytes.
        modified_ms: when it became a part of the table, in ms since 1970.
        records: its number of rows; None if the table does not say.
        values: the columns whose values are not in the file, as texts that Spark casts to their types; None is null.
    """

    path: str
    size: int
    modified_ms: int
    records: int | None
    values: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a snapshot gives to read.

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
    """The columns of a table.

    Args:
        struct: the JSON of a StructType of Spark, with which all its files are read.
        beside: those whose values are not in the files, or not in all; those that some files have come first.
    """

    struct: str
    beside: tuple[str, ...] = ()


class LakeTable(Protocol):
    """A table whose changes are read."""

    def columns(self) -> TableColumns:
        """Return the table's columns, as they were when it was last opened: after the last change, or later.

        Raises:
            UnusableTable: see `changes`.
        """
        ...

    def changes(self, position: Position | None) -> Iterator[TableChange]:
        """Yield what follows a position, up to the newest snapshot; for None, what `startingSnapshot` says comes first.

        Raises:
            SnapshotsGone: the snapshots that follow have expired, or the table was rolled back.
            TableMadeAgain: the table is another one.
            RowsChanged: a snapshot deletes or overwrites rows, and `onChange` does not say how to read that.
            UnusableStart: there is no snapshot at which to begin.
            UnusableTable: there is no table, or it has what cannot be read right.
        """
        ...


def rows_changed(label: str, snapshot: str, operation: str, more: str = "") -> RowsChanged:
    """Return the error for a snapshot that changes rows.

    Args:
        label: names the table.
        snapshot: names the snapshot.
        more: further ways to read it.
    """
    return RowsChanged(
        f"{label}: {snapshot} is no append: its operation is {operation}, and its changes cannot be read as new rows",
        f"say onChange: addedFiles, which reads the files that it adds and ignores what it deletes{more}; or start "
        "without state (--from none) from the table as it is now",
    )


def snapshots_gone(label: str, what: str) -> SnapshotsGone:
    """Return the error for snapshots that cannot be read any more; `what` says which and why."""
    return SnapshotsGone(
        f"{label}: {what}",
        "start without state (--from none), with startingSnapshot: current or oldest; and keep snapshots longer than "
        "the job may be stopped",
    )


def made_again(label: str, expected: str, found: str | None) -> TableMadeAgain:
    """Return the error for a table that is gone or another one; takes the ids of both."""
    return TableMadeAgain(
        f"{label} is gone: table {expected} was read"
        if found is None
        else f"{label} is table {found}, and table {expected} was read: it was made again",
        "bring the table back; or start without state (--from none), which reads the new one from its beginning",
    )
