"""A driver is ready while its job runs or ends in order: Kubernetes warns of every probe that fails."""

from __future__ import annotations

import pytest

from streamjob.protocol.lifecycle import JobState, Lifecycle
from streamjob_runtime.control.running_job import readiness

READY = {JobState.RUNNING, JobState.FINISHING, JobState.STOPPING, JobState.STOPPED, JobState.FINISHED}


@pytest.mark.parametrize("state", JobState)
def test_a_job_that_runs_or_ends_in_order_is_ready_and_another_says_why_not(state: JobState) -> None:
    assert readiness(Lifecycle(state, 0)) == ((True, "") if state in READY else (False, f"the job is {state}"))


def test_a_job_stays_ready_through_a_restart_that_was_planned_and_not_through_its_failure() -> None:
    planned = Lifecycle(JobState.RUNNING, 0).enter(JobState.RESTARTING, 1, planned=True)
    restoring = planned.enter(JobState.RESTORING, 2)
    assert (readiness(planned), readiness(restoring)) == ((True, ""), (True, ""))

    failed = restoring.enter(JobState.RESTARTING, 3)
    assert readiness(failed) == (False, "the job is RESTARTING")
    assert readiness(failed.enter(JobState.RESTORING, 4)) == (False, "the job is RESTORING")
    assert readiness(restoring.enter(JobState.RUNNING, 3).enter(JobState.RESTARTING, 4))[0] is False
