"""Turns the JSON schema of a model into a structural schema of Kubernetes, as a CRD needs it.

Structural schemas have no references, no unions and no null, and `additionalProperties` only for maps
(https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema).
The controller makes the checks that such a schema cannot express; the schema accepts these values as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from streamjob.durations import format_duration
from streamjob_operator.resources.base import MEMORY_PATTERN, format_memory

_KEPT = (
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "required",
)
# Of pydantic, without a meaning for Kubernetes; `gt` and `ge` are bounds of durations, which are text here.
_DROPPED = frozenset({"title", "examples", "gt", "ge", "le", "$defs"})
_ANYTHING: Mapping[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}


_LONGEST_TEXT = 4096
_LONGEST = {"sql": 65_536, "schema": 65_536, "annotations": 65_536}
"""Most characters of a text, by the field that it is in, where that is more than usual."""
_MOST_ITEMS = 500
_MOST_PROPERTIES = 1000


class NotStructural(TypeError):
    """A model uses something that a CRD cannot say: a defect of the model."""


def structural_schema(model: type[BaseModel], *, with_defaults: bool, with_bounds: bool = True) -> dict[str, Any]:
    """Return the structural schema of a model.

    Args:
        model: the model; its field names are taken by alias.
        with_defaults: whether the API server fills in the defaults. Stored objects then contain them, indistinguishable
            from user input.
        with_bounds: whether each text, list and map has a maximum size even if the model has none: the controller
            processes user input again and again.

    Raises:
        NotStructural: the model has a rule that structural schemas cannot express.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _Conversion(schema.get("$defs", {}), with_defaults, with_bounds).convert(schema, model.__name__)


class _Conversion:
    def __init__(self, definitions: Mapping[str, Any], with_defaults: bool, with_bounds: bool) -> None:
        self._definitions = definitions
        self._with_defaults = with_defaults
        self._with_bounds = with_bounds

    def convert(self, schema: Mapping[str, Any], where: str) -> dict[str, Any]:
        schema = self._resolved(schema)
        extensions = {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
        rest = schema.keys() - extensions.keys() - _DROPPED - set(_KEPT)
        rest -= {"description", "default", "properties", "items", "additionalProperties", "anyOf", "const"}
        if rest:
            raise NotStructural(f"{where}: a structural schema cannot say {', '.join(sorted(rest))}")
        result: dict[str, Any] = {}
        if "description" in schema:
            result["description"] = re.sub(r"\s+", " ", schema["description"]).strip()
        if "anyOf" in schema:
            return {**result, **_ANYTHING}
        result.update({key: schema[key] for key in _KEPT if key in schema})
        if "const" in schema:
            result["enum"] = [schema["const"]]
        if result.get("type") == "integer":
            result["format"] = "int64"
        if self._with_defaults and schema.get("default") not in (None, []):
            result["default"] = _as_written(schema["default"], schema)
        if "items" in schema:
            result["items"] = self.convert(schema["items"], f"{where}[]")
        if "properties" in schema:
            result["properties"] = {
                key: self.convert(value, f"{where}.{key}") for key, value in schema["properties"].items()
            }
        if isinstance(schema.get("additionalProperties"), Mapping):
            result["additionalProperties"] = self.convert(schema["additionalProperties"], f"{where}.*")
        if self._with_bounds:
            result |= _bounds(result, where)
        return result | extensions

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Inline references, and drop null: a field that may be null may be left out."""
        while True:
            if "$ref" in schema:
                target = self._definitions[str(schema["$ref"]).rpartition("/")[2]]
                schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
                continue
            choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
            if len(choices) != 1:
                return schema
            schema = {**choices[0], **{key: value for key, value in schema.items() if key != "anyOf"}}


def _bounds(schema: Mapping[str, Any], where: str) -> dict[str, int]:
    """Return the bound that the schema of a text, a list or a map lacks."""
    kind = schema.get("type")
    if kind == "string" and not schema.keys() & {"maxLength", "enum"}:
        return {"maxLength": _LONGEST.get(where.removesuffix(".*").rpartition(".")[2], _LONGEST_TEXT)}
    if kind == "array" and "maxItems" not in schema:
        return {"maxItems": _MOST_ITEMS}
    if kind == "object" and "properties" not in schema:
        return {"maxProperties": _MOST_PROPERTIES}
    return {}


def _as_written(default: Any, schema: Mapping[str, Any]) -> Any:
    """Return a default as people write it: models hold seconds and bytes, resources text."""
    if schema.get("type") != "string" or not isinstance(default, int | float):
        return default
    return format_memory(int(default)) if schema.get("pattern") == MEMORY_PATTERN else format_duration(default)
