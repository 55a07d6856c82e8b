"""Says which types have room for all values of others, so that state can be cast to them."""

from __future__ import annotations

import re

_WIDER = {
    "tinyint": {"smallint", "int", "bigint"},
    "smallint": {"int", "bigint"},
    "int": {"bigint"},
    "float": {"double"},
    "date": {"timestamp"},
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def widens(before: str, after: str) -> bool:
    """Return whether each value of a type, by its name in Spark's catalogs, is one of another type without a loss."""
    if before == after or after in _WIDER.get(before, ()):
        return True
    was, now = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    if was is None or now is None:
        return False
    (digits, scale), (more, larger) = map(int, was.groups()), map(int, now.groups())
    return larger >= scale and more - larger >= digits - scale


def cast(expression: str, before: str, after: str) -> str:
    """Return an expression of a type as one of a wider type."""
    return expression if before == after else f"CAST({expression} AS {after})"
