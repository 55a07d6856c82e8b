"""A process that stands by, or waits to be started, keeps the newest checkpoint's files, and continues in its turn."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.stored.job import Job

from streamjob.errors import ProcessUnfit
from streamjob.snapshot.record import RecordKind
from streamjob_runtime.control.start_gate import StartGate
from streamjob_runtime.process.lock import RunningLock
from streamjob_runtime.process.prepared import PreparedProcess, stand_by, wait_for_start
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


class Prepared(PreparedProcess):
    """A process whose first steps need no Spark; it notes them."""

    def __init__(self, files: FilesAtHand, unfit: ProcessUnfit | None = None) -> None:
        nothing, spark = cast(Any, None), cast(Any, SimpleNamespace(unfit=lambda: unfit))
        super().__init__(nothing, nothing, nothing, spark, nothing, files, nothing)
        self.steps: list[str] = []

    def check(self) -> None:
        self.steps.append("check")

    def rehearse(self) -> None:
        self.steps.append("rehearse")


def contents(files: FilesAtHand) -> dict[str, bytes]:
    directory = files.directory
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_only_one_process_holds_the_lock_of_a_work_directory(tmp_path: Path) -> None:
    first, second = RunningLock(tmp_path), RunningLock(tmp_path)

    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()


def test_it_waits_for_the_lock_and_keeps_the_checkpoint_at_hand_meanwhile(
    job: Job, files: FilesAtHand, tmp_path: Path
) -> None:
    job.complete(1, *job.upload(state=b"one"))
    other, lock = RunningLock(tmp_path), RunningLock(tmp_path)
    other.acquire()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            other.release()

    Prepared(files).wait(lock.acquire, sleep)

    assert len(waits) == 3
    assert contents(files) == {"report/state": b"one"}
    assert not RunningLock(tmp_path).acquire()


def test_a_process_that_could_not_run_the_job_waits_no_longer_and_leaves_the_lock_to_others(
    files: FilesAtHand, tmp_path: Path
) -> None:
    with pytest.raises(ProcessUnfit, match="Java is gone"):
        stand_by(Prepared(files, ProcessUnfit("Java is gone")), RunningLock(tmp_path))

    assert RunningLock(tmp_path).acquire()


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_standby_rehearses_and_continues_a_job_unless_it_has_ended(
    files: FilesAtHand, tmp_path: Path, has_ended: bool
) -> None:
    other, process = RunningLock(tmp_path), Prepared(files)
    other.acquire()
    (other.end if has_ended else other.release)()

    assert stand_by(process, RunningLock(tmp_path)) is not has_ended
    assert process.steps == ["rehearse"]


def test_there_is_nothing_at_hand_before_the_first_checkpoint(files: FilesAtHand) -> None:
    assert files.refresh() is None
    assert not files.directory.exists()


def test_the_files_are_those_of_the_newest_checkpoint_and_no_others(job: Job, files: FilesAtHand) -> None:
    common = job.upload(common=b"c" * 100)
    job.complete(1, *common, *job.upload(own=b"one"))
    assert files.refresh() == 1
    before = (files.directory / "report/common").stat().st_ino
    job.complete(2, *common, *job.upload(other=b"two"))

    assert files.refresh() == 2

    assert contents(files) == {"report/common": b"c" * 100, "report/other": b"two"}
    assert (files.directory / "report/common").stat().st_ino == before, "it was downloaded again"
    assert files.refresh() is None


def test_a_savepoint_is_a_checkpoint_to_it(job: Job, files: FilesAtHand) -> None:
    job.savepoint(1, b"saved")

    assert files.refresh() == 1
    assert contents(files) == {"report/state": b"saved"}


def test_a_store_that_fails_does_not_end_the_wait(job: Job, files: FilesAtHand, tmp_path: Path) -> None:
    job.complete(1, *job.upload(state=b"one"), kind=RecordKind.CHECKPOINT)
    job.own_object(1).unlink()
    other, lock = RunningLock(tmp_path), RunningLock(tmp_path)
    other.acquire()

    Prepared(files).wait(lock.acquire, lambda seconds: other.release())

    assert not files.directory.exists()


def test_it_is_prepared_once_the_newest_checkpoint_is_at_hand(job: Job, files: FilesAtHand) -> None:
    job.complete(1, *job.upload(state=b"one"))
    gate, process = StartGate(is_open=False), Prepared(files)
    before = gate.waiting
    seen = before
    waiter = threading.Thread(target=wait_for_start, args=(process, gate, lambda: False))
    waiter.start()

    while seen != "prepared":
        assert waiter.is_alive()
        waiter.join(0.01)
        seen = gate.waiting
    gate.open()
    waiter.join(30)

    assert before == "preparing"
    assert process.steps == ["check", "rehearse"]
    assert not waiter.is_alive()
    assert gate.waiting is None
    assert [path.read_bytes() for path in files.directory.rglob("*") if path.is_file()] == [b"one"]


def test_a_job_without_a_checkpoint_is_waited_for_as_well(files: FilesAtHand) -> None:
    gate = StartGate(is_open=False)

    def told_once_prepared() -> bool:
        if gate.waiting == "prepared":
            gate.open()
        return False

    assert wait_for_start(Prepared(files), gate, told_once_prepared)


def test_a_stop_ends_the_wait(files: FilesAtHand) -> None:
    assert not wait_for_start(Prepared(files), StartGate(is_open=False), lambda: True)


def test_a_process_that_was_told_early_starts_at_once(files: FilesAtHand) -> None:
    gate, process = StartGate(is_open=False), Prepared(files)
    gate.open()

    assert wait_for_start(process, gate, lambda: True)
    assert not process.steps
