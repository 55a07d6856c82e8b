"""Limits what a process has to evaluate, before it is asked."""

from __future__ import annotations

from collections.abc import Mapping

_MOST_LEVELS = 250
_MOST_VALUES = 200_000
_MOST_CHARACTERS = 4 * 2**20
"""The API server stores objects of at most 1.5 MiB, but an alias may stand for the same value in many places."""
_NAMED = 5


def excess(value: object) -> str | None:
    """Return what a value has too much of, or None; a value is counted in each place where it occurs."""
    values = characters = 0
    waiting: list[tuple[object, int, str]] = [(value, 0, "")]
    while waiting:
        current, level, field = waiting.pop()
        below: list[tuple[object, str]] = []
        if isinstance(current, str | bytes):
            characters += len(current)
        elif isinstance(current, Mapping):
            characters += sum(len(str(key)) for key in current)
            below = [(each, f"{field}.{key}" if level < _NAMED else field) for key, each in current.items()]
        elif isinstance(current, list | tuple):
            below = [(each, field) for each in current]
        values += len(below)
        if level > _MOST_LEVELS:
            return f"{field.strip('.') or 'it'} is nested too deeply"
        if values > _MOST_VALUES:
            return f"it has more than {_MOST_VALUES} values, aliases included"
        if characters > _MOST_CHARACTERS:
            return f"it has more than {_MOST_CHARACTERS} characters, aliases included"
        waiting += [(each, level + 1, where) for each, where in below]
    return None
