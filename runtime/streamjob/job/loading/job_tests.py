"""The tests of a job file: `tests:` in the file itself, or in a file next to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from streamjob.errors import InvalidJob
from streamjob.job.loading.text_file import read_yaml
from streamjob.job.model.nesting import MOST_LEVELS, too_deep
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import JobSpec
from streamjob.job.model.spec_fields import Spec
from streamjob.job.model.suggest import did_you_mean
from streamjob.job.model.variables import TESTS, misplaced, replace_variables

SUFFIX = ".tests.yaml"
"""The end of the name of a file with tests: `job.tests.yaml` has those of `job.sql`."""

Rows = tuple[dict[str, Any], ...]


class StepSpec(Spec):
    """A step of a test: rows that arrive together, and what the job does with them."""

    given: dict[str, Rows] = Field(
        default_factory=dict,
        description="Rows for sources, by their names: mappings of columns to values. A table has the rows that it is "
        "given from this step on.",
    )
    advance: str | dict[str, str] | None = Field(
        default=None,
        description="Then raise the watermark to this time: of all sources and operators that declare one, or of "
        "single ones by name.",
    )
    kill: bool = Field(
        default=False,
        strict=True,
        description="Kill the job when it has processed the rows, before its checkpoint. It is restored from the last "
        "one, and does the work again.",
    )
    expect: dict[str, Rows] = Field(
        default_factory=dict, description="Rows that sinks publish in this step, by their names, in any order."
    )


class JobTestSpec(Spec):
    """A test of a job: given rows, and the rows that the job publishes for them."""

    name: str = Field(min_length=1, description="What the job does, as a sentence.")
    given: dict[str, Rows] = Field(
        default_factory=dict, description="Rows for sources, by their names, if the test has one step only."
    )
    steps: tuple[StepSpec, ...] = Field(default=(), description="The steps, instead of `given`.")
    finish: bool = Field(
        default=True,
        strict=True,
        description="Whether the input ends with the last step, so that all windows, joins and timers fire.",
    )
    expect: dict[str, Rows] = Field(
        default_factory=dict, description="All rows that sinks publish in the test, by their names, in any order."
    )

    @model_validator(mode="after")
    def _given_or_steps(self) -> JobTestSpec:
        if self.given and self.steps:
            raise ValueError("it has both `given` and `steps`; write the rows into the steps")
        if not self.expect and not any(each.expect for each in self.steps):
            raise ValueError("it expects nothing; add `expect`, with [] for a sink that publishes no rows")
        return self

    def all_steps(self) -> tuple[StepSpec, ...]:
        """Return its steps; one for a test without."""
        return self.steps or (StepSpec(given=self.given),)


@dataclass(frozen=True, slots=True)
class ReadTests:
    """The tests of a job, without the invalid ones, the problems of those, and the variables that they refer to."""

    tests: tuple[JobTestSpec, ...] = ()
    problems: tuple[Problem, ...] = ()
    variables: frozenset[str] = frozenset()


def read_tests(data: Any, variables: Mapping[str, str] | None = None) -> ReadTests:
    """Read the content of `tests`. Never raises for invalid content.

    Args:
        data: the content.
        variables: values by name, for `${var:name}`.
    """
    if data is None:
        return ReadTests()
    if not isinstance(data, list):
        return ReadTests(problems=(Problem(TESTS, "must be a list", "write `- name: …` for each test"),))
    tests: list[JobTestSpec] = []
    problems: list[Problem] = []
    used: set[str] = set()
    for index, each in enumerate(data):
        where = _where(each, index)
        if not isinstance(each, Mapping):
            problems.append(Problem(where, "must be a mapping", "write name, given and expect"))
        elif too_deep(each) is not None:
            problems.append(Problem(where, f"has more than {MOST_LEVELS} levels", "give rows with fewer levels"))
        else:
            content, referred = replace_variables({TESTS: each}, variables or {})
            used |= referred
            problems += [Problem(where, what, fix) for _, what, fix in misplaced(content)]
            try:
                tests.append(JobTestSpec.model_validate(content[TESTS], by_alias=True, by_name=False))
            except ValidationError as error:
                problems += [_problem(where, found) for found in error.errors(include_url=False)]
    names = [each.name for each in tests]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(Problem(f"test {name!r}", "is there twice", "give each test a name of its own"))
    return ReadTests(tuple(tests), tuple(problems), frozenset(used))


def unknown_parts(tests: Iterable[JobTestSpec], spec: JobSpec) -> Iterator[Problem]:
    """Yield the sources, tables and sinks in tests that the job does not have."""
    sources, sinks = [each.name for each in spec.sources], [each.name for each in spec.sinks]
    tables = [each.name for each in spec.tables]
    for test in tests:
        steps = test.all_steps()
        fed = {name for step in steps for name in step.given.keys() - tables}
        timed = {name for step in steps for name in _advanced(step)}
        read = {name for expected in (test.expect, *(step.expect for step in steps)) for name in expected}
        parts = list(spec.inputs())
        for names, known, kind in ((fed, sources, "source"), (timed, parts, "part"), (read, sinks, "sink")):
            for name in sorted(names - set(known)):
                fix = did_you_mean(name, known, f"{kind}s")
                yield Problem(f"test {test.name!r}", f"names the unknown {kind} {name!r}", fix)


def file_beside(file: Path) -> Path:
    """Return the file next to a job's file that may have its tests."""
    return file.with_name(f"{file.stem}{SUFFIX}")


