"""Parses the content of a job file into the model, and reports validation errors in the author's terms."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from streamjob.durations import format_duration, is_duration
from streamjob.job.model.encoding_spec import Encoding, Registry
from streamjob.job.model.join_spec import LookupPolicy, LookupSpec, TemporalJoinSpec
from streamjob.job.model.nesting import MOST_LEVELS, too_deep
from streamjob.job.model.origins import LISTS, Path, path_of
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import (
    ChannelPolicy,
    CheckpointingPolicy,
    Input,
    JobSpec,
    MigrationSpec,
    OperatorSpec,
    SinkSpec,
    SourceSpec,
    TableSpec,
    Watermark,
)
from streamjob.job.model.suggest import did_you_mean, nearest
from streamjob.job.model.variables import misplaced

Location = tuple[int | str, ...]

_OPTIONS = frozenset(
    (
        *("path", "topic", "subscribe", "subscribePattern", "assign", "startingOffsets", "maxOffsetsPerTrigger"),
        *("maxFilesPerTrigger", "header", "sep", "delimiter", "mode", "rowsPerSecond"),
        *("url", "table", "dbtable", "query", "user", "password", "host", "port"),
    )
)
"""Options that are often written beside `format`."""
_MODELS: Mapping[tuple[str, ...], type[BaseModel]] = {
    (): JobSpec,
    ("checkpointing",): CheckpointingPolicy,
    ("channels",): ChannelPolicy,
    ("sources",): SourceSpec,
    ("sources", "watermark"): Watermark,
    ("sources", "key"): Encoding,
    ("sources", "value"): Encoding,
    ("sinks", "key"): Encoding,
    ("sinks", "value"): Encoding,
    **{(kind, part, "registry"): Registry for kind in ("sources", "sinks") for part in ("key", "value")},
    ("tables",): TableSpec,
    ("tables", "lookup"): LookupPolicy,
    ("operators", "lookup"): LookupSpec,
    ("operators", "temporalJoin"): TemporalJoinSpec,
    ("operators",): OperatorSpec,
    ("operators", "inputs"): Input,
    ("operators", "watermark"): Watermark,
    ("sinks",): SinkSpec,
}
_DURATIONS = {field.alias for model in _MODELS.values() for field in model.model_fields.values() if is_duration(field)}
_NAME_RULES = {
    "name": "use letters, digits, '_' and '-', and begin with a letter",
    "from": "use the name of a source or operator",
    "input": "use the name of a source or operator",
    "uid": "use letters, digits, '.', '_' and '-'",
    "version": "write a number, or latest",
}
_TYPES = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_parsing": "a duration like 10s",
    "float_type": "a duration like 10s",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "string_type": "text",
    "tuple_type": "a list",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a job file.

    Args:
        spec: the model without invalid fields; None if too little is left.
        problems: the problem of each invalid field.
        broken: the parts with such problems, as their `where`: a field that they seem to lack may be an invalid one.
        unread: names of the parts that are missing in `spec` altogether.
        complete: no part and no edge is missing in `spec`, with or without a name.
        paths: the field that each problem is about.
    """

    spec: JobSpec | None
    problems: tuple[Problem, ...] = ()
    broken: frozenset[str] = field(default_factory=frozenset)
    unread: frozenset[str] = field(default_factory=frozenset)
    complete: bool = True
    paths: Mapping[Problem, Path] = field(default_factory=dict)


