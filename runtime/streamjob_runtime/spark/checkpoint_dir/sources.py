"""Finds the files below `sources/` that a restart at a batch needs.

Most sources keep at most one file there, with their starting point. The file source keeps a log: entry `k` lists the
files of its k-th read, every tenth entry is a `.compact` with all entries so far, and the offset log contains
`{"logOffset": k}`. The log is ahead of the query's committed batch: Spark adds entry k+1 before it plans the batch that
reads it. Entries after the cut's offset are left out of the cut. The restored source lists its directory again and
finds those files unread. With the entries it would read them too, but all in one batch regardless of the source's
limits, and the cut would depend on later events. In neither case is anything lost or read twice. If the offset log has
no offset yet, the directory is taken whole: Kafka's initial offsets look like the file source's log.

A file source of streamjob has the offset `{"files": n}`, and entries of its own; see `file_entries`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from streamjob_runtime.spark.checkpoint_dir.file_entries import (
    files_to_remove,
    last_read,
    last_read_by_spark,
    needed_files,
)
from streamjob_runtime.spark.checkpoint_dir.logs import OffsetEntry

_ENTRY = re.compile(r"(\d+)(\.compact)?")


def source_files(checkpoint: Path, offsets: OffsetEntry, directories: Sequence[int] | None = None) -> tuple[str, ...]:
    """Return the files below `sources/` that a restart at the batch of `offsets` needs, relative to the checkpoint.

    Raises:
        FileNotFoundError: an entry of a file source does not exist, or no longer exists.
    """
    positions = dict(offsets.offsets(directories))
    found: list[str] = []
    for source in sorted(_directories(checkpoint / "sources")):
        names = sorted(_names(source))
        found += (f"sources/{source.name}/{name}" for name in _kept(names, positions.get(source.name, "")))
    return tuple(found)


def file_source_entries(names: Iterable[str], position: int) -> list[str]:
    """Return the entries of a file source's log that it needs to continue after entry `position`.

    Args:
        names: the existing entries.
        position: the last entry that was read; -1 for none.

    Raises:
        FileNotFoundError: an entry between the last compaction and `position` does not exist.
    """
    by_number = log_entries(names)
    compacted = max((n for n, name in by_number.items() if n <= position and name.endswith(".compact")), default=0)
    kept = []
    for number in range(compacted, position + 1):
        if number not in by_number:
            raise FileNotFoundError(f"entry {number} of a file source's log")
        kept.append(by_number[number])
    return kept


def log_entries(names: Iterable[str]) -> dict[int, str]:
    """Return the entries of a file source's log by their numbers."""
    return {int(match[1]): name for name in names if (match := _ENTRY.fullmatch(name))}


def grows_by_appending(path: str) -> bool:
    """Return whether a checkpoint file starts with the content of the file that it replaces.

    This is true for the compacted log of a file source: Spark writes the entries of the last compaction and the later
    ones, one line each. So a source's history is rewritten each time, and only its end is new. The `.known` files of a
    file source of streamjob grow likewise.
    """
    return path.startswith("sources/") and path.endswith((".compact", ".known"))


def _kept(names: list[str], offset: str) -> list[str]:
    try:
        value = json.loads(offset)
    except ValueError:
        return names
    if (position := last_read(value)) is not None:
        removed = (name for last, (_, name) in files_to_remove(names).items() if last <= position)
        return [*needed_files(names, position), *removed]
    if (position := last_read_by_spark(value)) is not None and all(map(_ENTRY.fullmatch, names)):
        return file_source_entries(names, position)
    return names


def _directories(folder: Path) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if entry.is_dir()]
    except FileNotFoundError:
        return []


def _names(source: Path) -> list[str]:
    """Return the names below a source's directory; those that begin with a dot are unfinished."""
    return [
        file.relative_to(source).as_posix()
        for file in source.rglob("*")
        if not file.name.startswith(".") and file.is_file()
    ]