def read_tests_file(file: Path, spec: JobSpec, variables: Mapping[str, str] | None = None) -> tuple[JobTestSpec, ...]:
    """Return the tests in a file of their own, whose only field is `tests`.

    Args:
        spec: the job that they test.
        variables: values by name, for `${var:name}`.

    Raises:
        InvalidInput: the file cannot be read.
        InvalidJob: it has invalid tests.
    """
    documents = read_yaml(file, str(file), "name a YAML file with `tests:`")
    if len(documents) != 1 or not isinstance(documents[0], Mapping) or set(documents[0]) != {TESTS}:
        raise InvalidJob(str(file), [Problem("file", "has something else than tests", "begin it with `tests:`")])
    read = read_tests(documents[0][TESTS], variables)
    problems = [*read.problems, *unknown_parts(read.tests, spec)]
    if problems:
        raise InvalidJob(str(file), problems)
    return read.tests


def _advanced(step: StepSpec) -> Iterable[str]:
    return step.advance if isinstance(step.advance, Mapping) else ()


def _where(test: Any, index: int) -> str:
    name = test.get("name") if isinstance(test, Mapping) else None
    return f"test {name!r}" if isinstance(name, str) and name else f"test number {index + 1}"


def _problem(where: str, error: Any) -> Problem:
    location = error["loc"]
    path = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in location).removeprefix(".")
    kind = error["type"]
    if kind == "extra_forbidden":
        model = StepSpec if len(location) > 1 else JobTestSpec
        return Problem(where, f"has no field {path!r}", did_you_mean(str(location[-1]), model.model_fields, "fields"))
    if kind == "missing":
        return Problem(where, f"lacks {path!r}", f"add `{path}`")
    if kind == "value_error":
        what, _, fix = str(error["ctx"]["error"]).removeprefix("it ").partition("; ")
        return Problem(where, what, fix)
    expected = {
        "bool_type": ("true or false", ""),
        "dict_type": ("a mapping", "write {column: value} for a row, and {name: [rows]} for a source or sink"),
        "tuple_type": ("a list", "write a list, also for one"),
        "string_type": ("a text", "put it in quotes"),
    }.get(kind)
    if expected is None:
        return Problem(where, f"{path}: {error['msg']}")
    return Problem(where, f"{path} must be {expected[0]}", expected[1])
