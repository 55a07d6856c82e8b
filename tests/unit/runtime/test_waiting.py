"""A process that waits for the request to start says how far it is, and takes the request."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tests.unit.runtime.fake_runtime import NOW
from tests.unit.runtime.three_chains import JobOfThreeChains

from streamjob.client.models import JobView
from streamjob.protocol.lifecycle import JobState, Lifecycle
from streamjob_runtime.control.running_job import RunningJob
from streamjob_runtime.control.start_gate import StartGate


def view(control: RunningJob) -> JobView:
    return control.job()


def test_a_waiting_job_is_alive_and_not_ready_and_takes_the_request_to_start_twice(tmp_path: Path) -> None:
    gate = StartGate(is_open=False)
    job = JobOfThreeChains(tmp_path)
    job.coordination._lifecycle = Lifecycle.created(NOW)
    control = RunningJob(cast(Any, job.runner), gate=gate)

    assert (view(control).state, view(control).waiting) == (JobState.CREATED, "preparing")
    gate.prepared()
    assert view(control).waiting == "prepared"
    assert (control.healthy()[0], control.ready()[0]) == (True, False)
    assert control.diagnosis().sentence.startswith("Prepared, and waiting for the request to start")
    control.start()
    control.start()
    assert view(control).waiting is None


def test_a_job_that_starts_by_itself_waits_for_nothing(tmp_path: Path) -> None:
    control = RunningJob(cast(Any, JobOfThreeChains(tmp_path).runner))

    control.start()

    assert view(control).waiting is None
