"""A process that waits for the request to start says how far it is; a driver is ready while its job runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.runtime.fake_runtime import NOW
from tests.unit.runtime.three_chains import JobOfThreeChains

from streamjob.client.models import JobView
from streamjob.protocol.lifecycle import JobState, Lifecycle
from streamjob_runtime.control.running_job import RunningJob, readiness
from streamjob_runtime.control.start_gate import StartGate


def view(control: RunningJob) -> JobView:
    return control.job()


def test_a_waiting_job_is_alive_and_not_ready_and_takes_the_request_to_start_twice(tmp_path: Path) -> None:
    gate = StartGate(is_open=False)
    job = JobOfThreeChains(tmp_path)
    job.coordination.lifecycle = Lifecycle.created(NOW)
    control = RunningJob(cast(Any, job.runner), gate=gate)

    assert (view(control).state, view(control).waiting) == (JobState.CREATED, "preparing")
    gate.prepared()
    assert view(control).waiting == "prepared"
    assert (control.healthy()[0], control.ready()[0]) == (True, False)
    assert control.diagnosis().sentence.startswith("Prepared, and waiting for the request to start")
    control.gate.open()
    control.gate.open()
    assert view(control).waiting is None


def test_a_job_that_starts_by_itself_waits_for_nothing(tmp_path: Path) -> None:
    control = RunningJob(cast(Any, JobOfThreeChains(tmp_path).runner))

    control.gate.open()

    assert view(control).waiting is None


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
