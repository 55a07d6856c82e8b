"""Looks for new files of a lake table while a query runs, and offers them to it with the positions behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from streamjob.clock import Clock
from streamjob.errors import CannotRestore, InvalidInput, JobFailed, StreamJobError
from streamjob_runtime.discovery.entries import last_file
from streamjob_runtime.discovery.lake.changes import LakeFile, LakeTable, Position, TableChange, TableColumns
from streamjob_runtime.discovery.lake.refusals import refusal_of
from streamjob_runtime.discovery.objects import Refused
from streamjob_runtime.discovery.search_thread import Inbox, SearchThread

_AT_ONCE = 1_000
"""Files that are offered at once."""


class ColumnsChanged(StreamJobError):
    """A table has other columns than the query that reads it; the next attempt reads those."""


class TableSearch(SearchThread):
    """Finds the files of one reading of a table.

    Its position stands in the entries with the files; behind a snapshot that gives nothing to read, such as a
    compaction, it is kept in memory only.

    Args:
        who: the source, at the beginning of a message.
        table: the table, for this thread alone.
        planned: the columns that the query reads.
        begin: the position before the first file; None if `startingSnapshot` says it.
        inbox: takes the files that are to be read.
        folder: the source's folder below `sources/`.
        clock: seconds since 1970.
        check_interval: seconds between two checks; None if it depends on whether files come.
    """

    def __init__(
        self,
        *,
        who: str,
        table: LakeTable,
        planned: TableColumns,
        begin: Position | None,
        inbox: Inbox,
        folder: Path,
        clock: Clock,
        check_interval: float | None,
    ) -> None:
        super().__init__(who=who, inbox=inbox, folder=folder, clock=clock, check_interval=check_interval)
        self._table = table
        self._planned = planned
        self._position = begin
        if self._compacted >= 0:
            self._position = Position.from_json(last_file(folder, self._compacted)["at"])

    def _check(self) -> None:
        try:
            for change in self._table.changes(self._position):
                if change.files and self._table.columns() != self._planned:
                    raise ColumnsChanged("the table has other columns now", "nothing: the next attempt reads them")
                for start in range(0, len(change.files), _AT_ONCE):
                    self._offer(change, start)
                self._position = change.position
                if self._stopped.is_set():
                    break
        except (InvalidInput, CannotRestore, JobFailed) as error:
            raise Refused(refusal_of(error)) from error

    def _offer(self, change: TableChange, start: int) -> None:
        chosen = enumerate(change.files[start : start + _AT_ONCE], start + 1)
        self._inbox.offer(lines([(file, change.after(number)) for number, file in chosen]))
        self._position = change.after(start + _AT_ONCE)
        self._offered()
        self._wait_for_room()

    def _forget_before_ms(self) -> int:
        # The position alone tells what was read.
        return round(self._clock() * 1000)


def lines(files: Sequence[tuple[LakeFile, Position]]) -> str:
    """Return files, each with the position behind it, as entries of a source's log have them, a line for each."""
    return "\n".join(json.dumps(_fields(file, behind), separators=(",", ":")) for file, behind in files)


def _fields(file: LakeFile, behind: Position) -> Mapping[str, Any]:
    scheme, _, rest = file.path.partition("://") if urlsplit(file.path).scheme else ("file", "", file.path)
    return {
        "path": f"{'s3a' if scheme == 's3' else scheme}://{rest}",
        "size": file.size,
        "modified": file.modified_ms,
        "version": "",
        **({"values": file.values} if file.values else {}),
        "at": behind.to_json(),
    }
