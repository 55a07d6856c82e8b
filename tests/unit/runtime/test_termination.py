"""The record that a process leaves about its end."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.client.models import LastCheckpointView, SnapshotKind
from streamjob.errors import CannotRestore, ExitCode, InvalidInput, Superseded
from streamjob.ids import CheckpointId
from streamjob.protocol.lifecycle import JobState
from streamjob.store.base import AccessDenied
from streamjob_runtime.process.run import ProcessOptions, run_process
from streamjob_runtime.process.signals import Stopper
from streamjob_runtime.process.termination import LONGEST, TerminationLog, termination_message


@pytest.mark.parametrize(
    ("error", "state", "code", "named"),
    [
        (InvalidInput("no job"), "FAILED", 2, "InvalidInput"),
        (CannotRestore("no state"), "FAILED", 3, "CannotRestore"),
        (AccessDenied("cannot put"), "FAILED", 5, "AccessDenied"),
        (Superseded("another owner"), "SUPERSEDED", 4, None),
        (ValueError("boom"), "FAILED", 5, None),
    ],
)
def test_every_error_says_its_state_and_its_exit_code(
    tmp_path: Path, error: Exception, state: str, code: int, named: str | None
) -> None:
    TerminationLog(tmp_path / "log").write_error(error)

    said = json.loads((tmp_path / "log").read_text())
    assert (said["state"], said["exitCode"]) == (state, code)
    assert said.get("error") == named
    assert str(error) in said["message"]


def test_a_job_that_cannot_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMJOB_TERMINATION_LOG", str(tmp_path / "log"))

    with pytest.raises(InvalidInput):
        run_process(ProcessOptions(file=tmp_path / "missing.yaml"))

    said = json.loads((tmp_path / "log").read_text())
    assert said["exitCode"] == 2
    assert "missing.yaml" in said["message"]


@pytest.mark.parametrize("letter", ["x", "ü", "\n", "🌊"])
def test_a_long_message_is_shortened_to_what_kubernetes_keeps(letter: str) -> None:
    text = termination_message(JobState.FAILED, letter * 9000, ExitCode.FAILED)

    assert len(text.encode()) <= LONGEST
    assert 500 < len(json.loads(text)["message"]) < 9000


@pytest.mark.parametrize(("available_now", "code"), [(False, 0), (True, 6)])
def test_a_process_that_leaves_at_the_end_of_its_grace_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available_now: bool, code: int
) -> None:
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    view = SimpleNamespace(close=lambda: None)
    stopped = ExitCode.of_stop(available_now=available_now)
    stopper = Stopper(cast("Any", None), cast("Any", view), 1.0, TerminationLog(tmp_path / "log"), stopped)

    stopper._leave()

    said = json.loads((tmp_path / "log").read_text())
    assert (said["state"], said["exitCode"], left) == ("STOPPED", code, [code])
    assert "without a last checkpoint" in said["message"]


def test_a_file_that_cannot_be_written_does_not_change_how_the_process_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "streamjob"):
        TerminationLog(tmp_path / "no" / "log").write(JobState.FINISHED, None, ExitCode.OK)

    assert "cannot be written" in caplog.text


def test_outside_a_pod_nothing_is_left(tmp_path: Path) -> None:
    TerminationLog.from_environment({}).write(JobState.FINISHED, None, ExitCode.OK)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [ExitCode.OK, ExitCode.INTERRUPTED])
def test_a_process_that_is_told_to_stop_before_its_job_runs_has_stopped_as_asked(
    tmp_path: Path, code: ExitCode
) -> None:
    program = (
        "import os, time; from streamjob_runtime.process.termination import TerminationLog, leave_on_sigterm;"
        f"leave_on_sigterm(TerminationLog.from_environment(os.environ), {int(code)}); print(flush=True); time.sleep(60)"
    )
    environment = os.environ | {"STREAMJOB_TERMINATION_LOG": str(tmp_path / "log")}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()

    process.terminate()

    assert process.wait(30) == code
    process.stdout.close()
    said = json.loads((tmp_path / "log").read_text())
    assert (said["state"], said["exitCode"]) == ("STOPPED", code)


def test_what_was_completed_last_is_left_too(tmp_path: Path) -> None:
    last = LastCheckpointView(
        id=CheckpointId(7), kind=SnapshotKind.SAVEPOINT, triggered=1, completed=2.5, duration_ms=1,
        checkpointed_size=1, state_size=1, path="s3://bucket/savepoints/a-7/manifest.json",
    )  # fmt: skip
    TerminationLog(tmp_path / "log").write(JobState.STOPPED, "x" * 9000, ExitCode.OK, last)

    text = (tmp_path / "log").read_text()
    assert len(text.encode()) <= LONGEST
    assert json.loads(text)["lastCheckpoint"] == {
        "id": 7, "kind": "savepoint", "path": "s3://bucket/savepoints/a-7/manifest.json", "time": 2.5,
    }  # fmt: skip
