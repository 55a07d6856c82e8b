"""Each field of a StreamJob's spec declares the effect of its change, and has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from tests.unit.operator.resources.test_agreement import accepted, schema_of

from streamjob.job.loading.stream_job import OVERRIDING, OVERRIDING_BY_KEY
from streamjob.job.model.reading import read_spec
from streamjob_operator.decisions.values.revision import difference, revision_of
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.effect_of_changes import Change, Changes, changes_of
from streamjob_operator.resources.streamjob import StreamJob, StreamJobSpec

Path = tuple[str, ...]

OF_THE_JOB_TOO = (*OVERRIDING, *OVERRIDING_BY_KEY)
SPEC: dict[str, Any] = {
    "job": {"sources": [{"name": "a", "format": "rate"}], "checkpointing": {"location": "s3://bucket/snapshots"}}
}

SECTIONS: dict[str, Any] = {"executor": {"instances": 2}, "schedule": {"cron": "0 3 * * *"}}


def fields(schema: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the fields of a definition that have no fields of their own, with their schemas."""
    for name, each in schema["properties"].items():
        if "properties" in each:
            yield from fields(each, (*above, name))
        else:
            yield (*above, name), each


FIELDS = dict(fields(schema_of("streamjobs", "spec")))


def declared(path: Path, changes: Changes) -> Change:
    """Return the declared effect of a field; one of the job has that of the field that overrides it."""
    if path[0] == "job" and path[1] in OF_THE_JOB_TOO:
        path = path[1:]
    found = changes[path[0]]
    return found if isinstance(found, Change) else declared(path[1:], found)


def base(path: Path) -> dict[str, Any]:
    """Return the spec in which a field is changed: executors and runs have settings only if there are any."""
    return {**SPEC, **{name: section for name, section in SECTIONS.items() if name == path[0]}}


def changed(path: Path, value: Any) -> dict[str, Any]:
    """Return the spec with another value of a field."""
    spec = deepcopy(base(path))
    section = spec
    for name in path[:-1]:
        section = section.setdefault(name, {})
    section[path[-1]] = value
    return spec


def content(path: Path, spec: StreamJobSpec) -> object:
    """Return what a spec says, defaults included; `job` has its defaults only as the file that the driver reads."""
    if path[0] == "job" and path[1] in OF_THE_JOB_TOO:
        return read_spec(StreamJob(metadata=Metadata(name="orders"), spec=spec).job_file()).spec
    return spec.model_dump()


def read(spec: Mapping[str, Any]) -> StreamJobSpec:
    try:
        return StreamJobSpec.model_validate(spec)
    except ValidationError:
        assume(False)
        raise


@pytest.mark.parametrize("path", FIELDS, ids=".".join)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_a_changed_field_has_the_effect_that_it_declares(path: Path, data: st.DataObject) -> None:
    before, after = read(base(path)), read(changed(path, data.draw(accepted(dict(FIELDS[path])))))
    assume(content(path, before) != content(path, after))

    found = difference(revision_of("orders", before), revision_of("orders", after))

    assert found is declared(path, changes_of(StreamJobSpec))


def test_a_field_without_a_declaration_is_a_defect() -> None:
    class Section(BaseModel):
        known: int = 1

    class Spec(BaseModel):
        section: Annotated[Section | None, Change.UPGRADE] = None
        forgotten: Section | None = None

    with pytest.raises(TypeError, match=r"Spec\.forgotten does not declare its effect: annotate it with a Change"):
        changes_of(Spec)


def test_a_section_may_hold_fields_of_different_effects() -> None:
    checkpointing = changes_of(StreamJobSpec)["checkpointing"]

    assert isinstance(checkpointing, Mapping)
    assert (checkpointing["interval"], checkpointing["location"]) == (Change.PATCH, Change.UPGRADE)
