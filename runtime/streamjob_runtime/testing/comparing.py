"""Compares the rows of a sink with those that a test expects, as multisets, and explains the differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamjob_runtime.testing.feeds import rows_of
from streamjob_runtime.testing.values import same, shown

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pyspark.sql.types import StructType

Row = Mapping[str, Any]

_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences between the rows of a sink and the expected ones.

    Args:
        expected: the number of expected rows.
        found: the number of rows.
        missing: the expected rows that are not there.
        surplus: the rows that were not expected.
    """

    expected: int
    found: int
    missing: tuple[Row, ...]
    surplus: tuple[Row, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus)

    def lines(self) -> list[str]:
        """Return the difference as lines of text."""
        lines = [f"{_rows(self.expected)} expected, {self.found} published"]
        pairs, missing, surplus = _paired(self.missing, self.surplus)
        told = [line for pair in pairs for line in _changed(*pair)]
        told += [f"  missing:    {shown(dict(row))}" for row in missing]
        told += [f"  unexpected: {shown(dict(row))}" for row in surplus]
        lines += told[: 3 * _MOST_SHOWN]
        if len(told) > 3 * _MOST_SHOWN:
            lines.append(f"  and {len(told) - 3 * _MOST_SHOWN} lines more")
        return lines


def differences(
    whose: str, expected: Sequence[Any], found: Sequence[Any], columns: StructType, zone: ZoneInfo
) -> str | None:
    """Return how the rows of a sink differ from the expected ones, in the columns that these name; None if they do not.

    Args:
        whose: the sink; the text begins with it.
        expected: mappings of columns to values.
        found: the rows of the sink.
        columns: the columns of the sink.
        zone: that of times without one.

    Raises:
        InvalidRows: a row does not fit the columns.
    """
    named = {name for row in expected for name in row}
    compared = [name for name in columns.names if name in named]
    chosen = [{name: row[name] for name in compared} for row in rows_of(whose, expected, columns, zone)]
    differing = compare(chosen, rows_of(whose, found, columns, zone))
    return f"{whose}: " + "\n".join(differing.lines()) if differing else None


def compare(expected: Sequence[Row], found: Sequence[Row]) -> Difference:
    """Compare rows in any order; only the columns that an expected row names count.

    Args:
        expected: the rows that should be there, all with the same columns.
        found: the rows that are there.
    """
    names = list(expected[0]) if expected else None
    left = [dict(row) if names is None else {name: row[name] for name in names} for row in found]
    missing = []
    for row in expected:
        match = next((index for index, each in enumerate(left) if same(row, each)), None)
        if match is None:
            missing.append(row)
        else:
            del left[match]
    return Difference(len(expected), len(found), tuple(missing), tuple(left))


def _paired(missing: Sequence[Row], surplus: Sequence[Row]) -> tuple[list[tuple[Row, Row]], list[Row], list[Row]]:
    """Return missing and unexpected rows that differ in less than half of their columns, as pairs; and the rest."""
    pairs, alone, left = [], [], list(surplus)
    for row in missing:
        nearest = min(left, key=lambda each: len(_differing(row, each)), default=None)
        if nearest is None or 2 * len(_differing(row, nearest)) > len(row):
            alone.append(row)
        else:
            left.remove(nearest)
            pairs.append((row, nearest))
    return pairs, alone, left


def _differing(one: Row, other: Row) -> list[str]:
    return [name for name in one if not same(one[name], other[name])]


def _changed(expected: Row, found: Row) -> list[str]:
    columns = ", ".join(
        f"{name} is {shown(found[name])}, not {shown(expected[name])}" for name in _differing(expected, found)
    )
    return [f"  missing:    {shown(dict(expected))}", f"  unexpected: {shown(dict(found))}", f"    {columns}"]


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number} rows"
