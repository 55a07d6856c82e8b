"""A job is killed, gets a signal or loses its work directory: it ends at once, and its output is that of a batch."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.processes import POLL, WITHIN, JobRuns, java_of
from tests.integration.runtime.purchases import Rows, line_rows, table_rows

from streamjob.errors import ExitCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [7])
def test_killed_at_random_moments_the_output_is_that_of_the_batch(
    runs: JobRuns, expected: Rows, spark: SparkSession, seed: int
) -> None:
    chance = random.Random(seed)
    directory = runs.file.parent

    for life in range(3):
        epoch, before = runs.epoch(), runs.furthest()
        process = runs.start()
        if life == 1:
            # During the restore: as soon as the log is claimed, and while Spark starts.
            runs.wait_for_claim(epoch, process)
            time.sleep(chance.uniform(0, 4))
        else:
            runs.wait_for_progress(before, process)
            time.sleep(chance.uniform(0, 1.5))
        process.kill()

    last = runs.start()
    assert last.wait() == 0, last.output()
    assert runs.records()[-1].kind == "final"
    assert table_rows(spark, directory / "table") == expected
    assert line_rows(spark, directory / "lines") == expected


@pytest.mark.timeout(600)
def test_a_group_that_is_ended_takes_a_last_checkpoint_and_a_killed_driver_leaves_no_java(runs: JobRuns) -> None:
    stopped = runs.start()
    runs.wait_for_progress(-1, stopped)
    os.killpg(stopped.pid, signal.SIGTERM)

    assert stopped.wait() == 0, stopped.output()
    assert "without a last checkpoint" not in stopped.output()
    assert "Traceback" not in stopped.output()
    assert "STOPPED" in stopped.output()

    before = runs.furthest()
    killed = runs.start()
    runs.wait_for_progress(before, killed)
    java = Path(f"/proc/{java_of(killed)}")
    killed.send(signal.SIGKILL)
    killed.wait()

    deadline = time.monotonic() + WITHIN
    while java.exists():
        assert time.monotonic() < deadline, "Java has not ended"
        time.sleep(POLL)


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
