"""Finds out how kept state and results change if a job's watermarks or output modes change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LOSSES: Mapping[tuple[str, str], str] = {
    ("append", "update"): "groups that are still open would never be put out, unless more rows come for them",
    ("append", "complete"): "groups that were already emitted are no longer in the state, and would be missing",
    ("update", "complete"): "groups that a watermark has closed are no longer in the state, and would be missing",
}
"""The results that an aggregation would lose in another output mode; Spark does not report this."""

_REPEATS: Mapping[tuple[str, str], str] = {
    ("update", "append"): "which emits earlier results of open groups once more, as final",
    ("complete", "append"): "which emits earlier results once more, as final",
    ("complete", "update"): "which emits changes from here on",
}


def loss(before: str, after: str, *, ended: bool) -> str | None:
    """Return what an aggregation would lose in another output mode; None if nothing.

    Args:
        ended: whether groups may have ended by a watermark.
    """
    if (before, after) == ("update", "complete") and not ended:
        return None
    return _LOSSES.get((before, after))


def mode_changed(before: str, after: str) -> str:
    """Return the change of an output mode, and its consequence, in words."""
    words = f"its output mode was {before}, and is {after}"
    repeats = _REPEATS.get((before, after))
    return words if repeats is None else f"{words}, {repeats}"


def watermark_changed(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str | None:
    """Return the change of a source's watermark, and its consequence, in words; None if it has not changed.

    The watermarks are as in the graphs of the snapshot and of the job.
    """
    if before == after:
        return None
    if before is None and after is not None:
        return f"it gets a watermark on {after['column']!r}: from here on it releases waiting rows"
    if after is None or before is None:
        return "its watermark is removed: rows that waited for it are kept forever"
    column = after["column"]
    if before["column"] != column:
        return (
            f"its watermark was on {before['column']!r}, and is on {column!r}: rows are late whose {column!r} is "
            "before where it stood"
        )
    if before["delay"] != after["delay"]:
        return f"the delay of its watermark was {before['delay']}, and is {after['delay']}: late rows stay late"
    for name, default in (
        ("idleTimeout", "never"),
        ("maxAhead", "1d"),
        ("perPartition", True),
        ("nullEventTime", "fail"),
    ):
        was, is_now = before.get(name, default), after.get(name, default)
        if was != is_now:
            break
    return f"the {name} of its watermark was {was}, and is {is_now}: its state and its watermark stay"
