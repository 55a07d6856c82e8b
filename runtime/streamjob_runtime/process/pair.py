"""Runs a job in one process, and keeps a second one ready that continues it if the first one dies."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Protocol

from streamjob.errors import ExitCode
from streamjob.ids import Owner
from streamjob.protocol.log.records import JobId, read
from streamjob.protocol.restarts import WITHIN_A_PROCESS, GiveUp, Restarts
from streamjob.store.base import Store, StoreError
from streamjob.store.effects import drive
from streamjob_runtime.process import child
from streamjob_runtime.process.lock import RunningLock
from streamjob_runtime.process.run import ProcessOptions, load, place_of
from streamjob_runtime.process.termination import VARIABLE

_LOOK_SECONDS = 0.1
_LOG_SECONDS = 2.0
_END_SECONDS = 10.0

log = logging.getLogger("streamjob")


class Member(Protocol):
    """One of the two processes."""

    def code(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        ...

    def is_established(self) -> bool:
        """Return whether it has completed a checkpoint."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""
        ...


@dataclass
class Pair:
    """The decisions about the two processes; `run` returns the exit code of the job.

    Args:
        start: starts a process; with True, one that stands by.
        has_ended: whether the last process that ran the job came to an end that no other process should continue.
        clock: seconds.
        sleep: waits a number of seconds.
        restarts: how often, and after which delays, a process that died is replaced.
    """

    start: Callable[[bool], Member]
    has_ended: Callable[[], bool]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    restarts: Restarts
    stopping: bool = False
    running: Member | None = None
    standby: Member | None = None

    def run(self) -> int:
        """Run the job to its end."""
        self.running = self.start(False)
        next_start = self.clock()
        was_established = False
        while True:
            code = self.running.code()
            if code is None:
                if self.standby is not None and self.standby.code() is not None:
                    self.standby = None
                    next_start = self._after_death("The standby has ended")
                # A process that starts takes the processors that the running one needs until it has caught up.
                if self.standby is None and self._may_start(next_start) and self.running.is_established():
                    was_established = True
                    self.standby = self.start(True)
                self.sleep(_LOOK_SECONDS)
                continue
            if was_established and not self.stopping and (code < 0 or not self.has_ended()):
                next_start = self._after_death(f"The process that ran the job has ended with {code}")
                successor = self.standby or self._start_late(next_start)
                if successor is not None:
                    self.running, self.standby = successor, None
                    continue
            self._end_standby()
            return code if code >= 0 else int(ExitCode.FAILED)

    def stop(self) -> None:
        """Stop the job with a last checkpoint; the second call ends it at once."""
        self.stopping = True
        for member in (self.standby, self.running):
            if member is not None:
                member.terminate()

    def _after_death(self, message: str) -> float:
        """Return when the next process may start."""
        log.warning(message)
        self.restarts, decision = self.restarts.after_failure(self.clock(), random.random)
        return float("inf") if isinstance(decision, GiveUp) else decision.time

    def _may_start(self, next_start: float) -> bool:
        return not self.stopping and self.clock() >= next_start

    def _start_late(self, next_start: float) -> Member | None:
        """Start the process that continues the job when none stands by; None if none may."""
        while next_start != float("inf") and not self.stopping:
            if self._may_start(next_start):
                return self.start(True)
            self.sleep(_LOOK_SECONDS)
        return None

    def _end_standby(self) -> None:
        if self.standby is None:
            return
        deadline = self.clock() + _END_SECONDS
        while self.standby.code() is None and self.clock() < deadline:
            self.standby.terminate()
            self.sleep(_LOOK_SECONDS)


class _Child:
    def __init__(self, options: ProcessOptions, ended: Path, is_established: Callable[[], bool]) -> None:
        self.ended = ended
        self.is_established = is_established
        self._process = child.start(options, ended, os.environ)

    def code(self) -> int | None:
        return self._process.poll()

    def terminate(self) -> None:
        self._process.terminate()


def run_pair(options: ProcessOptions) -> int:
    """Run a job in one process, with a second one that stands by; return the exit code.

    The standby starts behind the first checkpoint of the process that runs the job, and continues from the newest one.

    Raises:
        InvalidInput: the job or an option cannot be used.
    """
    place = place_of(options, load(options))
    store = place.location.store()
    lock = RunningLock(place.work)
    scratch = Path(tempfile.mkdtemp(prefix="streamjob-pair-"))
    members: list[_Child] = []

    def start(standby: bool) -> Member:
        owner = Owner(uuid.uuid4().hex)
        ready = replace(options, owner=owner)
        if standby:
            ready = replace(ready, standby=True, wait_for_start=False, restore_from="latest", require_snapshot=True)
        established = Established(store, place.job, owner, time.monotonic)
        members.append(_Child(ready, scratch / f"ended-{len(members)}", established))
        return members[-1]

    pair = Pair(
        start,
        lock.has_ended,
        time.monotonic,
        time.sleep,
        Restarts(WITHIN_A_PROCESS),
    )
    try:
        with _signals(pair.stop):
            code = pair.run()
        last = next(each for each in members if each is pair.running)
        if (told := os.environ.get(VARIABLE)) and last.ended.exists():
            shutil.copyfile(last.ended, told)
        return code
    finally:
        store.close()
        shutil.rmtree(scratch, ignore_errors=True)


class Established:
    """Tells whether a process has completed a checkpoint; once true, it is true for good.

    Args:
        store: the store at the job's root.
        clock: seconds.
    """

    def __init__(self, store: Store, job: JobId, owner: Owner, clock: Callable[[], float]) -> None:
        self._store = store
        self._job = job
        self._owner = owner
        self._clock = clock
        self._next_look = 0.0
        self._is = False

    def __call__(self) -> bool:
        """Return it; the log is read every two seconds at most."""
        if self._is or self._clock() < self._next_look:
            return self._is
        self._next_look = self._clock() + _LOG_SECONDS
        try:
            newest = drive(self._store, read(self._job, checkpoints=1)).newest
        except StoreError as error:
            log.debug("The log cannot be read now: %s", error.what)
            return False
        self._is = newest is not None and newest.owner == self._owner
        return self._is


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    def on_signal(number: int, frame: FrameType | None) -> None:
        stop()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, on_signal) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
