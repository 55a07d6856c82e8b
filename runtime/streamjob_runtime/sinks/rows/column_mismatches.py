"""Describes why rows do not fit a table, column by column, in the same words for every kind of table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from streamjob.job.model.suggest import did_you_mean

CAST = "cast it in the job, or give the column another type"


class Mismatch(NamedTuple):
    """A reason why rows do not fit a table, with a fix."""

    what: str
    fix: str


def given_twice(names: Sequence[str]) -> Iterator[Mismatch]:
    """Yield the names that several columns of the rows share, also those that readers do not tell apart."""
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Mismatch(f"is given the column {name!r} twice", "give each column a name of its own")
    folded: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        folded.setdefault(name.lower(), []).append(name)
    for alike in folded.values():
        if len(alike) > 1:
            what = f"is given the columns {' and '.join(map(repr, alike))}, which differ in case only"
            yield Mismatch(what, "give each column a name of its own: Spark and other readers take them for one")


def two_of_one_name(names: Iterable[str]) -> Iterator[Mismatch]:
    """Yield the names, in lower case, that several columns of the rows share; their case does not matter."""
    for name, count in sorted(Counter(name.lower() for name in names).items()):
        if count > 1:
            yield Mismatch(
                f"the rows have two columns {name!r}", "give each column a name of its own; case does not matter"
            )


def no_column(name: str, columns: Iterable[str], *, exactly: bool = True) -> Mismatch:
    """Return the misfit for a column that the table lacks.

    Args:
        exactly: whether names are case-sensitive.
    """
    fix = did_you_mean(name, columns, "columns")
    return Mismatch(f"has no column {name!r}", f"{fix}; names are compared exactly" if exactly else fix)


def does_not_hold(name: str, column: str, rows: str, fix: str = CAST) -> Mismatch:
    """Return the misfit for a column that cannot hold all values of the rows.

    Args:
        rows: the rows' type, as Spark writes it.
    """
    return Mismatch(f"has column {name!r} of type {column}, which does not hold {rows.upper()} as it is", fix)