def read_spec(data: Any) -> Reading:
    """Read a job from the content of a job file: names in camelCase, durations as `10s`.

    Never raises for invalid content. Valid fields are read in any case, so that they can be checked, too.
    """
    if not isinstance(data, Mapping):
        return Reading(None, (Problem("job", "is not a mapping", "begin with `name:`, `sources:` and `sinks:`"),))
    if (field_name := too_deep(data)) is not None:
        what = f"has more than {MOST_LEVELS} levels below {field_name!r}"
        return Reading(None, (Problem("job", what, "no field of a job needs more than a few"),))
    rest: dict[str, Any] = copy.deepcopy(dict(data))
    problems: dict[Problem, Path] = {}
    unread: set[str] = set()
    complete = True

    def drop(locations: Iterable[Location]) -> None:
        nonlocal rest, complete
        wrong = list(locations)
        rest, gone = _without(rest, wrong)
        names = [each.get("name") if isinstance(each, Mapping) else None for each in gone]
        unread.update(each for each in names if isinstance(each, str))
        complete = complete and not gone and not any(_touches_graph(each) for each in wrong)

    unreplaced = list(misplaced(rest))
    for location, what, fix in unreplaced:
        where, below = where_of(rest, location)
        problems.setdefault(Problem(where, f"{_dotted(below)} {what}", fix), path_of(rest, location))
    drop(dict.fromkeys(location for location, _, _ in unreplaced))
    # Removing invalid fields can reveal others that pydantic had not reached, so it takes a few rounds.
    for _ in range(4):
        try:
            spec = JobSpec.model_validate(rest, by_alias=True, by_name=False)
        except ValidationError as error:
            errors = [each for each in error.errors(include_url=False) if each["type"] != "default_factory_not_called"]
            for each in errors:
                problems.setdefault(_problem(rest, each), path_of(rest, each["loc"]))
            drop(each["loc"] for each in errors)
        else:
            broken = frozenset(problem.where for problem in problems) - {"job", "sparkConf"}
            return Reading(spec, tuple(problems), broken, frozenset(unread), complete, problems)
    return Reading(None, tuple(problems), paths=problems)


def _touches_graph(location: Location) -> bool:
    """Return whether edges or whole lists of parts may be missing without the field at `location`."""
    return len(location) == 1 or "inputs" in location


def where_of(data: Mapping[str, Any], location: Location) -> tuple[str, Location]:
    """Return the author's name for the part at `location`, and the location below it."""
    head = location[0] if location else ""
    if head in LISTS and len(location) > 1 and isinstance(location[1], int):
        part = data[str(head)][location[1]]
        name = part.get("name") if isinstance(part, Mapping) else None
        label = repr(name) if isinstance(name, str) else f"number {location[1] + 1}"
        return f"{LISTS[str(head)]} {label}", location[2:]
    if head in ("checkpointing", "channels", "sparkConf"):
        return str(head), location[1:]
    if head == "migrate" and len(location) > 1:
        return f"migrate.{location[1]}", location[2:]
    return "job", location


def _problem(data: Mapping[str, Any], error: Any) -> Problem:
    location: Location = error["loc"]
    kind: str = error["type"]
    where, below = where_of(data, location)
    path = _dotted(below)
    last = str(location[-1]) if location else ""
    if kind == "extra_forbidden":
        return _unknown_field(where, path, location)
    if kind == "missing":
        return Problem(where, f"lacks {path!r}", _description(location))
    subject = path or "it"
    if kind == "literal_error":
        # Fields of the model that take one of a few words never hold a secret.
        words = _expected(location)
        meant = nearest(str(error["input"]), words)
        fix = f"did you mean {meant!r}?" if meant else ""
        return Problem(where, f"{subject} must be {' or '.join(words)}, not {error['input']!r}", fix)
    if kind in ("string_pattern_mismatch", "string_too_long"):
        limit = f", at most {error['ctx']['max_length']} characters" if kind == "string_too_long" else ""
        rule = _NAME_RULES.get("uid" if len(location) == 1 else last, "use the name of a table")
        return Problem(where, f"{subject} cannot be {error['input']!r}", rule + limit)
    if kind == "string_too_short":
        return Problem(where, f"{subject} is empty", _description(location))
    if kind in ("greater_than_equal", "greater_than", "less_than_equal"):
        return Problem(where, f"{subject} must be {_bound(kind, error['ctx'], last)}")
    if kind == "too_long":
        count, most = error["ctx"]["actual_length"], error["ctx"]["max_length"]
        found = f"{count} {last}" if count is not None else f"more {last}"
        return Problem(where, f"has {found}, and at most {most} are possible", "split the job into several")
    if kind == "value_error":
        return Problem(where, f"{subject}: {error['ctx']['error']}")
    if kind == "invalid_key" or location[-1:] == ("[key]",):
        return Problem(where, "has a key that is not text", "put it in quotes")
    if kind == "string_type" and ("options" in location or location[0] == "sparkConf"):
        return Problem(where, f"{subject} must be text, a number, true or false", "write it as Spark takes it")
    if kind in _TYPES:
        expected = "a duration like 10s" if last in _DURATIONS else _TYPES[kind]
        if "inputs" in location and isinstance(location[-1], int):
            expected = "a name, or {from: name, feedback: true}"
        return Problem(where, f"{path} must be {expected}".lstrip())
    return Problem(where, f"{subject}: {error['msg']}")


