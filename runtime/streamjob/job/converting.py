"""Writes a job in another form: YAML as SQL, and SQL as YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from streamjob.errors import InvalidInput
from streamjob.job.checks.subject import where
from streamjob.job.job_tests import JobTestSpec
from streamjob.job.spec import JobSpec
from streamjob.job.variables import TESTS
from streamjob.job.yaml_writing import write_yaml

Form = Literal["yaml", "sql"]


class NotConvertible(InvalidInput):
    """A job has a function that exists in its Python file only."""


class NoTestsInSql(InvalidInput):
    """A job has tests in its file, and a SQL file has no place for them."""


def converted(spec: JobSpec, form: Form, tests: Sequence[JobTestSpec] = ()) -> str:
    """Return a job as the text of a file.

    Args:
        spec: the job.
        form: the form of the file.
        tests: its tests, to be in the same file.

    Raises:
        NotConvertible: a function of a source or operator cannot be named.
        NoTestsInSql: tests are to be in a SQL file.
        NotExpressible: the job has something that SQL cannot say.
    """
    for part in spec.inputs().values():
        if part.python is not None and "<" in part.python:
            what = f"{where(part)} has the function {part.python}, which no other file can name"
            raise NotConvertible(what, "define it at the top level of its module, with `def`")
    if form == "sql":
        from streamjob.job.sql_job import write_sql

        if tests:
            raise NoTestsInSql(
                f"the job {spec.name!r} has tests, and a SQL file has none: they belong into a file next to it",
                "name the SQL file by --output: its tests are then written next to it",
            )
        return write_sql(spec)
    return write_yaml(content_of(spec) | (_content_of_tests(tests) if tests else {}))


def converted_tests(tests: Sequence[JobTestSpec]) -> str:
    """Return tests as the text of a file of their own."""
    return write_yaml(_content_of_tests(tests))


def _content_of_tests(tests: Sequence[JobTestSpec]) -> dict[str, Any]:
    return {TESTS: [each.model_dump(mode="json", by_alias=True, exclude_unset=True) for each in tests]}


def content_of(spec: JobSpec) -> dict[str, Any]:
    """Return a job as the content of a YAML file, without fields that have their default."""
    data: dict[str, Any] = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for operator in data.get("operators", ()):
        operator["inputs"] = [each["from"] if set(each) == {"from"} else each for each in operator["inputs"]]
    return data
