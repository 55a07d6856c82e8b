"""`tests:` of a job file: how they are read, and which mistakes are found without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.errors import InvalidInput, InvalidJob
from streamjob.job.loading.job_tests import file_beside, read_tests, read_tests_file
from streamjob.job.loading.load import load_job

JOB: dict[str, Any] = {
    "name": "copies",
    "sources": [{"name": "rows", "format": "json", "schema": "n INT", "options": {"path": "rows"}}],
    "sinks": [{"name": "out", "input": "rows", "format": "json", "options": {"path": "out"}}],
}
TEST: dict[str, Any] = {"name": "it copies", "given": {"rows": [{"n": 1}]}, "expect": {"out": [{"n": 1}]}}


def write(file: Path, data: Any) -> Path:
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file


def test_a_test_without_steps_has_one(tmp_path: Path) -> None:
    loaded = load_job(write(tmp_path / "job.yaml", {**JOB, "tests": [TEST]}))

    (test,) = loaded.tests
    (step,) = test.all_steps()
    assert (test.name, test.finish, dict(step.given)) == ("it copies", True, {"rows": ({"n": 1},)})


def test_a_job_is_the_same_with_and_without_its_tests(tmp_path: Path) -> None:
    with_tests = load_job(write(tmp_path / "one.yaml", {**JOB, "tests": [TEST]}))
    without = load_job(write(tmp_path / "other.yaml", JOB))

    assert with_tests.spec == without.spec


def test_names_that_the_job_does_not_have_are_problems_of_the_file(tmp_path: Path) -> None:
    at = "2026-01-01T12:00:00Z"
    tests = [
        {**TEST, "given": {"row": []}},
        {**TEST, "name": "other", "expect": {"output": []}},
        {"name": "timed", "steps": [{"advance": {"rows": at, "rowss": at}, "expect": {"out": []}}]},
    ]

    with pytest.raises(InvalidJob) as error:
        load_job(write(tmp_path / "job.yaml", {**JOB, "tests": tests}))

    assert [str(each) for each in error.value.problems] == [
        "test 'it copies': names the unknown source 'row'\n    fix: did you mean 'rows'?",
        "test 'other': names the unknown sink 'output'\n    fix: did you mean 'out'?",
        "test 'timed': names the unknown part 'rowss'\n    fix: did you mean 'rows'?",
    ]


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        ({}, "tests: must be a list\n    fix: write `- name: …` for each test"),
        (["x"], "test number 1: must be a mapping\n    fix: write name, given and expect"),
        ([{"expect": {}}], "test number 1: lacks 'name'\n    fix: add `name`"),
        ([{**TEST, "expected": {}}], "test 'it copies': has no field 'expected'\n    fix: did you mean 'expect'?"),
        (
            [{**TEST, "given": []}],
            "test 'it copies': given must be a mapping\n    fix: write {column: value}",
        ),
        ([{**TEST, "given": {"rows": {"n": 1}}}], "test 'it copies': given.rows must be a list"),
        ([{**TEST, "finish": "no"}], "test 'it copies': finish must be true or false"),
        ([{**TEST, "steps": [{}]}], "test 'it copies': has both `given` and `steps`\n    fix: write the rows into"),
        ([{**TEST, "expect": {}}], "test 'it copies': expects nothing\n    fix: add `expect`, with [] for a sink"),
        ([TEST, TEST], "test 'it copies': is there twice\n    fix: give each test a name of its own"),
    ],
)
def test_a_mistake_is_named_with_its_test_and_its_field(tests: Any, problem: str) -> None:
    assert [str(each)[: len(problem)] for each in read_tests(tests).problems] == [problem]


def test_a_file_of_tests_stands_next_to_its_job(tmp_path: Path) -> None:
    file = write(tmp_path / "job.tests.yaml", {"tests": [TEST]})
    loaded = load_job(write(tmp_path / "job.yaml", JOB))

    assert file_beside(tmp_path / "job.sql") == file
    assert [each.name for each in read_tests_file(file, loaded.spec)] == ["it copies"]


@pytest.mark.parametrize("content", [[TEST], {"test": [TEST]}, {"tests": [TEST], "name": "x"}])
def test_a_file_of_tests_has_nothing_else(tmp_path: Path, content: Any) -> None:
    spec = load_job(write(tmp_path / "job.yaml", JOB)).spec

    with pytest.raises(InvalidInput, match="begin it with `tests:`"):
        read_tests_file(write(tmp_path / "job.tests.yaml", content), spec)


TEMPLATE: dict[str, Any] = {
    "name": "it copies at ${var:stage:-home}",
    "given": {"rows": [{"n": "${var:n}"}]},
    "expect": {"out": [{"n": "${var:n}"}, {"n": "${var:text:-v}1"}]},
}


def test_tests_take_the_variables_of_their_job(tmp_path: Path) -> None:
    file = write(tmp_path / "job.yaml", {**JOB, "tests": [TEMPLATE]})

    (test,) = load_job(file, variables=["n=7"]).tests

    assert test.name == "it copies at home"
    assert (test.given, test.expect) == ({"rows": ({"n": 7},)}, {"out": ({"n": 7}, {"n": "v1"})})


def test_tests_in_a_file_of_their_own_take_them_too(tmp_path: Path) -> None:
    job = {**JOB, "sources": [{**JOB["sources"][0], "options": {"path": "rows${var:n}"}}]}
    loaded = load_job(write(tmp_path / "job.yaml", job), variables=["n=7"])

    (test,) = read_tests_file(write(tmp_path / "job.tests.yaml", {"tests": [TEMPLATE]}), loaded.spec, loaded.variables)

    assert test.given == {"rows": ({"n": 7},)}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("${var:m}", "test 'it copies': refers to the variable 'm', which is not given"),
        ("${var:", "test 'it copies': has '${var:' and no reference"),
        (
            "${env:HOME}",
            "test 'it copies': refers to the environment, which only options, registry.url",
        ),
    ],
)
def test_references_that_tests_cannot_have_are_named(value: str, problem: str) -> None:
    tests = [{**TEST, "given": {"rows": [{"n": value}]}}]

    assert [str(each)[: len(problem)] for each in read_tests(tests, {"n": "1"}).problems] == [problem]


def test_a_converted_job_keeps_its_tests(tmp_path: Path) -> None:
    file = write(tmp_path / "job.yaml", {**JOB, "tests": [TEST]})

    done = CliRunner().invoke(app, ["convert", str(file), "-o", str(tmp_path / "again.yaml")])

    assert done.exit_code == 0, done.output
    assert load_job(tmp_path / "again.yaml").tests == load_job(file).tests
