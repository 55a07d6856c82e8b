"""Validates events by OpenLineage's own schemas: the event, and each facet by the schema that it names."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

SCHEMAS = Path(__file__).parent / "schemas"
CHECKER = FormatChecker(())


def _is_time(value: object) -> bool:
    return datetime.fromisoformat(str(value)).tzinfo is not None


def _is_uuid(value: object) -> bool:
    return str(uuid.UUID(str(value))) == value


def _is_uri(value: object) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9+.-]*:[^\s<>\"{}|\\^`]+", str(value)) is not None


CHECKER.checks("date-time", ValueError)(_is_time)
CHECKER.checks("uuid", ValueError)(_is_uuid)
CHECKER.checks("uri", ())(_is_uri)


@cache
def registry() -> Registry[Any]:
    """Return the schemas by their addresses."""
    found = [json.loads(file.read_text()) for file in SCHEMAS.glob("*.json")]
    return Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in found)


def problems(event: dict[str, Any]) -> list[str]:
    """Return what is wrong with an event."""
    found = list(_problems(event, event["schemaURL"], "event"))
    places = [("run", event["run"]), ("job", event["job"])]
    places += [(f"inputs[{number}]", each) for number, each in enumerate(event["inputs"])]
    places += [(f"outputs[{number}]", each) for number, each in enumerate(event["outputs"])]
    for place, part in places:
        for name, facet in part["facets"].items():
            found += _problems(facet, facet["_schemaURL"], f"{place}.{name}")
            # A facet is found by the name that its schema gives it.
            whole = registry().contents(facet["_schemaURL"].partition("#")[0])
            if list(whole["properties"]) != [name]:
                found.append(f"{place}: {name} is not called {list(whole['properties'])}")
    return found


def _problems(value: Any, schema: str, place: str) -> Iterator[str]:
    validator = Draft202012Validator({"$ref": schema}, registry=registry(), format_checker=CHECKER)
    for error in validator.iter_errors(value):
        yield f"{place}{error.json_path[1:]}: {error.message}"
