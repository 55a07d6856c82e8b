"""The effect of a changed field of a StreamJob on its running job, which each field declares where it is defined.

A field declares it as metadata: `suspend: Annotated[bool, Change.IGNORE] = …`. The fields below it share its
declaration, except those of `LiveCheckpointingPolicy`: a running job takes them over.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Union, get_args

from pydantic import BaseModel

from streamjob.checkpointing_policy import LiveCheckpointingPolicy


class Change(StrEnum):
    """The effect of a change on the running job; a greater one includes the smaller ones."""

    IGNORE = "IGNORE"
    """Nothing: only the controller reads the field."""
    PATCH = "PATCH"
    """The running job takes over its new checkpointing policy, or another number of executors."""
    SCALE = "SCALE"
    """A restart from a savepoint, with another parallelism; a job with executors takes it over."""
    UPGRADE = "UPGRADE"
    """A restart by the upgrade mode."""


Changes = Mapping[str, Union[Change, "Changes"]]
"""The effects of the fields of a section, by their names in the resource."""


def changes_of(section: type[BaseModel], above: Change | None = None) -> Changes:
    """Return the effect of each field of a section, and of the sections in it.

    Args:
        section: the model.
        above: the declaration that the section is in; None for the spec itself.

    Raises:
        TypeError: a field has no declaration: a defect of the model.
    """
    found: dict[str, Change | Changes] = {}
    for name, field in section.model_fields.items():
        declared = next((each for each in field.metadata if isinstance(each, Change)), above)
        if declared is None:
            raise TypeError(f"{section.__name__}.{name} does not declare its effect: annotate it with a Change")
        if issubclass(section, LiveCheckpointingPolicy) and name in LiveCheckpointingPolicy.model_fields:
            declared = Change.PATCH
        inner = _section_in(field.annotation)
        found[field.alias or name] = declared if inner is None else changes_of(inner, declared)
    return found


def _section_in(annotation: object) -> type[BaseModel] | None:
    """Return the model that a field holds, or may hold; None for a value or a list."""
    for each in (annotation, *(get_args(annotation) if type(None) in get_args(annotation) else ())):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each
    return None
