"""Where the fields of a job were written: the file, and the line and column where the file is SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LISTS = {"sources": "source", "tables": "table", "operators": "operator", "sinks": "sink"}
"""The lists of named parts, and the word for one part of each."""

Path = tuple[str, ...]
"""A field, as names from the job downwards; a part in a list goes by its name: `sources`, `flights`, `schema`."""

_PART = re.compile(r"(source|table|function|operator|sink) '(.*)'")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a file.

    Args:
        file: the file, as its user named it; empty where only one file is meant.
        line: the line, from 1; 0 if it is not known.
        column: the column, from 1; 0 if it is not known.
    """

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        position = [f"line {self.line}", f"column {self.column}"] if self.line else []
        return ", ".join([*([self.file] if self.file else []), *position])


class Origins:
    """Knows the place of each field.

    Args:
        base: where all fields are that nothing more is known of; None to keep silent about them.
    """

    def __init__(self, base: Place | None = None) -> None:
        self._base = base
        self._places: dict[Path, Place] = {}

    def note(self, path: Path, place: Place) -> None:
        """Record that the field at `path`, with all that is in it, was written at `place`."""
        for each in [each for each in self._places if each[: len(path)] == path]:
            del self._places[each]
        self._places[path] = place

    def of(self, path: Path) -> Place | None:
        """Return where the field at `path`, or its parent, was written; None if unknown."""
        for length in range(len(path), -1, -1):
            if (place := self._places.get(path[:length])) is not None:
                return place
        return self._base

    def about(self, where: str) -> Place | None:
        """Return where a part of a job was written.

        Args:
            where: the part, as problems call it: `source 'flights'`, `checkpointing`.
        """
        path = path_of_part(where)
        place = self.of(path)
        inside = [each for key, each in self._places.items() if key[: len(path)] == path]
        files = list(dict.fromkeys(each.file for each in ([place] if place else []) + inside if each.file))
        return Place(" + ".join(files)) if len(files) > 1 else place


def path_of_part(where: str) -> Path:
    """Return the path of a part that problems call `source 'flights'`, `checkpointing` or `migrate.counts`."""
    if (match := _PART.match(where)) is not None:
        return f"{match[1]}s", match[2]
    return () if where in ("job", "file") else tuple(where.split(".", 1))


def path_of(data: Mapping[str, Any], location: Sequence[int | str]) -> Path:
    """Return the path of the field at a location in a job's content, where elements of lists are numbers."""
    current: Any = data
    path: list[str] = []
    for step in location:
        try:
            below = current[step]
        except (KeyError, IndexError, TypeError):
            below = None
        named = len(path) == 1 and path[0] in LISTS and isinstance(below, Mapping)
        name = below.get("name") if named else None
        path.append(name if isinstance(name, str) else str(step))
        current = below
    return tuple(path)


def spelled(path: Iterable[str]) -> str:
    """Return a path as `--set` takes it: `sources.flights.options.path`."""
    return ".".join(path)
