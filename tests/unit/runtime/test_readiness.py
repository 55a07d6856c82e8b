"""A driver is ready while its job runs or ends in order: Kubernetes warns of every probe that fails."""

from __future__ import annotations

import pytest

from streamjob.protocol.lifecycle import JobState
from streamjob_runtime.control.running_job import readiness

READY = {JobState.RUNNING, JobState.FINISHING, JobState.STOPPING, JobState.STOPPED, JobState.FINISHED}


@pytest.mark.parametrize("state", JobState)
def test_a_job_that_runs_or_ends_in_order_is_ready_and_another_says_why_not(state: JobState) -> None:
    assert readiness(state) == ((True, "") if state in READY else (False, f"the job is {state}"))
