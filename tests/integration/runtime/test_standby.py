"""A process that stands by continues a killed job exactly where its last checkpoint was."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.processes import JobProcess, JobRuns
from tests.integration.runtime.purchases import Rows, line_rows, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def wait_until_ready(runs: JobRuns, standby: JobProcess) -> None:
    """Wait until a process that stands by has the newest checkpoint at hand."""
    runs.wait(lambda: "is at hand" in standby.output(), "checkpoint at hand", standby)


@pytest.mark.timeout(600)
def test_a_standby_takes_over_from_a_killed_process_and_another_one_from_a_stopped_one(
    runs: JobRuns, expected: Rows, spark: SparkSession
) -> None:
    directory = runs.file.parent
    running = runs.start()
    runs.wait_for_progress(-1, running)
    for is_killed in (True, False):
        # It sleeps, and does not come to its end before the other one is ready.
        running.stop()
        standby = runs.start("--standby")
        wait_until_ready(runs, standby)
        epoch, before = runs.epoch(), runs.furthest()
        if is_killed:
            running.kill()
        else:
            running.wake()
            running.send(signal.SIGTERM)
        runs.wait_for_claim(epoch, standby)
        runs.wait_for_progress(before, standby)
        running = standby

    assert running.wait() == 0, running.output()
    assert runs.records()[-1].kind == "final"
    assert table_rows(spark, directory / "table") == expected
    assert line_rows(spark, directory / "lines") == expected
