"""The input of a job whose query changes: rows before the change and behind it, for each state that it can be in."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
DELAY = 20
"""The delay of the watermark, in seconds."""
SCHEMA = (
    "id INT, k STRING, i INT, f FLOAT, d DECIMAL(6,2), day DATE, v INT, x FLOAT, m DECIMAL(6,2), w DATE, at TIMESTAMP"
)
TYPES = {name: kind for name, _, kind in (each.partition(" ") for each in SCHEMA.split(", "))}
KEYS = ("k", "i", "f", "d", "day")
VALUES = ("v", "x", "m", "w")
Row = Mapping[str, Any]

_GROUPS: tuple[Row, ...] = (
    {"k": "a", "i": 1, "f": 1.5, "d": 12.25, "day": "2026-01-01"},
    {"k": "b", "i": -2, "f": 0.1, "d": -0.5, "day": "1969-12-31"},
    {"k": None, "i": None, "f": None, "d": None, "day": None},
)


@dataclass(frozen=True)
class State:
    """The state in which a job is when its query changes.

    Args:
        first: the rows of each batch before the change.
        rest: those of each batch behind it.
        late: rows behind the change that are late by the event time before it.
        repeated: rows behind the change that were there before it, for what tells duplicates.
    """

    first: tuple[tuple[Row, ...], ...]
    rest: tuple[tuple[Row, ...], ...]
    late: tuple[Row, ...] = ()
    repeated: tuple[Row, ...] = ()


def _row(number: int, second: float) -> Row:
    some = number % 5 != 4
    return {
        "id": number,
        **_GROUPS[number % len(_GROUPS)],
        "v": (number * 7) % 11 - 3 if some else None,
        "x": number * 0.25 if some else None,
        "m": number * 1.25 if some else None,
        "w": f"2026-01-{1 + number % 28:02}" if some else None,
        "at": _at(second),
    }


def _marker(second: float) -> Row:
    """Return a row that only raises the event time."""
    return {"id": -1, "at": _at(second)}


def _at(second: float) -> str:
    return (BEGIN + timedelta(seconds=second)).isoformat()


def _rows(first_id: int, seconds: Iterable[float]) -> tuple[Row, ...]:
    return tuple(_row(first_id + number, second) for number, second in enumerate(seconds))


_OLD = _rows(0, range(200, 256, 4))
"""Rows whose windows and sessions are closed at the change."""
_OPEN = _rows(100, range(300, 345, 3))
_REST = _rows(200, range(345, 423, 3))
_END = (_marker(9999),)
_LATE = _rows(300, range(100, 112, 2))

STATES: Mapping[str, State] = {
    "empty": State(((_marker(342),),), (_REST, _END)),
    "emptied": State((_OLD, (_marker(342),)), (_REST, _END)),
    "half full": State((_OLD, _OPEN), (_REST, _END), repeated=_OPEN[9:]),
    "about to close": State(
        (_OLD, _OPEN, (*_rows(120, range(345, 360, 3)), _marker(359.9 + DELAY))),
        ((*_rows(200, (359.95, 359.96, 359.97)), *_rows(203, range(361, 423, 3))), _END),
    ),
    "late rows": State((_OLD, _OPEN), (_REST, _END), late=_LATE, repeated=_OPEN[9:]),
}
SOME_CLOSED = State((_OLD, _OPEN, (_marker(365 + DELAY),)), (_rows(200, range(370, 423, 3)), _END))
"""Some windows of a minute are closed in windows of five minutes that are not."""


def state_by_chance(chance: random.Random) -> State:
    """Return a state that chance makes; all rows before the change are of windows of five minutes that are open."""
    first = [
        _rows(1000 * batch, sorted(chance.uniform(300, 345) for _ in range(chance.randrange(15)))) for batch in range(3)
    ]
    rest = _rows(5000, sorted(chance.uniform(350, 640) for _ in range(chance.randrange(5, 40))))
    return State((*first, (_marker(chance.uniform(325, 358)),)), (rest, _END))
