"""What the controller builds from specs, in `golden.yaml`; `make golden` writes that file anew.

Each case is a spec, perhaps with fields of the action that creates its driver, and the fields that its objects have and
those of another case have not, by their paths; `null` stands for a field that they have no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.unit.operator.objects.samples import OWNER, pod, revision

from streamjob_operator.objects import (
    Controller,
    disruption_budget,
    driver_service,
    executor_set,
    executors_policy,
    executors_secret,
    job_config_map,
    network_policy,
    token_secret,
)
from streamjob_operator.objects.names import COMPONENT_LABEL, TEMPLATE_LABEL

Case = dict[str, Any]
Fields = dict[tuple[str, str], Any]
"""Values by the path of what they are in, and their names in it."""
Sections = dict[str, dict[str, Any]]

FILE = Path(__file__).with_name("golden.yaml")
_HEADER = "# Specs, and what the controller builds from them. `make golden` writes all but the specs anew."
_KEYS = ("mountPath", "name")
_BUILT = "objects"
_WIDTH = 100


def cases() -> list[Case]:
    """Return the cases as they are stored."""
    return list(yaml.safe_load(FILE.read_text()))


def built(case: Case, stored: list[Case]) -> dict[str, Sections]:
    """Return, of each object, the fields that the one of the case's base has not."""
    base = next((each for each in stored if each["name"] == case.get("than")), None)
    own, others = _objects(case), {} if base is None else _objects(base)
    changes = {name: _changes(others.get(name, {}), fields) for name, fields in own.items()}
    return {name: _sections(fields) for name, fields in changes.items() if fields}


def text_of(stored: list[Case]) -> str:
    """Return the content of the file, with what is built now."""
    lines = [_HEADER]
    for case in stored:
        inputs = [f"{key}: {_line(value, 4)}" for key, value in case.items() if key != _BUILT]
        lines.append("- " + "\n  ".join([*inputs, f"{_BUILT}:"]))
        for name, sections in built(case, stored).items():
            lines += [
                f"    {name}:",
                *(f"      {_line(path, 0)}: {_line(fields, 8)}" for path, fields in sections.items()),
            ]
    return "\n".join(lines) + "\n"


def _objects(case: Case) -> dict[str, Fields]:
    """Return the fields of all objects of a StreamJob, by what they are for; those of every object once."""
    spec: dict[str, Any] = case.get("spec", {})
    of = revision(**spec)
    executor = of.spec().executor
    controller = Controller("streamjob-system", {"app": "controller"})
    config = job_config_map(OWNER, of)
    config["data"] = {name: yaml.safe_load(text) for name, text in config["data"].items()}
    objects: dict[str, Any] = {
        "driver": pod(start=case.get("action"), **spec),
        "job": config,
        "token": token_secret(OWNER, "word"),
        "access": network_policy(OWNER, controller, executors=executor is not None),
    }
    # A digest changes with everything.
    masks = {of.name: "views-REVISION", OWNER.uid: "UID"}
    if executor is not None:
        executors = executor_set(OWNER, of, of.spec().instances, default_image="runtime:1")
        masks[executors["metadata"]["labels"][TEMPLATE_LABEL]] = "DIGEST"
        objects |= {
            "executors": executors,
            "service of the driver": driver_service(OWNER),
            "secret of executors": executors_secret(OWNER, "word"),
            "access to executors": executors_policy(OWNER),
            "budget of executors": disruption_budget(OWNER, executor),
        }
    flat = {name: {path: _masked(value, masks) for path, value in _flat(each)} for name, each in objects.items()}
    (_, first), *others = flat.items()
    common = {
        path: value
        for path, value in first.items()
        if path[1] != COMPONENT_LABEL and all((path, value) in other.items() for _, other in others)
    }
    return {"every object": common} | {
        name: {path: value for path, value in fields.items() if path not in common} for name, fields in flat.items()
    }


def _masked(value: Any, masks: dict[str, str]) -> Any:
    text = json.dumps(value)
    for found, instead in masks.items():
        text = text.replace(found, instead)
    return json.loads(text)


def _changes(before: Fields, after: Fields) -> Fields:
    gone: Fields = dict.fromkeys(path for path in before if path not in after)
    return gone | {path: value for path, value in after.items() if path not in before or before[path] != value}


def _sections(fields: Fields) -> Sections:
    found: Sections = {}
    for (path, name), value in fields.items():
        found.setdefault(path or "itself", {})[name] = value
    return found


def _flat(value: dict[str, Any], path: str = "") -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield all fields; elements of lists are named by their keys, and arguments by their options."""
    for name, inner in value.items():
        within = f"{path}.{name}" if path else name
        if isinstance(inner, dict) and inner:
            yield from _flat(inner, within)
        elif name == "args":
            yield from (((within, option), given) for option, given in _options(inner).items())
        elif key := _key_of(inner):
            for each in inner:
                rest = {field: own for field, own in each.items() if field != key}
                if rest.keys() <= {"value"}:
                    yield (within, each[key]), rest.get("value", {})
                else:
                    yield from _flat(rest, f"{within}[{each[key]}]")
        else:
            yield (path, name), inner


def _key_of(value: Any) -> str | None:
    if not isinstance(value, list) or not value or not all(isinstance(each, dict) for each in value):
        return None
    return next((key for key in _KEYS if len({each.get(key) for each in value} - {None}) == len(value)), None)


def _options(arguments: list[str]) -> dict[str, list[str]]:
    option = "first"
    found: dict[str, list[str]] = {option: []}
    for each in arguments:
        if each.startswith("--"):
            option = each
            found.setdefault(option, [])
        else:
            found[option].append(each)
    return found


def _line(value: Any, indent: int) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=_WIDTH - indent)
    return text.removesuffix("...\n").strip().replace("\n", "\n" + " " * indent)
