"""A signal to the process group of a job reaches the driver alone, and Java ends when the driver does."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.integration.runtime.processes import POLL, WITHIN, JobRuns, java_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]


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
