"""`--set PATH=VALUE`: changes one field of a job before it is read.

A path consists of field names separated by dots. List elements are addressed by name: `sources.flights.options.path`.
Below `options` and `sparkConf`, the rest of the path is one key, since such keys contain dots themselves.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from streamjob.job.loading.yaml_file import YamlError, read_scalar
from streamjob.job.model.problem import Problem, Refused
from streamjob.job.model.suggest import did_you_mean

_OPEN = {"options", "sparkConf"}


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], list[Problem]]:
    """Return a copy of the job file's content with the overrides applied, and problems with the others."""
    changed = copy.deepcopy(data)
    problems: list[Problem] = []
    for override in overrides:
        path, equals, text = override.partition("=")
        where = f"--set {path}"
        if not equals or not path:
            problems.append(Problem(where, "is not PATH=VALUE", "write it like checkpointing.interval=5s"))
            continue
        try:
            _assign(changed, _steps(path), read_scalar(text))
        except YamlError as error:
            problems.append(Problem(where, f"the value cannot be read as YAML: {error}", "put it in quotes"))
        except Refused as error:
            problems.append(error.problem(where))
    return changed, problems


def overridden(override: str) -> tuple[str, ...]:
    """Return the path of the field that `PATH=VALUE` changes."""
    return tuple(_steps(override.partition("=")[0]))


def _steps(path: str) -> list[str]:
    steps = path.split(".")
    for index, step in enumerate(steps[:-1]):
        if step in _OPEN:
            return [*steps[: index + 1], ".".join(steps[index + 1 :])]
    return steps


def _assign(data: Any, steps: list[str], value: Any) -> None:
    head, *rest = steps
    if isinstance(data, list):
        element = _element(data, head)
        if not rest:
            raise Refused(f"names {head!r} and none of its fields", f"set a field of it, like {head}.uid=…")
        _assign(element, rest, value)
    elif not isinstance(data, dict):
        raise Refused(f"there is nothing below it that could have a field {head!r}", "check the path")
    elif rest:
        if data.get(head) is None:
            data[head] = {}
        _assign(data[head], rest, value)
    else:
        data[head] = value


def _element(elements: list[Any], name: str) -> Any:
    named = {each["name"]: each for each in elements if isinstance(each, dict) and isinstance(each.get("name"), str)}
    if name not in named:
        raise Refused(f"there is no {name!r}", did_you_mean(name, named, "names"))
    return named[name]
