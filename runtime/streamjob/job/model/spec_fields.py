"""The base of the parts of a job's model, and the types of their fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel

from streamjob.durations import Seconds
from streamjob.ids import OperatorUid


def _scalars(value: Any) -> Any:
    """Accept plain numbers and booleans in files; Spark's options are text."""
    if not isinstance(value, Mapping):
        return value
    return {key: as_text(each) for key, each in value.items()}


def as_text(value: Any) -> Any:
    """Return a number or boolean as text, and anything else as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


_SPARK_UNITS = {"millisecond": "ms", "second": "s", "minute": "m", "hour": "h", "day": "d", "week": "d"}
_SPARK_INTERVAL = re.compile(r"(?:interval\s+)?((?:\d+\s+[a-z]+\s*)+)", re.IGNORECASE)


def spark_interval(value: Any) -> Any:
    """Accept Spark's notation of a duration in addition to ours: `1 hour`, `2 minutes 30 seconds`."""
    match = _SPARK_INTERVAL.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return value
    words = match[1].lower().split()
    parts = []
    for number, word in zip(words[::2], words[1::2], strict=True):
        unit = word.removesuffix("s")
        if unit not in _SPARK_UNITS:
            return value
        parts.append(f"{int(number) * 7 if unit == 'week' else number}{_SPARK_UNITS[unit]}")
    return "".join(parts)


Options = Annotated[
    dict[str, str], BeforeValidator(_scalars, json_schema_input_type=dict[str, str | int | float | bool])
]
Delay = Annotated[
    Seconds, BeforeValidator(spark_interval), WithJsonSchema({"type": "string", "examples": ["1h", "1 hour"]})
]
JobName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$", max_length=63)]
NodeName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$", max_length=63)]
Uid = Annotated[OperatorUid, StringConstraints(pattern=r"^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$", max_length=128)]


class Spec(BaseModel):
    """Base of the job's parts: immutable, camelCase in files, no unknown fields; null means the default."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _null_is_the_default(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            return {key: value for key, value in data.items() if value is not None}
        return data
