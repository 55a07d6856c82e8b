"""The controller can read whatever the API server admits: the models read specs made from the definitions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from streamjob.autoscaling.policy import CRON
from streamjob.durations import Seconds
from streamjob.job.model.spec import JobSpec
from streamjob_operator.resources.crd import crds
from streamjob_operator.resources.snapshot import StreamSnapshotSpec, StreamSnapshotStatus
from streamjob_operator.resources.status import StreamJobStatus
from streamjob_operator.resources.streamjob import StreamJobSpec

# A schema cannot compare a duration, nor an amount of memory; a rule of two fields is the API server's.
_BEYOND_A_SCHEMA = {
    *("greater_than", "greater_than_equal", "less_than_equal"),
    *("too_few_for_spark", "min_above_max", "not_a_time"),
}
DURATION_PATTERN = TypeAdapter(Seconds).json_schema()["pattern"]
_MOMENTS = st.datetimes(min_value=datetime(1970, 1, 1)).map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
_WORDS = st.text("abcxyz-/: ", min_size=1, max_size=12)


def schema_of(plural: str, part: str) -> dict[str, Any]:
    """Return the schema of `spec` or `status` in a definition."""
    (version,) = crds()[f"streamjob.io_{plural}.yaml"]["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"][part]
    return found


def accepted(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that a structural schema lets in."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object":
            return _objects(schema)
        case "array":
            keys = schema.get("x-kubernetes-list-map-keys", [])
            unique = (lambda each: tuple(each[key] for key in keys)) if keys else None
            least = schema.get("minItems", 0)
            return st.lists(accepted(schema["items"]), min_size=least, max_size=max(2, least), unique_by=unique)
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1))
        case "number":
            low, high = schema.get("minimum"), schema.get("maximum")
            return st.floats(low, high, allow_nan=False, allow_infinity=False)
        case "string":
            return _texts(schema)
        case _:
            return _WORDS


def _objects(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "additionalProperties" in schema:
        return st.dictionaries(_WORDS, accepted(schema["additionalProperties"]), max_size=2)
    fields = {name: accepted(each) for name, each in schema.get("properties", {}).items()}
    required = {name: fields.pop(name) for name in schema.get("required", ())}
    # A few of the fields at a time: all of them in all sections are too much for one value.
    chosen = st.lists(st.sampled_from(sorted(fields)), max_size=4, unique=True) if fields else st.just([])
    return chosen.flatmap(lambda names: st.fixed_dictionaries({**required, **{name: fields[name] for name in names}}))


def _texts(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return _MOMENTS
    longest = schema.get("maxLength", 64)
    if schema.get("pattern") == DURATION_PATTERN:
        # A schema cannot tell a thousand years, the longest that is read.
        return st.from_regex(r"\A([0-9]{1,4}(\.[0-9]{1,3})?(ms|s|m|h|d)){1,2}\Z", alphabet=st.characters(codec="ascii"))
    if schema.get("pattern") == CRON:
        # Few texts of this form are times.
        return st.from_regex(r"\A([0-9]|[1-5][0-9]|\*/5) ([0-9]|1[0-9]|\*) (\*|[1-9]) \* [0-6]\Z")
    if "pattern" in schema:
        found = st.from_regex(schema["pattern"].removesuffix("$") + r"\Z", alphabet=st.characters(codec="ascii"))
        return found.filter(lambda text: schema.get("minLength", 0) <= len(text) <= longest and "\n" not in text)
    return st.text(min_size=schema.get("minLength", 0), max_size=min(longest, 64))


def refusals(model: type[BaseModel], value: Any) -> list[str]:
    """Return why a model refuses a value, but for what no schema can say."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        return [str(each) for each in error.errors() if each["type"] not in _BEYOND_A_SCHEMA]
    return []


@settings(deadline=None)
@given(accepted(schema_of("streamjobs", "spec")))
def test_a_spec_that_the_definition_lets_in_is_read(spec: dict[str, Any]) -> None:
    assert refusals(StreamJobSpec, spec) == []


@settings(deadline=None)
@given(accepted(schema_of("streamjobs", "status")))
def test_a_status_that_the_definition_lets_in_is_read(status: dict[str, Any]) -> None:
    assert refusals(StreamJobStatus, status) == []


@settings(deadline=None)
@given(accepted(schema_of("streamsnapshots", "spec")))
def test_a_snapshot_that_the_definition_lets_in_is_read(spec: dict[str, Any]) -> None:
    assert refusals(StreamSnapshotSpec, spec) == []


@settings(deadline=None)
@given(accepted(schema_of("streamsnapshots", "status")))
def test_a_status_of_a_snapshot_that_the_definition_lets_in_is_read(status: dict[str, Any]) -> None:
    assert refusals(StreamSnapshotStatus, status) == []


@settings(deadline=None)
@given(accepted(schema_of("streamjobs", "spec")))
def test_a_spec_that_was_read_is_let_in_again_as_the_same(spec: dict[str, Any]) -> None:
    try:
        read = StreamJobSpec.model_validate(spec)
    except ValidationError:
        return

    assert StreamJobSpec.model_validate(read.to_dict()) == read


def test_a_job_needs_no_more_in_a_resource_than_in_a_file() -> None:
    job = schema_of("streamjobs", "spec")["properties"]["job"]
    model = JobSpec.model_json_schema()

    for parts, name in (
        ("sources", "SourceSpec"),
        ("tables", "TableSpec"),
        ("operators", "OperatorSpec"),
        ("sinks", "SinkSpec"),
    ):
        assert job["properties"][parts]["items"]["required"] == model["$defs"][name]["required"]
