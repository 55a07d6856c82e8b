"""Every command of `streamjob` that a document shows is one that the command line takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.documents import ROOT, Command, commands
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command
from typer.testing import CliRunner

from streamjob.cli.main import app

COMMANDS = sorted(set(commands()), key=str)
_EXAMPLES = {"…": "x", "...": "x", "ID": "1", "NUMBER": "1", "N": "1"}
_ALONE = {"validate", "plan"}
_OF_A_RUNNING_JOB = {"status", "checkpoint", "savepoint", "stop"}


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 60
    assert {each.words[0] for each in COMMANDS if each.whole} >= {
        *_ALONE,
        "stop",
        "savepoint",
        "run",
        "check",
        "snapshots",
    }


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_the_command_line_takes(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [_example(word) for word in command.words]
    for word in words:
        if re.fullmatch(r"[\w-]+\.(yaml|sql|py)|FILE", word):
            (tmp_path / word).touch()

    parse(words, whole=command.whole)


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if each.whole and each.words[0] in _ALONE and "-f" not in each.words], ids=str
)
def test_a_command_that_needs_no_job_does_what_it_says(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "reference" / "job-file.md").read_text(), re.DOTALL)[0]
    (tmp_path / "data" / "flights").mkdir(parents=True)
    for name in (word for word in command.words if word.endswith(".yaml")):
        (tmp_path / name).write_text(job)
    page = (ROOT / "docs" / "how-to" / "write-a-job-in-sql.md").read_text()
    for name in (word for word in command.words if word.endswith(".sql")):
        (tmp_path / name).write_text(re.findall(r"```sql\n(.*?)```", page, re.DOTALL)[0])
    monkeypatch.chdir(tmp_path)

    ended = CliRunner().invoke(app, [*command.words])

    assert ended.exit_code == 0, ended.output


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if each.whole and each.words[0] in _OF_A_RUNNING_JOB], ids=str
)
def test_a_command_for_a_running_job_says_that_there_is_none(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    ended = CliRunner().invoke(app, [_example(word) for word in command.words])

    assert (ended.exit_code, "no job is running" in ended.output) == (2, True), ended.output


def test_an_option_that_does_not_exist_is_found() -> None:
    with pytest.raises(TyperException, match="No such option"):
        parse(["run", "--no-such-option", "job.yaml"], whole=False)


def parse(words: list[str], *, whole: bool) -> None:
    """Have the command line parse a command, without running it; if not `whole`, arguments may be missing."""
    command: Any = get_command(app)
    context = command.context_class(command, info_name="streamjob")
    while isinstance(command, TyperGroup):
        if not words and not whole:
            return
        name, command, words = command.resolve_command(context, words)
        context = command.context_class(command, info_name=name, parent=context)
    try:
        command.make_context(context.info_name, list(words), parent=context.parent)
    except TyperException as error:
        if whole or "Missing " not in error.format_message():
            raise


def _example(word: str) -> str:
    word = word.strip("[]")
    return _EXAMPLES.get(word, word.replace("…", "x"))
