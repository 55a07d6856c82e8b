"""A process that waits to be told to start keeps the newest checkpoint at hand, and says how far it is."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.runtime.fake_runtime import NOW
from tests.unit.runtime.test_running_job import JobOfThreeChains
from tests.unit.stored.job import Job

from streamjob.client.models import JobView
from streamjob.protocol.lifecycle import JobState, Lifecycle
from streamjob_runtime.control.running_job import RunningJob
from streamjob_runtime.control.start_gate import StartGate
from streamjob_runtime.process.waiting import wait_until_told
from streamjob_runtime.restoring.at_hand import FilesAtHand


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "location")


@pytest.fixture
def files(job: Job, tmp_path: Path) -> FilesAtHand:
    return FilesAtHand(job.store, job.job, tmp_path / "at-hand")


def view(control: RunningJob) -> JobView:
    return control.job()


def test_it_is_prepared_once_the_newest_checkpoint_is_at_hand(job: Job, files: FilesAtHand) -> None:
    job.complete(1, *job.upload(state=b"one"))
    gate = StartGate(is_open=False)
    before = gate.waiting
    seen = before
    waiter = threading.Thread(target=wait_until_told, args=(gate, files, lambda: False))
    waiter.start()

    while seen != "prepared":
        assert waiter.is_alive()
        waiter.join(0.01)
        seen = gate.waiting
    gate.open()
    waiter.join(30)

    assert before == "preparing"
    assert not waiter.is_alive()
    assert gate.waiting is None
    assert [path.read_bytes() for path in files.directory.rglob("*") if path.is_file()] == [b"one"]


def test_a_job_without_a_checkpoint_is_waited_for_as_well(files: FilesAtHand) -> None:
    gate = StartGate(is_open=False)

    def told_once_prepared() -> bool:
        if gate.waiting == "prepared":
            gate.open()
        return False

    assert wait_until_told(gate, files, told_once_prepared)


def test_a_stop_ends_the_wait(files: FilesAtHand) -> None:
    assert not wait_until_told(StartGate(is_open=False), files, lambda: True)


def test_a_process_that_was_told_early_starts_at_once(files: FilesAtHand) -> None:
    gate = StartGate(is_open=False)
    gate.open()

    assert wait_until_told(gate, files, lambda: True)


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