def _unknown_field(where: str, path: str, location: Location) -> Problem:
    parents = tuple(str(each) for each in location[:-1] if isinstance(each, str))
    last = str(location[-1])
    fields = list(_aliases(MigrationSpec if parents[:1] == ("migrate",) else _MODELS.get(parents, JobSpec)))
    if parents in (("sources",), ("tables",), ("sinks",)) and (last in _OPTIONS or "." in last):
        fix = f"it is an option of the format: write `options: {{{last}: …}}`"
    elif parents in (("sources",), ("tables",), ("sinks",)) and nearest(last, fields) is None:
        fix = f"an option of the format belongs under `options`; the fields are {', '.join(fields)}"
    else:
        fix = did_you_mean(last, fields, "fields")
    return Problem(where, f"has no field {path!r}", fix)


def _aliases(model: type[BaseModel]) -> dict[str, Any]:
    return {each.alias or name: each for name, each in model.model_fields.items()}


def _field(location: Location) -> Any:
    names = tuple(str(each) for each in location if isinstance(each, str))
    model = _MODELS.get(names[:-1])
    return _aliases(model).get(names[-1]) if model else None


def _description(location: Location) -> str:
    found = _field(location)
    text: str = (found.description or "") if found else ""
    return f"add `{location[-1]}`: {text.rstrip('.')}" if text else ""


def _expected(location: Location) -> Sequence[str]:
    found = _field(location)
    if found is None:
        return []
    # A field without a default is a choice of words or None.
    choices = [each for each in get_args(found.annotation) if each is not type(None)]
    return [str(each) for each in (get_args(choices[0]) if len(choices) == 1 else choices)]


def _bound(kind: str, context: Mapping[str, Any], field_name: str) -> str:
    (value,) = context.values()
    words = {"greater_than_equal": "at least", "greater_than": "more than", "less_than_equal": "at most"}[kind]
    return f"{words} {format_duration(value) if field_name in _DURATIONS else value}"


def _dotted(location: Iterable[int | str]) -> str:
    path = ""
    for each in location:
        path += f"[{each}]" if isinstance(each, int) else f".{each}" if path else each
    return path


def _without(data: dict[str, Any], wrong: Iterable[Location]) -> tuple[dict[str, Any], list[Any]]:
    """Return `data` without the invalid fields, and the graph parts that had to be removed with them.

    If a field is required, its parent is removed; the job itself gets a placeholder for an invalid name.
    """
    rest = copy.deepcopy(data)
    doomed = {_removable(location) for location in wrong}
    gone = []
    # Backwards, so that positions in a list stay valid.
    for location in sorted(doomed, key=lambda each: [(isinstance(part, str), part) for part in each], reverse=True):
        if len(location) == 2 and location[0] in LISTS:
            gone.append(rest[str(location[0])][location[1]])
        if not location:
            rest["name"] = "unnamed"
        else:
            _delete(rest, location)
    return rest, gone


def _removable(location: Location) -> Location:
    if location[-1:] == ("[key]",):
        return location[:-1]
    while location and _is_required(location):
        location = location[:-1]
    return location


def _is_required(location: Location) -> bool:
    found = _field(location) if isinstance(location[-1], str) else None
    return bool(found and found.is_required())


def _delete(data: Any, location: Location) -> None:
    for each in location[:-1]:
        if isinstance(data, Mapping) and each not in data:
            return
        data = data[each]
    if isinstance(data, dict):
        data.pop(location[-1], None)
    elif isinstance(data, list):
        del data[int(location[-1])]
