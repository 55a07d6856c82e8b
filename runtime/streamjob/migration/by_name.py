"""Matches the columns of a table of state with those of its former form by their names, also inside of structs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product

from streamjob.job.query.quoting import quoted
from streamjob.migration.state import Column, NotCarried, columns_in_words
from streamjob.migration.widening import cast, rounded_keys, widens

_STRUCT = "struct<"


class Columns(Enum):
    """How the columns of a table may change, apart from names, wider types and their order."""

    SAME = "none is added or removed: they are a key"
    FEWER = "some are removed"
    OTHERS = "some are removed, and some are added, which are NULL at first"


@dataclass
class Fitted:
    """How the columns of a table follow.

    Args:
        expressions: one for each new column.
        said: what happens, a sentence each.
        gaps: what is missing afterwards, a sentence each.
    """

    expressions: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)


def fit(
    what: str,
    before: Sequence[Column],
    after: Sequence[Column],
    place: str,
    renames: Mapping[str, str],
    may: Columns,
) -> Fitted:
    """Return how columns follow from the former ones.

    Args:
        what: whose columns they are, in messages: `its variable 'open'`.
        place: the place of a former column by its number: `value.v{}`.
        renames: the present name of a column by its former one.

    Raises:
        NotCarried: a column does not follow, or nothing says whether it has only another name.
    """
    found, places = Fitted(), [place.format(each) for each in range(len(before))]
    # Names need not differ, as where a side of a join is a join itself.
    same = tuple(before) == tuple(after)
    found.expressions = places if same else _Fitting(what, renames, may, found).columns(before, after, places)
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


@dataclass(frozen=True)
class _Fitting:
    what: str
    renames: Mapping[str, str]
    may: Columns
    found: Fitted

    def columns(self, before: Sequence[Column], after: Sequence[Column], places: Sequence[str]) -> list[str]:
        """Return an expression for each new column, also of a struct."""
        what, found = self.what, self.found
        former = matched(what, [each.name for each in before], [each.name for each in after], self.renames)
        there = {each.name: (each.type, place) for each, place in zip(before, places, strict=True)}
        gone = [each for each in before if each.name not in former.values()]
        self._check(before, after, gone, [each for each in after if each.name not in former])
        expressions = []
        for each in after:
            if each.name not in former:
                expressions.append(f"CAST(NULL AS {each.type})")
                found.gaps.append(f"{each.name!r} of {what} is NULL in the state that is there")
                continue
            kind, place = there[former[each.name]]
            if former[each.name] != each.name:
                found.said.append(f"{former[each.name]!r} of {what} is called {each.name!r}")
            expressions.append(self._cast(each, kind, place))
        found.said += [f"{each.name!r} of {what} is dropped" for each in gone]
        kept = [each.name for each in before if each not in gone]
        if kept != [former[each.name] for each in after if each.name in former]:
            found.said.append(f"the columns of {what} are put into their new order")
        return expressions

    def _check(
        self, before: Sequence[Column], after: Sequence[Column], gone: Sequence[Column], added: Sequence[Column]
    ) -> None:
        for lost, new in product(gone, added):
            if widens(lost.type, new.type):
                raise NotCarried(
                    f"{lost.name!r} of {self.what} is gone, and {new.name!r} is there: whether it is the same under "
                    "another name, only you know"
                )
        if self.may is Columns.SAME and (gone or added):
            was, now = columns_in_words(before), columns_in_words(after)
            raise NotCarried(f"{self.what} had the columns {was}, and has {now}")
        if self.may is Columns.FEWER and added:
            raise NotCarried(f"{', '.join(repr(each.name) for each in added)} was not kept in {self.what}")

    def _cast(self, column: Column, kind: str, place: str) -> str:
        was, now, name = fields(kind), fields(column.type), f"{column.name!r} of {self.what}"
        if kind == column.type:
            return place
        if was is not None and now is not None:
            inner = self.columns(was, now, [f"{place}.{quoted(each.name)}" for each in was])
            parts = ", ".join(f"'f{number}', {each}" for number, each in enumerate(inner))
            return f"IF({place} IS NULL, NULL, named_struct({parts}))"
        if not widens(kind, column.type):
            raise NotCarried(f"{name} was of type {kind}, and is of type {column.type}")
        self.found.said.append(f"{name} of type {kind} becomes {column.type}")
        if self.may is Columns.SAME and kind == "float":
            self.found.gaps.append(rounded_keys(name))
        return cast(place, kind, column.type)
