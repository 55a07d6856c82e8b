"""`streamjob preview`: its output; the run itself is replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.job.test_tests_of_job_files import JOB, TEST, write
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob_runtime.process import testing
from streamjob_runtime.testing.preview import Preview

GIVEN: list[Mapping[str, Sequence[Any]] | None] = []


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> None:
    GIVEN.clear()

    def run(_job: object, name: str | None, *, rows: int, given: Any, **_rest: object) -> Preview:
        GIVEN.append(given)
        return Preview(name or "rows", ("n", "text"), ({"n": 1, "text": "[é]"},)[:rows], 7, {"rows": 9})

    monkeypatch.setattr(testing, "preview_job", run)


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["preview", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def test_rows_are_shown_as_a_table_with_their_origin(tmp_path: Path) -> None:
    output = call(write(tmp_path / "job.yaml", JOB))

    lines = [line.split() for line in output.splitlines()]
    assert ["n", "text"] in lines
    assert ["1", "[é]"] in lines
    assert "1 of 7 rows that 'rows' returns for these rows of its sources: 9 of 'rows'\n" in output
    assert GIVEN == [None]


def test_rows_are_printed_as_json(tmp_path: Path) -> None:
    output = call(write(tmp_path / "job.yaml", JOB), "--operator", "rows", "--format", "json")

    assert [json.loads(line) for line in output.splitlines()] == [{"n": 1, "text": "[é]"}]


def test_the_rows_of_a_test_replace_the_sample(tmp_path: Path) -> None:
    call(write(tmp_path / "job.yaml", {**JOB, "tests": [TEST]}), "--test", "it copies")

    assert GIVEN == [{"rows": [{"n": 1}]}]
