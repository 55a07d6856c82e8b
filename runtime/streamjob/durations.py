"""Durations as people write them: `250ms`, `10s`, `5m`, `1h`, `2d`, `1h30m`."""

from __future__ import annotations

import re
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic.fields import FieldInfo

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST = 365_000 * 86400.0
"""The longest duration: a thousand years, in seconds."""
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def parse_duration(text: str) -> float:
    """Return the seconds of a duration, to the millisecond.

    Args:
        text: one or more numbers, each with its unit: ms, s, m, h or d; `0` alone is zero.

    Raises:
        ValueError: `text` is not a duration, or is longer than a thousand years.
    """
    compact = text.strip().replace(" ", "")
    if compact == "0":
        return 0.0
    if not _WHOLE.fullmatch(compact):
        raise ValueError(f"{text!r} is not a duration; write it like 10s, 5m, 1h or 250ms")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(compact))
    if seconds > LONGEST:
        raise ValueError(f"{text!r} is longer than a thousand years")
    return round(seconds, 3)


def format_duration(seconds: float) -> str:
    """Return `seconds` in the shortest exact form that `parse_duration` reads back."""
    milliseconds = round(seconds * 1000)
    if milliseconds == 0:
        return "0s"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def _seconds(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{value} is not a duration; write it like 10s, 5m, 1h or 250ms")
    if isinstance(value, int | float) and not -LONGEST <= value <= LONGEST:
        raise ValueError("it is longer than a thousand years, or no number")
    return parse_duration(value) if isinstance(value, str) else value


_WRITTEN = PlainSerializer(format_duration, return_type=str)

Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    _WRITTEN,
    WithJsonSchema({"type": "string", "pattern": r"^(0|([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+)$", "examples": ["10s"]}),
]
"""Seconds in Python, `10s` in files."""


def is_duration(field: FieldInfo) -> bool:
    """Return whether a field of a model is a duration, or one that may be missing."""
    optional = [mark for each in get_args(field.annotation) for mark in getattr(each, "__metadata__", ())]
    return _WRITTEN in (*field.metadata, *optional)
