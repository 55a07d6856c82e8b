"""A driver tells from how its helper ended whether there is a checkpoint to continue from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamjob.errors import ExitCode
from streamjob_runtime.process.on_one_disk import CannotRearrange, NotRearranged, succeeded


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
