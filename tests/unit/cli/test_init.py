"""`streamjob init` writes a first job, and changes nothing that exists."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamjob.cli.main import app

runner = CliRunner()


def contents(directory: Path) -> dict[str, str]:
    return {str(each.relative_to(directory)): each.read_text() for each in directory.rglob("*") if each.is_file()}


def test_init_writes_a_job_with_data_and_prints_the_next_command(tmp_path: Path) -> None:
    ended = runner.invoke(app, ["init", str(tmp_path / "my jobs")])

    assert ended.exit_code == 0, ended.output
    written = contents(tmp_path / "my jobs")
    assert sorted(written) == [*(f"data/flights/2013-01-01-{hour}.csv" for hour in (10, 11, 12)), "job.py"]
    assert f"next: streamjob run '{tmp_path}/my jobs/job.py'" in ended.output.splitlines()


def test_init_writes_into_the_current_directory_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    ended = runner.invoke(app, ["init"])

    assert "next: streamjob run job.py" in ended.output.splitlines()
    assert "job.py" in contents(tmp_path)


@pytest.mark.parametrize("name", ["job.py", "data/flights/2013-01-01-12.csv", "data"])
def test_init_refuses_a_directory_that_has_one_of_its_files_and_writes_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")

    ended = runner.invoke(app, ["init", str(tmp_path)])

    assert ended.exit_code == 2
    assert str(tmp_path / name) in ended.output
    assert contents(tmp_path) == {name: "mine"}
