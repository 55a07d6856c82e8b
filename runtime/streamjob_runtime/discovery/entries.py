"""Reads and compacts the files below `sources/K/`, from which a source knows after a restart what it has read.

Entry `<n>` has a line `v1`, and then of each file of the source's n-th read a JSON object with `path`, `size`,
`modified` (ms since 1970), `version`, and of one that was left out, its `error`. `<c>.known` has the records of the
entries 0..c (see `known`), in the order of reading. It begins with the content of the `.known` file before it, so that
a checkpoint uploads only its new end. When more than a quarter of its records are forgotten, or are of keys that were
read again, it is rewritten without them. So after a restart a source may know objects that it had forgotten.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from streamjob_runtime.discovery.known import NEVER, RECORD_SIZE, Known, head, record, share_alive
from streamjob_runtime.discovery.objects import Found, key_of
from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.file_entries import needed_files, newest_known
from streamjob_runtime.spark.checkpoint_dir.files_read import sparks_files
from streamjob_runtime.spark.checkpoint_dir.text_files import write_anew

KEPT_ENTRIES = 100
"""Positions before the committed one at which a cut may still be taken."""
MOST_ENTRIES = 100
"""Entries behind a `.known` file that a restart reads, of a source that finds few files at a time."""
MOST_FILES = 1_000
"""Files of the entries behind a `.known` file, unless a twentieth of the known ones is more."""
LEAST_ALIVE = 0.75
"""The share of the records that a `.known` file has to need in order to grow."""


def entry_files(folder: Path) -> list[str]:
    """Return the names of a source's files; those that begin with a dot are unfinished."""
    try:
        return [each.name for each in folder.iterdir() if not each.name.startswith(".")]
    except FileNotFoundError:
        return []


def last_entry(folder: Path) -> int:
    """Return the number of the last entry; -1 without one. A batch may be planned that reads it."""
    return max((int(name) for name in entry_files(folder) if name.isdecimal()), default=-1)


def read_entry(folder: Path, entry: int | str) -> list[Found]:
    """Return the files of an entry; the key of each is its path as it stands there.

    Args:
        entry: its number, or the name of another file in the format of an entry.

    Raises:
        UnreadableCheckpointFile: the entry does not exist, or has another format.
    """
    file = folder / str(entry)
    # Not by the line breaks of Unicode, which a name may contain.
    version, *lines = _content(file).split(b"\n")
    if version != b"v1":
        raise UnreadableCheckpointFile(file, f"unknown version {version[:20]!r}")
    try:
        values = [json.loads(line) for line in lines if line]
        return [
            Found(each["path"], int(each["size"]), int(each["modified"]), each["version"], damage=each.get("error"))
            for each in values
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableCheckpointFile(file, repr(error)) from None


def load(folder: Path, position: int) -> tuple[Known, list[Found]]:
    """Return what is known after a position, and the files of those entries that still have names, in order.

    Args:
        position: the last entry that was read; -1 for none.

    Raises:
        UnreadableCheckpointFile: a file does not exist, or has another format.
    """
    try:
        needed = needed_files(entry_files(folder), position)
    except FileNotFoundError as error:
        raise UnreadableCheckpointFile(folder, f"{error} is missing") from None
    known = Known()
    if needed and not needed[0].isdigit():
        file = folder / needed.pop(0)
        try:
            known = Known.of(file)
        except (OSError, ValueError) as error:
            raise UnreadableCheckpointFile(file, str(error)) from None
    recent = [found for name in needed for found in read_entry(folder, int(name))]
    for found in recent:
        known.add(found)
    return known, recent


def adopt(folder: Path, position: int) -> Known:
    """Let a source go on behind the log of Spark's own stream of files, in which each object has only its path.

    What Spark has listed and not read is forgotten, and found again.

    Args:
        position: the last entry of the log that was read.

    Raises:
        UnreadableCheckpointFile: the log does not have the format of Spark 4.3.
    """
    known = Known()
    try:
        paths = sparks_files(folder, position)
    except FileNotFoundError as error:
        raise UnreadableCheckpointFile(folder, f"{error} is missing") from None
    for path in paths:
        known.add_any_version(key_of(path))
    write_anew(folder / f"{position}.known", known.to_records())
    for name in entry_files(folder):
        if (number := name.removesuffix(".compact")).isdecimal() and int(number) > position:
            (folder / name).unlink()
    return known


def compact(
    folder: Path, committed: int, forget_before_ms: int = NEVER, before: Callable[[int], None] | None = None
) -> None:
    """Write a `.known` file if it is due, and delete the files that no cut needs that may still be taken.

    Args:
        committed: the position of the last committed batch; this entry keeps its names.
        forget_before_ms: objects from before this time, in ms since 1970, need not be known any more.
        before: is called with `committed` before entries lose their names.

    Raises:
        UnreadableCheckpointFile: an entry or the former `.known` file does not exist, or has another format.
    """
    covered = newest_known(entry_files(folder), committed)
    behind = range(covered + 1, committed)
    known = (folder / f"{covered}.known").stat().st_size // RECORD_SIZE if covered >= 0 else 0
    if is_due(len(behind), sum(_content(folder / str(n)).count(b"\n") for n in behind), known):
        if before is not None:
            before(committed)
        write_known(folder, committed - 1, forget_before_ms)
    for name in superfluous(entry_files(folder), committed):
        (folder / name).unlink(missing_ok=True)


def is_due(entries: int, files: int, known: int) -> bool:
    """Return whether the entries behind a `.known` file are too many.

    Args:
        entries: their number.
        files: the number of their files.
        known: the number of the records in the `.known` file.
    """
    return entries > MOST_ENTRIES or files > max(MOST_FILES, known // 20)


def superfluous(names: list[str], committed: int) -> list[str]:
    """Return the files that are needed at none of the positions from `committed - KEPT_ENTRIES` to `committed`."""
    base = newest_known(names, committed - KEPT_ENTRIES)
    numbers = {name: int(name.removesuffix(".known")) for name in names if name.removesuffix(".known").isdecimal()}
    return [name for name, n in numbers.items() if n < base or name == str(base)]


def write_known(folder: Path, upto: int, forget_before_ms: int = NEVER) -> None:
    """Write the `.known` file of the entries 0..upto, from the one before and the entries behind it.

    Args:
        upto: the last entry that it covers.
        forget_before_ms: see `compact`; the records of those objects are left out if the file is rewritten.

    Raises:
        UnreadableCheckpointFile: an entry or the former `.known` file does not exist, or has another format.
    """
    covered = newest_known(entry_files(folder), upto)
    added = b"".join(record(found) for n in range(covered + 1, upto + 1) for found in read_entry(folder, n))
    temporary = folder / f".{upto}.known.new"
    if covered >= 0:
        shutil.copyfile(folder / f"{covered}.known", temporary)
    else:
        temporary.write_bytes(head())
    with temporary.open("ab") as file:
        file.write(added)
    try:
        if share_alive(temporary, forget_before_ms) < LEAST_ALIVE:
            known = Known.of(temporary)
            known.forget(forget_before_ms)
            temporary.write_bytes(known.to_records())
    except ValueError as error:
        raise UnreadableCheckpointFile(folder / f"{covered}.known", str(error)) from None
    temporary.replace(folder / f"{upto}.known")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UnreadableCheckpointFile(file, str(error)) from None
