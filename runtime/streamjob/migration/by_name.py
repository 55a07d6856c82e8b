"""Matches the columns of a table of state with those of its former form by their names, also inside of structs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from typing import TypeVar

from streamjob.job.query.quoting import quoted
from streamjob.migration.state import Column, Family, FamilyMigration, Migration, NotCarried, columns_in_words
from streamjob.migration.widening import cast, widens

_STRUCT = "struct<"
_Value = TypeVar("_Value")


class Columns(Enum):
    """How the columns of a table may change, apart from names, wider types and their order."""

    SAME = "none is added or removed: they are a key"
    FEWER = "some are removed"
    OTHERS = "some are removed, and some are added, which are NULL at first"


@dataclass
class Draft:
    """A migration that is being planned: the tables of the new state, and what is said of them, a sentence each.

    Args:
        renames: the present name of a column by its former one.
        said: what happens.
        gaps: what is missing afterwards.
    """

    renames: Mapping[str, str]
    families: list[FamilyMigration] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    def fit(self, what: str, target: Family, source: Family, may: Columns) -> None:
        """Add a table whose columns follow by their names; `what` has those of its values."""
        self.add(target, source, self.key(target, source), self.value(what, source.value, target.value, may))

    def add(self, target: Family, source: Family, key: list[str], value: list[str], *merged: str) -> None:
        """Add a table by the expressions of its columns; see `FamilyMigration`."""
        self.families.append(FamilyMigration(target, source, tuple(key), tuple(value), merged))

    def key(self, target: Family, source: Family) -> list[str]:
        """Return how the columns of a table's key follow by their names.

        Raises:
            NotCarried: a column does not follow, or nothing says whether it has only another name.
        """
        places = [f"key.k{number}" for number in range(len(source.key))]
        return self._columns("its key", source.key, target.key, places, Columns.SAME)

    def value(self, what: str, before: Sequence[Column], after: Sequence[Column], may: Columns) -> list[str]:
        """Return how the columns of a table's value follow by their names; raises the same.

        Args:
            what: whose columns they are, in messages: `its variable 'open'`.
        """
        return self._columns(what, before, after, [f"value.v{number}" for number in range(len(before))], may)

    def widened(self, what: str, expression: str, before: str, after: str, *, of_key: bool = False) -> str:
        """Return an expression of a type as one of a wider type; raise `NotCarried` if that has not all its values."""
        if not widens(before, after):
            raise NotCarried(f"{what} was of type {before}, and is of type {after}")
        if before != after:
            self.said.append(f"{what} of type {before} becomes {after}")
        if of_key and (before, after) == ("float", "double"):
            self.gaps.append(
                f"{what} was of type float: a value that was rounded, such as 0.1, is another key from here on if the "
                "input has more digits"
            )
        return cast(expression, before, after)

    def migration(self) -> Migration:
        """Return the migration; it says each sentence once."""
        said, gaps = (tuple(dict.fromkeys(each)) for each in (self.said, self.gaps))
        return Migration(tuple(self.families), said, gaps)

    def _columns(
        self, what: str, before: Sequence[Column], after: Sequence[Column], places: list[str], may: Columns
    ) -> list[str]:
        """Return an expression for each new column, also of a struct."""
        if tuple(before) == tuple(after):
            # Names need not differ, as where a side of a join is a join itself.
            return places
        former = matched(what, [each.name for each in before], [each.name for each in after], self.renames)
        there = {each.name: (each.type, place) for each, place in zip(before, places, strict=True)}
        gone = [each for each in before if each.name not in former.values()]
        changed = f"{what} had the columns {columns_in_words(before)}, and has {columns_in_words(after)}"
        _check(what, gone, [each for each in after if each.name not in former], may, changed)
        expressions = []
        for each in after:
            if each.name not in former:
                expressions.append(f"CAST(NULL AS {each.type})")
                self.gaps.append(f"{each.name!r} of {what} is NULL in the state that is there")
                continue
            kind, place = there[former[each.name]]
            if former[each.name] != each.name:
                self.said.append(f"{former[each.name]!r} of {what} is called {each.name!r}")
            was, now = fields(kind), fields(each.type)
            if kind != each.type and was is not None and now is not None:
                inner = self._columns(what, was, now, [f"{place}.{quoted(part.name)}" for part in was], may)
                parts = ", ".join(f"'f{number}', {part}" for number, part in enumerate(inner))
                expressions.append(f"IF({place} IS NULL, NULL, named_struct({parts}))")
            else:
                name, of_key = f"{each.name!r} of {what}", may is Columns.SAME
                expressions.append(self.widened(name, place, kind, each.type, of_key=of_key))
        self.said += [f"{each.name!r} of {what} is dropped" for each in gone]
        kept = [each.name for each in before if each not in gone]
        if kept != [former[each.name] for each in after if each.name in former]:
            self.said.append(f"the columns of {what} are put into their new order")
        return expressions


def _check(what: str, gone: Sequence[Column], added: Sequence[Column], may: Columns, changed: str) -> None:
    for lost, new in product(gone, added):
        if widens(lost.type, new.type):
            raise NotCarried(
                f"{lost.name!r} of {what} is gone, and {new.name!r} is there: whether it is the same under another "
                "name, only you know"
            )
    if may is Columns.SAME and (gone or added):
        raise NotCarried(changed)
    if may is Columns.FEWER and added:
        raise NotCarried(f"{', '.join(repr(each.name) for each in added)} was not kept in {what}")


def paired(before: Sequence[_Value], after: Sequence[_Value], same: Callable[[_Value, _Value], bool]) -> dict[int, int]:
    """Return for the place of each present one that of the first former one that is the same, each of them once."""
    found: dict[int, int] = {}
    for place, each in enumerate(after):
        free = (number for number, had in enumerate(before) if number not in found.values() and same(had, each))
        if (number := next(free, None)) is not None:
            found[place] = number
    return found


def matched(what: str, before: Sequence[str], after: Sequence[str], renames: Mapping[str, str]) -> Mapping[str, str]:
    """Return the former name by the present one, of what was there before.

    Raises:
        NotCarried: two former names would become one.
    """
    renames = in_force(renames, before, after)
    found: dict[str, str] = {}
    for name in before:
        present = renames.get(name, name)
        # Another table may have a column of that name, which is the one that is renamed.
        if present not in after or (name in after and name not in renames.values()):
            present = name
        if present in found:
            raise NotCarried(f"{what} has both {found[present]!r} and {name!r}, which would become {present!r}")
        found[present] = name
    return {present: name for present, name in found.items() if present in after}


def in_force(renames: Mapping[str, str], before: Collection[str], after: Collection[str]) -> Mapping[str, str]:
    """Return renames without those that were made already: the former state has the present name, and both are needed.

    They may have stayed in a job file, and a later column may have got the former name.
    """
    return {
        former: present
        for former, present in renames.items()
        if not (present in before and present not in renames and former in after)
    }


def fields(kind: str) -> tuple[Column, ...] | None:
    """Return the fields of a struct, by the type's text in Spark's catalogs; None for another type."""
    if not kind.startswith(_STRUCT):
        return None
    return tuple(Column(name, of) for name, _, of in (each.partition(":") for each in _parts(kind[len(_STRUCT) : -1])))


def _parts(text: str) -> Iterator[str]:
    depth = start = 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if text:
        yield text[start:]
