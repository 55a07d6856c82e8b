"""`streamjob test`: its output and its exit codes; the runs themselves are replaced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.unit.job.test_tests_of_job_files import JOB, TEST, write
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob_runtime.process import testing
from streamjob_runtime.testing.file_tests import Result

FAILURE = "sink 'out': 1 row expected, 0 published\n  missing:    {n: 1}"


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_job: object, tests: Any, *, kills: bool) -> Iterator[Result]:
        yield from (Result(each.name, 1.25, (FAILURE,) if "fails" in each.name or kills else ()) for each in tests)

    monkeypatch.setattr(testing, "run_job_tests", run)


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["test", *map(str, arguments)])
    return result.exit_code, result.output


def test_passed_tests_end_with_code_0(tmp_path: Path) -> None:
    file = write(tmp_path / "job.yaml", {**JOB, "tests": [TEST]})

    assert call(file) == (0, f"{file}: 1 test\n  passed  it copies (1.2 s)\n1 of 1 test passed\n")


def test_a_failed_test_shows_why_and_ends_with_code_5(tmp_path: Path) -> None:
    file = write(tmp_path / "job.yaml", {**JOB, "tests": [TEST, {**TEST, "name": "it fails"}]})
    code, output = call(file, "--junit", tmp_path / "report.xml")

    assert code == 5
    assert (
        "  FAILED  it fails (1.2 s)\n    sink 'out': 1 row expected, 0 published\n      missing:    {n: 1}\n" in output
    )
    assert output.endswith("1 of 2 tests passed\n")
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is not None for case in suite] == [False, True]


def test_file_beside_the_file_run_as_well(tmp_path: Path) -> None:
    file = write(tmp_path / "job.yaml", {**JOB, "tests": [TEST]})
    write(tmp_path / "job.tests.yaml", {"tests": [{**TEST, "name": "beside"}]})

    assert call(file)[1].endswith("2 of 2 tests passed\n")
    assert call(file, "--test", "beside")[1].endswith("1 of 1 test passed\n")


def test_a_job_is_killed_in_every_step_on_request(tmp_path: Path) -> None:
    assert call(write(tmp_path / "job.yaml", {**JOB, "tests": [TEST]}), "--kill")[0] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((), "has no tests\n  fix: add `tests:` to it, or write them into job.tests.yaml"), (("--test", "x"), "has no")],
)
def test_a_job_without_tests_ends_with_code_2(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    code, output = call(write(tmp_path / "job.yaml", JOB), *arguments)

    assert code == 2
    assert message in output
