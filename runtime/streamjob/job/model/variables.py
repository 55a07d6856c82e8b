"""`--var name=value`: replaces `${var:name}` in the fields of a job before they are read.

`${env:NAME}` in options, in `registry.url` and in `sparkConf` is left for the place where the job runs: it may stand
for a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from streamjob.job.model.problem import Problem
from streamjob.job.model.references import ENVIRONMENT, VARIABLE, Unset, is_malformed, is_reference, names_in, replaced

Location = tuple[int | str, ...]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WHOLE_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
TESTS = "tests"
"""The field with rows of any types: a reference that is a whole value there may stand for a number or a boolean."""
_NUMBERS = {"parallelism", "maxParallelism", "channels"}
"""Fields, and mappings of fields, that take a whole number and no text."""


def parse_variables(given: Sequence[str]) -> tuple[dict[str, str], list[Problem]]:
    """Return the variables by name, and the problems of those that are not `name=value`; the last of a name counts."""
    variables: dict[str, str] = {}
    problems = []
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not _NAME.fullmatch(name):
            problems.append(Problem(f"--var {name}", "is not NAME=VALUE", "write it like --var stage=production"))
        else:
            variables[name] = value
    return variables, problems


def replace_variables(data: Mapping[str, Any], variables: Mapping[str, str]) -> tuple[dict[str, Any], set[str]]:
    """Return a job's content with its variables replaced, and the names that it refers to.

    References that cannot be replaced stay; `misplaced` finds them.

    Args:
        data: the content of a job file; it stays as it is.
        variables: values by name.
    """
    used: set[str] = set()

    def change(text: str, location: Location) -> Any:
        used.update(names_in(text, VARIABLE))
        try:
            value = replaced(text, VARIABLE, variables.get) if "${var:" in text else text
        except Unset:
            return text
        if location[0] == TESTS and is_reference(text, VARIABLE):
            return _scalar(value)
        return value if value is text else as_field(value, location)

    return {key: _mapped(value, change, (str(key),)) for key, value in data.items()}, used


def as_field(text: str, location: Location) -> Any:
    """Return the value of a text in a field: a whole number if the field takes one, otherwise the text."""
    return int(text) if location[0] in _NUMBERS and _WHOLE_NUMBER.fullmatch(text) else text


def _scalar(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if value is None or isinstance(value, bool | int | float) else text


def misplaced(data: Mapping[str, Any]) -> Iterator[tuple[Location, str, str]]:
    """Yield the fields of a job's content with unresolved references, each with the problem and the fix."""
    for text, location in _texts(data, ()):
        for name in dict.fromkeys(names_in(text, VARIABLE)):
            fix = f"give it by --var {name}=…, or a default: ${{var:{name}:-…}}; in a StreamJob, write the value itself"
            yield location, f"refers to the variable {name!r}, which is not given", fix
        if is_malformed(text, VARIABLE):
            yield location, "has '${var:' and no reference to a variable", "write ${var:name} or ${var:name:-default}"
        if _may_refer_to_the_environment(location):
            if is_malformed(text, ENVIRONMENT):
                fix = "write ${env:NAME} or ${env:NAME:-default}"
                yield location, "has '${env:' and no reference to the environment", fix
        elif "${env:" in text and location[-1:] != ("sql",):
            what = "refers to the environment, which only options, registry.url and sparkConf can"
            yield location, what, "write ${var:name}, and give the value by --var name=…"


def _may_refer_to_the_environment(location: Location) -> bool:
    return "options" in location or location[:1] == ("sparkConf",) or location[-2:] == ("registry", "url")


def _mapped(value: Any, change: Callable[[str, Location], Any], location: Location) -> Any:
    if isinstance(value, str):
        return change(value, location)
    if isinstance(value, Mapping):
        return {key: _mapped(each, change, (*location, str(key))) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(each, change, (*location, index)) for index, each in enumerate(value)]
    return value


def _texts(value: Any, location: Location) -> Iterator[tuple[str, Location]]:
    if isinstance(value, str):
        yield value, location
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(each, (*location, str(key)))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _texts(each, (*location, index))
