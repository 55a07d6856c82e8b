"""Writes a job as a YAML file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamjob.errors import InvalidInput
from streamjob.job.checks.subject import where
from streamjob.job.loading.job_tests import JobTestSpec
from streamjob.job.loading.yaml_writing import write_yaml
from streamjob.job.model.spec import JobSpec
from streamjob.job.model.variables import TESTS


class NotConvertible(InvalidInput):
    """A job has a function that exists in its Python file only."""


def converted(spec: JobSpec, tests: Sequence[JobTestSpec] = ()) -> str:
    """Return a job, with its tests, as the text of a YAML file.

    Raises:
        NotConvertible: a function cannot be named.
    """
    named = [(f"{where(part)} has the function", part.python or "") for part in spec.inputs().values()]
    named += [(f"function {name!r} is", reference) for name, reference in spec.functions.items()]
    for whose, reference in named:
        if "<" in reference:
            what = f"{whose} {reference}, which no other file can name"
            raise NotConvertible(what, "define it at the top level of its module, with `def`")
    content = content_of(spec)
    if tests:
        content[TESTS] = [each.model_dump(mode="json", by_alias=True, exclude_unset=True) for each in tests]
    return write_yaml(content)


def content_of(spec: JobSpec) -> dict[str, Any]:
    """Return a job as the content of a YAML file, without fields that have their default."""
    data: dict[str, Any] = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for operator in data.get("operators", ()):
        operator["inputs"] = [each["from"] if set(each) == {"from"} else each for each in operator["inputs"]]
    return data
