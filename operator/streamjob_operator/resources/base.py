"""The base classes and field types of the resources' models."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from streamjob.job.model.spec_fields import Spec

GROUP: Final = "streamjob.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "streamjob.io/v1alpha1"


class SpecPart(Spec):
    """Base of user-written parts: unknown fields are refused, null means the default."""

    def to_dict(self) -> dict[str, Any]:
        """Return the content as JSON values under the resource's names, without unset fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


class StatusPart(BaseModel):
    """Base of controller-written parts: unknown fields of a newer controller are ignored, null means absent."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    def to_dict(self) -> dict[str, Any]:
        """Return the content as JSON values under the resource's names, without unknown values."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def replaced(self, **changes: Any) -> Self:
        """Return the same with other values for the fields that are named, in snake_case.

        Raises:
            KeyError: there is no such field.
            ValidationError: a value cannot be that field's.
        """
        unknown = changes.keys() - type(self).model_fields.keys()
        if unknown:
            raise KeyError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        return type(self).model_validate({**self.__dict__, **changes})


def _whole_second(value: datetime) -> datetime:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return aware.astimezone(UTC).replace(microsecond=0)


def _rfc3339(value: datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%SZ")


Time = Annotated[
    datetime,
    AfterValidator(_whole_second),
    PlainSerializer(_rfc3339, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A moment as Kubernetes writes it, in whole seconds; seconds since 1970 are taken as well."""


def time_of(seconds: float) -> datetime:
    """Return a moment, in seconds since 1970, as a status has it."""
    return datetime.fromtimestamp(int(seconds), UTC)


def stamp_of(seconds: float) -> str:
    """Return a moment, in seconds since 1970, as messages have it, which is how a status has it."""
    return _rfc3339(time_of(seconds))


KubernetesObject = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]
"""A part of a pod in Kubernetes' own words; the API server judges it when the pod is made."""


def _named(key: str) -> Any:
    return WithJsonSchema(
        {
            "type": "object",
            "properties": {key: {"type": "string", "minLength": 1}},
            "required": [key],
            "x-kubernetes-preserve-unknown-fields": True,
        }
    )


def _has_key(key: str) -> Any:
    def check(value: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(value.get(key), str) or not value[key]:
            raise ValueError(f"lacks {key!r}")
        return value

    return AfterValidator(check)


def _list_map(key: str) -> Any:
    return Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]})


NamedObjects = Annotated[
    tuple[Annotated[dict[str, Any], _has_key("name"), _named("name")], ...],
    _list_map("name"),
]
"""Parts of a pod that Kubernetes identifies by name: containers, volumes, variables."""

MountedObjects = Annotated[
    tuple[Annotated[dict[str, Any], _has_key("mountPath"), _named("mountPath")], ...],
    _list_map("mountPath"),
]
"""Volume mounts, identified by their mount path."""

MEMORY_PATTERN = r"^[1-9][0-9]*([kKmMgGtT]([bB]|i|iB)?)?$"
_MEMORY_SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def _memory(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str):
        return value
    number = value.rstrip("kKmMgGtTbBi")
    unit = value[len(number) :].lower()[:1]
    if not number.isdecimal() or unit not in _MEMORY_SIZES:
        raise ValueError(f"{value!r} is not an amount of memory; write it like 512m, 2g or 2Gi")
    return int(number) * _MEMORY_SIZES[unit]


def format_memory(size: int) -> str:
    """Return `size`, in bytes, in the largest unit that is exact, as Kubernetes reads it: `512Mi`, `2Gi`."""
    for unit, factor in (("Ti", 1024**4), ("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


Memory = Annotated[
    int,
    BeforeValidator(_memory),
    Field(gt=0),
    PlainSerializer(format_memory, return_type=str),
    WithJsonSchema({"type": "string", "pattern": MEMORY_PATTERN, "maxLength": 20}),
]
"""Bytes in Python, `512m`, `2g` or `2Gi` in resources; every unit is a power of 1024, as for Spark."""


def _cpu(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


_CPU = r"^([0-9]+(\.[0-9]{1,3})?|[1-9][0-9]*m)$"
Cpu = Annotated[
    str,
    BeforeValidator(_cpu),
    Field(pattern=_CPU, max_length=12),
    WithJsonSchema({"type": "string", "pattern": _CPU, "maxLength": 12}),
]
"""Processors as Kubernetes counts them: `"2"`, `"0.5"` or `500m`."""

_SOME_CPU = r"^([1-9][0-9]*(\.[0-9]{1,3})?|0\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9])|[1-9][0-9]*m)$"
SomeCpu = Annotated[
    str,
    BeforeValidator(_cpu),
    Field(pattern=_SOME_CPU, max_length=12),
    WithJsonSchema({"type": "string", "pattern": _SOME_CPU, "maxLength": 12}),
]
"""Processors, but not none."""

ObjectName = Annotated[
    str,
    Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"),
    Field(description="Its name."),
]


class Reference(SpecPart):
    """Another object of the same namespace, by name."""

    name: ObjectName


class Metadata(StatusPart):
    """The metadata of an object, as far as the controller reads it."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
