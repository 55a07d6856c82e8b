"""The command line as a whole: which commands there are, how they are loaded, how errors end them."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from streamjob.cli import main as cli
from streamjob.errors import CannotRestore, InvalidInput, JobFailed, StreamJobError, Superseded

runner = CliRunner()
COMMANDS = [
    "init",
    "run",
    "validate",
    "plan",
    "check",
    "migrate",
    "status",
    "checkpoint",
    "savepoint",
    "stop",
    "advise",
    "snapshots",
]


def _command(monkeypatch: pytest.MonkeyPatch, name: str, function: Any) -> None:
    module = ModuleType("a_lazy_module")
    module.found = function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_lazy_module", module)
    monkeypatch.setitem(cli.LAZY, name, cli.Lazy("Do something.", "a_lazy_module:found"))


def test_the_help_lists_every_command_with_a_whole_sentence() -> None:
    result = runner.invoke(cli.app, ["--help"], env={"COLUMNS": "80"})

    assert result.exit_code == 0
    listed = {line.split()[0]: line for line in result.output.splitlines() if line.startswith("  ") and line.split()}
    for command in COMMANDS:
        assert listed[command].endswith("."), listed[command]
        assert "..." not in listed[command]


def test_the_help_names_the_exit_codes() -> None:
    output = " ".join(runner.invoke(cli.app, ["--help"]).output.split())

    assert "0 done, 2 invalid input, 3 cannot restore, 4 superseded by another owner, 5 failed" in output


def test_no_command_at_all_shows_the_help() -> None:
    assert "Commands:" in runner.invoke(cli.app, []).output


def test_the_version_is_the_packages() -> None:
    result = runner.invoke(cli.app, ["--version"])

    assert result.output == f"streamjob {metadata.version('streamjob')}\n"


def test_an_unknown_command_is_invalid_input_and_names_the_nearest() -> None:
    result = runner.invoke(cli.app, ["statis"])

    assert result.exit_code == 2
    assert "status" in result.stderr


@pytest.mark.parametrize("error", [InvalidInput, CannotRestore, Superseded, JobFailed, StreamJobError])
def test_an_error_for_the_user_is_a_message_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, error: type[StreamJobError]
) -> None:
    def plan() -> None:
        raise error("the job 'x' is wrong", "Make it right.")

    _command(monkeypatch, "plan", plan)

    result = runner.invoke(cli.app, ["plan"])

    assert result.exit_code == error.exit_code
    assert result.stdout == ""
    assert result.stderr == "error: the job 'x' is wrong\n  fix: Make it right.\n"


def test_a_lazy_function_gets_its_arguments_and_its_own_help(monkeypatch: pytest.MonkeyPatch) -> None:
    def validate(file: Path, strict: bool = False) -> None:
        """Check a file for its own sake."""
        typer.echo(f"{file} {strict}")

    _command(monkeypatch, "validate", validate)

    assert runner.invoke(cli.app, ["validate", "job.yaml", "--strict"]).output == "job.yaml True\n"
    assert "for its own sake" in runner.invoke(cli.app, ["validate", "--help"]).output
    assert runner.invoke(cli.app, ["validate"]).exit_code == 2


def test_a_lazy_app_brings_its_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = typer.Typer()

    @snapshots.command("list")
    def list_them() -> None:
        raise CannotRestore("corrupt")

    @snapshots.command()
    def show() -> None:
        typer.echo("shown")

    _command(monkeypatch, "snapshots", snapshots)

    assert runner.invoke(cli.app, ["snapshots", "show"]).output == "shown\n"
    assert runner.invoke(cli.app, ["snapshots", "list"]).exit_code == 3


class EntryPoint:
    """An entry point whose loading fails or succeeds."""

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome

    def load(self) -> Any:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def _entry_point(monkeypatch: pytest.MonkeyPatch, *found: EntryPoint) -> None:
    def entry_points(group: str, name: str) -> tuple[EntryPoint, ...]:
        assert (group, name) == ("streamjob.commands", "run")
        return found

    monkeypatch.setattr(metadata, "entry_points", entry_points)


def test_a_command_of_an_extra_comes_from_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(file: Path) -> None:
        typer.echo(f"running {file}")

    _entry_point(monkeypatch, EntryPoint(run))

    assert runner.invoke(cli.app, ["run", "job.yaml"]).output == "running job.yaml\n"


def test_a_missing_extra_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _entry_point(monkeypatch, EntryPoint(ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql")))

    result = runner.invoke(cli.app, ["run", "job.yaml"])

    assert result.exit_code == 2
    assert "`streamjob run` needs the extra 'runtime': there is no module 'pyspark'" in result.stderr
    assert "pip install 'streamjob[runtime]'" in result.stderr


def test_a_module_of_ours_that_is_missing_is_a_defect_and_no_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _entry_point(monkeypatch, EntryPoint(ModuleNotFoundError("gone", name="streamjob_runtime.gone")))

    assert isinstance(runner.invoke(cli.app, ["run", "job.yaml"]).exception, ModuleNotFoundError)


def test_a_command_without_an_entry_point_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _entry_point(monkeypatch)

    assert "not installed" in runner.invoke(cli.app, ["run", "job.yaml"]).stderr


def test_the_entry_point_of_run_is_declared() -> None:
    (entry,) = metadata.entry_points(group="streamjob.commands", name="run")

    assert entry.value == "streamjob_runtime.process.cli:run"


def test_a_defect_ends_a_process_as_failed(tmp_path: Path) -> None:
    script = (
        "import streamjob.cli.main as cli\n"
        "def broken(*a, **k): raise ZeroDivisionError('a defect')\n"
        "cli.app = broken\n"
        "cli.main()\n"
    )

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert ended.returncode == 5
    assert "ZeroDivisionError: a defect" in ended.stderr


def test_the_help_does_not_load_what_it_does_not_need(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "sys.argv = ['streamjob', '--help']\n"
        "from streamjob.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    slow = {'httpx', 'pydantic', 'yaml', 'sqlglot', 'rich', 'boto3', 'pyspark', 'fastapi'}\n"
        "    assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    )

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert (ended.returncode, ended.stderr) == (0, "")
