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
def test_a_standby_continues_a_killed_job_and_not_one_that_was_stopped(
    runs: JobRuns, expected: Rows, spark: SparkSession
) -> None:
    directory = runs.file.parent
    killed = runs.start()
    runs.wait_for_progress(-1, killed)
    # It sleeps, and does not come to its end before the other one is ready.
    killed.stop()
    standby = runs.start("--standby")
    wait_until_ready(runs, standby)
    epoch, before = runs.epoch(), runs.furthest()
    killed.kill()
    runs.wait_for_claim(epoch, standby)
    runs.wait_for_progress(before, standby)

    stopped = standby
    stopped.stop()
    standby = runs.start("--standby")
    wait_until_ready(runs, standby)
    epoch = runs.epoch()
    stopped.wake()
    stopped.send(signal.SIGTERM)
    assert stopped.wait() == 0, stopped.output()
    assert standby.wait() == 0, standby.output()
    assert runs.epoch() == epoch

    last = runs.start()
    assert last.wait(300) == 0, last.output()
    assert runs.records()[-1].kind == "final"
    assert table_rows(spark, directory / "table") == expected
    assert line_rows(spark, directory / "lines") == expected
