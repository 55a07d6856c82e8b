"""Decodes stored objects, whose format versions differ.

Version 1 is read leniently: missing fields have defaults, unknown ones are ignored, and an altered byte may pass.
Version 2 has exactly the known fields, followed by a checksum.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TypeVar

from pydantic import BaseModel

from streamjob.errors import CannotRestore
from streamjob.snapshot.format_versions import READ_VERSIONS
from streamjob.snapshot.sealing import CHECKSUM, Seal, check_seal

M = TypeVar("M", bound=BaseModel)

_SHOWN = 80


def decode(
    model: type[M],
    content: bytes,
    *,
    name: str,
    stored_fields: Callable[[M], Mapping[str, object]],
    unknown: type[CannotRestore],
    corrupt: Callable[[str], CannotRestore],
) -> M:
    """Return the value in a stored object.

    Args:
        name: the object's name, for the error.
        stored_fields: the fields of a value as version 2 stores them, as JSON values.
        unknown: the error for an unknown version.
        corrupt: creates the error for invalid content, given the reason in one line.

    Raises:
        CannotRestore: see `unknown` and `corrupt`.
    """
    seal = check_seal(content)
    if seal is Seal.BROKEN:
        raise corrupt("its checksum is not that of its content, so it was altered")
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise corrupt(f"it is no JSON, and begins with {_beginning(content)}" if content else "it is empty") from error
    try:
        version = fields.get("formatVersion")
        if version in READ_VERSIONS:
            value = model.model_validate(fields)
    except (ValueError, AttributeError) as error:
        raise corrupt(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    if version == 1:
        return value
    if version == 2:
        if seal is Seal.ABSENT:
            raise corrupt("it does not end with a checksum, so it was altered or cut short")
        del fields[CHECKSUM]
        difference = _difference(fields, stored_fields(value))
        if difference:
            raise corrupt(difference)
        return value
    if not isinstance(version, int):
        raise corrupt("it has no formatVersion")
    raise unknown(
        f"{name} has format version {version!r}; this streamjob reads {' and '.join(map(str, READ_VERSIONS))}",
        "run the version of streamjob that wrote it, or a later one",
    )


def _beginning(content: bytes) -> str:
    """Return the first characters of an object in quotes: those of a page of a proxy or a login tell what it is."""
    return repr(content[:_SHOWN].decode(errors="replace"))


def _difference(stored: object, expected: object, path: str = "") -> str:
    """Return the differences between stored fields and the known ones, all mandatory, in words; empty if none."""
    if isinstance(stored, Mapping) and isinstance(expected, Mapping):
        for name in expected.keys() - stored.keys():
            return f"it has no {path}{name}"
        for name in stored.keys() - expected.keys():
            return f"{path}{name} is an unknown field"
        pairs = [(f"{path}{name}", stored[name], expected[name]) for name in stored]
    elif isinstance(stored, list) and isinstance(expected, list) and len(stored) == len(expected):
        pairs = [(f"{path.rstrip('.')}[{at}]", *both) for at, both in enumerate(zip(stored, expected, strict=True))]
    else:
        return "" if stored == expected else f"{path.rstrip('.')} is {stored!r:.80}, where {expected!r:.80} is expected"
    return next((found for inner, one, other in pairs if (found := _difference(one, other, f"{inner}."))), "")
