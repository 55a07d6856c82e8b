"""A process whose work directory is emptied ends at its first failure, and the next one continues."""

from __future__ import annotations

import shutil

import pytest
from tests.integration.runtime.processes import JobRuns

from streamjob.errors import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.timeout(600)
def test_a_job_whose_work_directory_is_emptied_ends_at_once_with_the_cause(runs: JobRuns) -> None:
    work = runs.file.parent / "work"
    first = runs.start()
    runs.wait_for_progress(-1, first)
    epoch, before = runs.epoch(), runs.furthest()

    # It sleeps, and makes no file meanwhile.
    first.stop()
    for each in work.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    first.wake()

    assert first.wait() == ExitCode.FAILED
    assert "of this process was removed while it ran\n  fix: keep whatever cleans up" in first.output()
    assert runs.epoch() == epoch, "it has tried to restart"
    second = runs.start()
    runs.wait_for_progress(before, second)
