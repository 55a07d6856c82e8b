"""Declares the figures of a job: each once, at its field in the control API.

`records_in: Annotated[int, Figure("records_in_total", heading="records in")] = Field(description="…")` is a field of
the API, a metric of Prometheus and OTLP, and a column of `streamjob status`. The references have its description.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from functools import cache
from typing import get_type_hints

from pydantic import BaseModel


class Unit(StrEnum):
    """The unit of a field; the name of its metric states a base unit."""

    TEXT = "text"
    NUMBER = "a number"
    RATE = "a number per second"
    BYTES = "bytes"
    SECONDS = "seconds"
    MS = "ms"
    SHARE = "a share, 0 to 1"
    TIME = "seconds since 1970"
    TIME_MS = "ms since 1970"
    AGE = "seconds since 1970, for the time since then"


class Detail(IntEnum):
    """The views for people by the room that they have, the least first."""

    NARROW = 1
    PANEL = 2
    STATUS = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a job, in the annotation of a field or of a property's result.

    Args:
        metric: its name in Prometheus after `streamjob_`; that of a counter ends in `_total`. Empty if it is no metric.
        unit: what the field is measured in.
        text: what the metric is, if the description of the field does not say it.
        by: for a field with several values by name, the label with the name.
        label: a label and its value, if several figures share a metric.
        scope: whose it is, if objects of the model have metrics with different labels.
        unless: a value that stands for none, besides None.
        heading: its column in tables for people; empty if they do not have it.
        detail: the first view for people that has it.
        rare: whether people see it only where it is not 0.
        alarm: the value from which it stands out.
    """

    metric: str = ""
    unit: Unit = Unit.NUMBER
    text: str = ""
    by: str = ""
    label: tuple[str, str] | None = None
    scope: str = ""
    unless: float | None = None
    heading: str = ""
    detail: Detail = Detail.STATUS
    rare: bool = False
    alarm: float | None = None


@cache
def figures_of(model: type) -> tuple[tuple[str, Figure], ...]:
    """Return the figures that the fields and properties of a class declare, with the names of these."""
    hints = get_type_hints(model, include_extras=True)
    texts = {name: member.__doc__ for name, member in vars(model).items() if isinstance(member, property)}
    hints |= {name: get_type_hints(vars(model)[name].fget, include_extras=True).get("return") for name in texts}
    if issubclass(model, BaseModel):
        texts |= {name: field.description for name, field in model.model_fields.items()}
    return tuple(
        (name, replace(each, text=each.text or re.sub(r"\bnull\b", "absent", texts.get(name) or "")))
        for name, hint in hints.items()
        for each in getattr(hint, "__metadata__", ())
        if isinstance(each, Figure)
    )
