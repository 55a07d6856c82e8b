"""Names the files below `sources/K/` that a file source of streamjob needs to go on after a position.

`<n>` is entry n: the files of the source's n-th read. `<c>.known` has a record of each file of the entries 0..c.
`<n>-<time>.read` has the files of entries up to n that are to be archived or deleted after that time, in seconds since
1970.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_POSITION, _OF_SPARK = "files", "logOffset"
"""The only field of a position, which names the last entry that was read: of our source, and of Spark's own."""
_KNOWN = re.compile(r"(\d+)\.known")
_READ = re.compile(r"(\d+)-(\d+)\.read")


def last_read(position: object) -> int | None:
    """Return the last entry that a source of files of ours has read, from its position; None for another source."""
    return _last(position, _POSITION)


def last_read_by_spark(position: object) -> int | None:
    """Return the last entry that Spark's own source of files has read, from its position; None for another source."""
    return _last(position, _OF_SPARK)


def _last(position: object, field: str) -> int | None:
    # A position of Kafka has an object in place of the number, even if a topic has this name.
    if isinstance(position, dict) and position.keys() == {field} and isinstance(position[field], int):
        return int(position[field])
    return None


def needed_files(names: Iterable[str], position: int) -> list[str]:
    """Return the newest `.known` file before `position`, if there is one, and then the entries behind it in order.

    Entry `position` itself is always among them, so that the names of its files are.

    Args:
        names: the existing files.
        position: the last entry that was read; -1 for none.

    Raises:
        FileNotFoundError: one of the entries does not exist.
    """
    existing = set(names)
    covered = newest_known(existing, position)
    needed = [f"{covered}.known"] if covered >= 0 else []
    needed += map(str, range(covered + 1, position + 1))
    for name in needed:
        if name not in existing:
            raise FileNotFoundError(f"entry {name} of a file source")
    return needed


def newest_known(names: Iterable[str], before: int) -> int:
    """Return the highest c < `before` of the `<c>.known` files; -1 if there is none."""
    numbers = (int(match[1]) for name in names if (match := _KNOWN.fullmatch(name)))
    return max((number for number in numbers if number < before), default=-1)


def files_to_remove(names: Iterable[str]) -> dict[int, tuple[int, str]]:
    """Return the times and names of the `.read` files, by the last entries that they have, in order."""
    found = [(int(match[1]), (int(match[2]), name)) for name in names if (match := _READ.fullmatch(name))]
    return dict(sorted(found))
