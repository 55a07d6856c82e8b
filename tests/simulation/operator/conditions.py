"""Questions about the conditions of a resource, as tools like kstatus ask them."""

from __future__ import annotations

from collections.abc import Iterable

from streamjob_operator.resources.conditions import Condition, find_condition


def is_true(conditions: Iterable[Condition], kind: str, generation: int | None = None) -> bool:
    """Return whether the condition of that type is True and, if a generation is given, refers to that one."""
    found = find_condition(conditions, kind)
    return found is not None and found.status == "True" and generation in (None, found.observed_generation)
