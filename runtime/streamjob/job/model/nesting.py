"""Limits the depth of files and resources: beyond it, Python's own functions fail with a RecursionError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_LEVELS = 64
"""Maximum depth of mappings and lists in a job or a spec; a pod template has about 12 levels."""


def too_deep(value: Any) -> str | None:
    """Return the field below which a value has more than `MOST_LEVELS` levels of mappings and lists, or None.

    It does not recurse, so it accepts any depth.
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
    # Three names are enough to find the place.
    return field if level > 2 else f"{field}.{key}".lstrip(".")
