"""Reading stored objects that say in which version of their format they are written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from streamjob.errors import CannotRestore

M = TypeVar("M", bound=BaseModel)


def decode(
    model: type[M],
    content: bytes,
    *,
    name: str,
    known_version: int,
    unknown: type[CannotRestore],
    corrupt: Callable[[str], CannotRestore],
) -> M:
    """Return the value that an object holds.

    Args:
        name: of the object, for the error.
        known_version: the one version of the format that is known here.
        unknown: the error for another version.
        corrupt: makes the error for what is no such value, given the reason in one line.

    Raises:
        CannotRestore: as `unknown` and `corrupt` say.
    """
    try:
        fields = json.loads(content)
        version = fields.get("formatVersion")
        if version == known_version:
            return model.model_validate(fields)
    except (ValueError, AttributeError) as error:
        raise corrupt(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    raise unknown(
        f"{name} has format version {version!r}; this streamjob reads {known_version}",
        "run the version of streamjob that wrote it, or a later one",
    )
