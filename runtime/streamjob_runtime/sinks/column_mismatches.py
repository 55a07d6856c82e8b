"""What keeps rows from a table: found column by column, said in the same words of every kind of table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from streamjob.job.suggest import did_you_mean

CAST = "cast it in the job, or give the column another type"


class Misfit(NamedTuple):
    """What keeps rows from a table: what is wrong with it, and the fix."""

    what: str
    fix: str


def given_twice(names: Sequence[str]) -> Iterator[Misfit]:
    """Yield the names that rows have more than once."""
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Misfit(f"is given the column {name!r} twice", "give each column a name of its own")


def no_column(name: str, columns: Iterable[str], *, exactly: bool = True) -> Misfit:
    """Return that a table lacks a column.

    Args:
        name: the rows' column.
        columns: those of the table.
        exactly: whether upper and lower case differ.
    """
    fix = did_you_mean(name, columns, "columns")
    return Misfit(f"has no column {name!r}", f"{fix}; names are compared exactly" if exactly else fix)


def does_not_hold(name: str, column: str, rows: str, fix: str = CAST) -> Misfit:
    """Return that a column does not hold all values of the rows.

    Args:
        name: the column's.
        column: its type.
        rows: the rows' type, as Spark writes it.
        fix: what can be done.
    """
    return Misfit(f"has column {name!r} of type {column}, which does not hold {rows.upper()} as it is", fix)
