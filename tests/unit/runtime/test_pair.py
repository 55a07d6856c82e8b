"""Of two processes of a job one runs it, and the other one continues it if the first one dies."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.stored.job import Job

from streamjob.protocol.restarts import RestartPolicy, Restarts
from streamjob_runtime.process.lock import RunningLock
from streamjob_runtime.process.pair import Established, Pair

KILLED = -9


@dataclass
class Process:
    """A process that ends when the test says so, or when it is asked to."""

    world: World
    standby: bool
    begun: int
    ended: int | None = None
    asked: int = 0

    def code(self) -> int | None:
        return self.ended

    def is_established(self) -> bool:
        return self.world.established

    def terminate(self) -> None:
        self.asked += 1
        self.ended = 0


@dataclass
class World:
    """A pair whose time passes with each look; `script` has what happens at which look."""

    script: dict[int, Callable[[], None]] = field(default_factory=dict)
    established: bool = True
    has_ended: bool = False
    attempts: int = 10
    started: list[Process] = field(default_factory=list)
    looks: int = 0

    def __post_init__(self) -> None:
        self.pair = Pair(
            self._start,
            lambda: self.has_ended,
            lambda: self.looks * 0.1,
            self._sleep,
            Restarts(RestartPolicy(initial_delay=1, multiplier=1.5, attempts=self.attempts)),
        )

    def _start(self, standby: bool) -> Process:
        self.started.append(Process(self, standby, self.looks))
        return self.started[-1]

    def _sleep(self, seconds: float) -> None:
        self.looks += 1
        assert self.looks < 10_000, "the pair does not end"
        self.script.get(self.looks, lambda: None)()

    def loses_first(self) -> None:
        """The first process is killed, and the one that takes over has no checkpoint yet."""
        self.established = False
        self.ends(0, KILLED)()

    def ends(self, number: int, code: int, *, on_purpose: bool = True) -> Callable[[], None]:
        def end() -> None:
            self.has_ended = on_purpose and code >= 0
            self.started[number].ended = code

        return end


def test_the_standby_starts_once_the_job_could_be_continued() -> None:
    world = World(established=False)
    world.script = {5: lambda: setattr(world, "established", True), 9: world.ends(0, 0)}

    assert world.pair.run() == 0
    assert [each.standby for each in world.started] == [False, True]


def test_the_standby_continues_a_killed_job_and_gets_a_standby_of_its_own() -> None:
    world = World()
    world.script = {5: world.ends(0, KILLED), 50: world.ends(1, 0)}

    assert world.pair.run() == 0
    assert [each.standby for each in world.started] == [False, True, True]
    assert world.started[2].asked == 1


@pytest.mark.parametrize("code", [0, 2, 3, 4, 5])
def test_a_job_that_has_ended_is_not_continued(code: int) -> None:
    world = World()
    world.script = {5: world.ends(0, code)}

    assert world.pair.run() == code
    assert len(world.started) == 2
    assert world.started[1].asked == 1


def test_a_process_that_ends_without_ending_the_job_is_continued() -> None:
    world = World()
    world.script = {5: world.ends(0, 5, on_purpose=False), 30: world.ends(1, 0)}

    assert world.pair.run() == 0


def test_a_job_that_dies_before_its_first_checkpoint_has_failed() -> None:
    world = World(established=False)
    world.script = {5: world.ends(0, KILLED)}

    assert world.pair.run() == 5
    assert len(world.started) == 1


def test_a_stop_ends_the_standby_first_and_returns_the_code_of_the_job() -> None:
    world = World()
    world.script = {5: world.pair.stop}

    assert world.pair.run() == 0
    assert [each.asked for each in world.started] == [1, 1]


def test_processes_that_die_again_and_again_are_replaced_a_limited_number_of_times() -> None:
    world = World(attempts=3)
    world.script = {
        look: (lambda: setattr(world.pair.running, "ended", KILLED)) for look in itertools.chain(range(10, 9000, 100))
    }

    assert world.pair.run() == 5
    assert len(world.started) == 5


def test_a_standby_that_dies_is_replaced_after_a_delay() -> None:
    world = World()
    world.script = {5: world.ends(1, KILLED), 6: lambda: None, 40: world.ends(0, 0)}

    assert world.pair.run() == 0
    assert len(world.started) == 3


def test_the_next_standby_waits_for_a_checkpoint_of_the_process_that_took_over() -> None:
    world = World()
    world.script = {5: world.loses_first, 50: lambda: setattr(world, "established", True), 60: world.ends(1, 0)}

    assert world.pair.run() == 0
    assert [each.begun for each in world.started] == [0, 0, 50]


def test_a_process_that_dies_before_the_next_standby_has_started_is_continued() -> None:
    world = World()
    world.script = {5: world.loses_first, 9: world.ends(1, KILLED), 90: world.ends(2, 0)}

    assert world.pair.run() == 0
    assert [each.standby for each in world.started] == [False, True, True]


def test_a_process_is_established_by_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    now = [0.0]
    job = Job(tmp_path / "location")
    job.complete(1, *job.upload(state=b"before"))
    job.claim_log()
    established = Established(job.store, job.job, job.claims[-1].identity.owner, lambda: now[0])
    assert not established()

    now[0] = 10.0
    job.complete(2, *job.upload(state=b"after"))
    assert established()


def test_the_log_is_not_looked_at_again_at_once(tmp_path: Path) -> None:
    now = [1.0]
    job = Job(tmp_path / "location")
    established = Established(job.store, job.job, job.claims[-1].identity.owner, lambda: now[0])
    assert not established()
    job.complete(1, *job.upload(state=b"state"))
    assert not established()
    now[0] = 10.0
    assert established()


def test_the_note_of_an_ended_job_stays_until_the_next_one_begins(tmp_path: Path) -> None:
    lock = RunningLock(tmp_path)
    lock.acquire()
    lock.begin()
    assert not RunningLock(tmp_path).has_ended()
    lock.end()

    other = RunningLock(tmp_path)
    assert other.acquire()
    assert other.has_ended()
    other.begin()
    assert not other.has_ended()
