"""How deeply a value of a file or a resource may be nested: beyond, Python's own functions end by a RecursionError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_LEVELS = 64
"""Levels of mappings and lists that a job or a spec may have; a pod template has about 12."""


def too_deep(value: Any) -> str | None:
    """Return the field below which a value of mappings and lists has more than `MOST_LEVELS` levels; None if none has.

    It does not recurse, so it takes any depth.
    """
    waiting: list[tuple[Any, int, str]] = [(value, 0, "")]
    while waiting:
        current, level, field = waiting.pop()
        if isinstance(current, Mapping):
            below = [(each, _below(field, str(key), level)) for key, each in current.items()]
        elif isinstance(current, list | tuple):
            below = [(each, field) for each in current]
        else:
            continue
        if level >= MOST_LEVELS:
            return field
        waiting += [(each, level + 1, where) for each, where in below]
    return None


def _below(field: str, key: str, level: int) -> str:
    # Three names are enough to find it.
    return field if level > 2 else f"{field}.{key}".lstrip(".")
