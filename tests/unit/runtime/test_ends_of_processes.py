"""How a process ends: without a terminal, with Spark stopped, and with a checkpoint for the next one on its disk."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.errors import ExitCode
from streamjob_runtime.process.on_one_disk import CannotRearrange, NotRearranged, succeeded
from streamjob_runtime.process.watching import Watcher
from streamjob_runtime.spark.holder import SparkHolder
from streamjob_runtime.spark.session import SessionSettings


class HungUp:
    def __init__(self) -> None:
        self.updates = 0

    def update(self, *_: Any) -> None:
        self.updates += 1
        raise OSError(errno.EIO, "Input/output error")

    def close(self) -> None:
        raise OSError(errno.EIO, "Input/output error")


def test_the_end_of_the_job_is_not_hidden_by_a_terminal_that_is_gone() -> None:
    control = SimpleNamespace(
        observe=lambda metrics: None, job=lambda: None, checkpoints=lambda: None, record=lambda *_: None
    )
    view = HungUp()
    watcher = Watcher(cast("Any", control), cast("Any", view), cast("Any", None))
    watcher.start()

    watcher.stop()

    assert view.updates == 1


class StuckJava:
    stdin = SimpleNamespace(close=lambda: None)

    def __init__(self) -> None:
        self.killed = False

    def poll(self) -> None:
        return None

    def wait(self, seconds: float) -> None:
        raise subprocess.TimeoutExpired("java", seconds)

    def kill(self) -> None:
        self.killed = True


def test_a_spark_that_neither_answers_nor_ends_is_killed(tmp_path: Path) -> None:
    process = StuckJava()

    class Context:
        _gateway: Any = SimpleNamespace(proc=process, shutdown=lambda: None)
        _jvm: Any = None

    def stop() -> None:
        raise ConnectionError("Answer from Java side is empty")

    holder = SparkHolder(settings(tmp_path))
    holder._session = cast("Any", SimpleNamespace(sparkContext=Context(), stop=stop))

    holder.stop()

    assert process.killed


def settings(workdir: Path) -> SessionSettings:
    return SessionSettings(name="job", parallelism=1, max_parallelism=1, workdir=workdir)


def ended(directory: Path, **told: object) -> Path:
    file = directory / "ended"
    file.write_text(json.dumps({"state": "STOPPED", "message": "", **told}))
    return file


def test_a_process_that_has_taken_a_checkpoint_has_succeeded(tmp_path: Path) -> None:
    succeeded(ExitCode.OK, ended(tmp_path, lastCheckpoint={"id": 7}))


def test_a_job_that_has_finished_needs_no_other_checkpoint(tmp_path: Path) -> None:
    succeeded(ExitCode.OK, ended(tmp_path, state="FINISHED"))


def test_a_process_that_has_ended_without_a_checkpoint_may_succeed_next_time(tmp_path: Path) -> None:
    with pytest.raises(NotRearranged, match="ended with 0"):
        succeeded(ExitCode.OK, ended(tmp_path))
    with pytest.raises(NotRearranged, match="ended with -9"):
        succeeded(-9, tmp_path / "missing")
    with pytest.raises(NotRearranged, match="the disk is full"):
        succeeded(ExitCode.FAILED, ended(tmp_path, message="the disk is full"))


def test_a_snapshot_that_cannot_be_restored_there_cannot_be_restored_at_all(tmp_path: Path) -> None:
    with pytest.raises(CannotRearrange, match="the state does not fit"):
        succeeded(ExitCode.CANNOT_RESTORE, ended(tmp_path, message="the state does not fit"))
