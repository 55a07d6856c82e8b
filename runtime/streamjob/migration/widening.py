"""Says which types have room for all values of others, so that state can be cast to them."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from decimal import Decimal, DecimalException

_WIDER = {
    "tinyint": {"smallint", "int", "bigint"},
    "smallint": {"int", "bigint"},
    "int": {"bigint"},
    "float": {"double"},
    "date": {"timestamp"},
}
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def widens(before: str, after: str) -> bool:
    """Return whether each value of a type, by its name in Spark's catalogs, is one of another type without a loss."""
    if before == after or after in _WIDER.get(before, ()):
        return True
    was, now = DECIMAL.fullmatch(before), DECIMAL.fullmatch(after)
    if was is None or now is None:
        return False
    (digits, scale), (more, larger) = map(int, was.groups()), map(int, now.groups())
    return larger >= scale and more - larger >= digits - scale


def cast(expression: str, before: str, after: str) -> str:
    """Return an expression of a type as one of a wider type."""
    return expression if before == after else f"CAST({expression} AS {after})"


_NULL = "null"


def same_values(before: str, after: str, was: Sequence[str], now: Sequence[str]) -> bool:
    """Return whether values of a type are the same ones of a wider type; also if their texts cannot be compared.

    Args:
        before: the type.
        after: the wider type.
        was: the values of the first type, as Java's texts of how Spark has them.
        now: those of the wider type.
    """
    pairs = [each for each in zip(was, now, strict=False) if each != (_NULL, _NULL)]
    if any(_NULL in each for each in pairs):
        return False
    try:
        if (before, after) == ("date", "timestamp"):
            # At what time of the day in UTC a day begins is not known here.
            return False
        if (before, after) == ("float", "double"):
            return all(_single(one) == _single(other) for one, other in pairs)
        if before != after:
            return all(Decimal(one) == Decimal(other) for one, other in pairs)
    except (ValueError, DecimalException):
        return True
    return all(one == other for one, other in pairs)


def _single(text: str) -> bytes:
    return struct.pack("f", float(text))
