"""Carries the position of a bad row through the text of one of Spark's errors, where nothing else arrives."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column

_END = ":streamjob"


def error_at(kind: str, position: Column) -> Column:
    """Return the message of an error that names a position.

    Args:
        kind: the kind of position, such as "row-failed".
        position: a struct of texts and numbers.
    """
    from pyspark.sql import functions as f

    return f.concat(f.lit(_mark(kind)), f.to_json(position), f.lit(_END))


def error_text(kind: str, position: Mapping[str, Any]) -> str:
    """Return the message of an error that names a position, as `error_at` computes it."""
    return f"{_mark(kind)}{json.dumps(position)}{_END}"


def position_in(kind: str, text: str) -> dict[str, Any] | None:
    """Return the fields of the position of a kind that the text of an error names; None if it names none."""
    found = re.search(re.escape(_mark(kind)) + r"(\{.*?\})" + re.escape(_END), text, re.DOTALL)
    return dict(json.loads(found[1])) if found else None


def _mark(kind: str) -> str:
    return f"streamjob:{kind}:"
