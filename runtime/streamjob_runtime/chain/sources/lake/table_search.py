"""Finds the new files of a lake table for the query that reads it, each with the position behind it as its version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from streamjob.errors import CannotRestore, ExitCode, InvalidInput, JobFailed, StreamJobError
from streamjob.store.base import StoreUnavailable
from streamjob_runtime.chain.sources.discovered_files import SourceMoved
from streamjob_runtime.chain.sources.lake.changes import LakeTable, Position, TableChange, TableColumns
from streamjob_runtime.discovery.objects import Classified, Found, Refused
from streamjob_runtime.spark.text.error_positions import error_text, position_in

_AT_ONCE = 1_000  # files
_KIND = "table-refused"


class ColumnsChanged(StreamJobError):
    """A table has other columns than the query that reads it; the next attempt reads those."""


class TableRefused(JobFailed):
    """A source cannot go on in its lake table; the job's last completed checkpoint is intact."""


class TableSearch:
    """The search for the files of one reading of a table.

    Behind a snapshot that gives nothing to read, such as a compaction, its position is kept in memory only.

    Args:
        table: the table, for this search alone.
        planned: the columns that the query reads.
        begin: the position before the first file; None if `startingSnapshot` says it.
        recent: the files that were read last; empty if none was.

    Raises:
        SourceMoved: they are files of no table.
    """

    def __init__(
        self, table: LakeTable, planned: TableColumns, begin: Position | None, recent: Sequence[Found]
    ) -> None:
        self._table = table
        self._planned = planned
        try:
            self._position = Position.from_json(json.loads(recent[-1].version)) if recent else begin
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SourceMoved(
                f"the state is about other files than those of a table, {recent[-1].key} among them",
                "give the source the path of these files; or give it another uid, and it starts from the beginning",
            ) from None

    def __call__(self, known: object, now: float) -> Iterator[Classified]:
        """Yield the files that are new, in their order.

        Raises:
            ColumnsChanged: they have other columns than those planned.
            Refused: another attempt would not read the table, either.
            StoreUnavailable: the table, its catalog or its files cannot be reached.
        """
        for change in self._changes():
            if change.files and self._table.columns() != self._planned:
                raise ColumnsChanged("the table has other columns now", "nothing: the next attempt reads them")
            for start in range(0, len(change.files), _AT_ONCE):
                part = enumerate(change.files[start : start + _AT_ONCE], start + 1)
                # The caller offers these files before it begins the next check, also if this one ends here.
                self._position = change.after(start + _AT_ONCE)
                yield Classified([file.before(change.after(number)) for number, file in part])
            self._position = change.position

    def _changes(self) -> Iterator[TableChange]:
        try:
            yield from self._table.changes(self._position)
        except (InvalidInput, CannotRestore, JobFailed) as error:
            text = {"what": error.what, "fix": error.fix, "exit": int(error.exit_code)}
            raise Refused(error_text(_KIND, text)) from error
        except StreamJobError as error:
            raise StoreUnavailable(error.what, error.fix) from error


def table_refused_in(text: str) -> TableRefused | None:
    """Return what a table has refused, with its exit code; None if the text of an error is about no table."""
    if (found := position_in(_KIND, text)) is None:
        return None
    error = TableRefused(found["what"], found["fix"])
    error.exit_code = ExitCode(found["exit"])
    return error
