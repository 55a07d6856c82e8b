"""A pair of processes runs its job to the end in any order of events, whichever process is killed at whichever step."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamjob.errors import ExitCode
from streamjob.protocol.restarts import RestartPolicy, Restarts
from streamjob_runtime.process.lock import RunningLock
from streamjob_runtime.process.pair import Pair

KILLED = -9
MOST_DEATHS = 6
STEP, KILL, FINISH, BREAK, STOP = "step", "kill", "finish", "break", "stop"
EVENTS = st.lists(
    st.tuples(st.sampled_from([STEP, STEP, STEP, KILL, FINISH, BREAK, STOP]), st.integers(0, 2)), max_size=60
)
"""What happens, and to which of the youngest processes; several things may happen between two looks of the pair."""


@dataclass
class Process:
    """A process that waits for the real lock if it stands by, runs the job once it has it, and ends."""

    world: World
    standby: bool
    running: bool = False
    ended: int | None = None
    asked: bool = False

    def __post_init__(self) -> None:
        self.lock = RunningLock(self.world.work)

    def code(self) -> int | None:
        return self.ended

    def is_established(self) -> bool:
        return self.running

    def terminate(self) -> None:
        self.asked = True

    def happens(self, event: str) -> None:
        """Take part in an event that concerns this process."""
        if self.ended is not None:
            return
        if event == KILL:
            self._leave(KILLED)
        elif not self.running:
            self._step()
        elif event == FINISH or self.asked:
            self.world.outcomes.append(self)
            self.lock.end()
            self.ended = int(ExitCode.OK)
        elif event == BREAK:
            # The machine took something away that the process needs: it ends, and the job does not.
            self._leave(int(ExitCode.FAILED))

    def _step(self) -> None:
        if self.standby and self.asked:
            self._leave(int(ExitCode.OK))
            return
        if not self.lock.acquire():
            return
        if self.standby and self.lock.has_ended():
            self._leave(int(ExitCode.OK))
            return
        assert not self.world.outcomes, "a job that had ended began again"
        assert not any(each.running and each.ended is None for each in self.world.started), "two processes run the job"
        self.lock.begin()
        self.running = True
        self.world.begun += 1

    def _leave(self, code: int) -> None:
        self.lock.release()
        self.ended = code


@dataclass
class World:
    """The pair, its processes, and the events to come; behind the last event the job comes to its end."""

    work: Path
    events: Iterator[list[tuple[str, int]]]
    started: list[Process] = field(default_factory=list)
    outcomes: list[Process] = field(default_factory=list)
    begun: int = 0
    looks: int = 0

    def __post_init__(self) -> None:
        self.first = RunningLock(self.work)
        self.pair = Pair(
            self._start,
            self.first.has_ended,
            lambda: self.looks * 0.1,
            self._sleep,
            Restarts(RestartPolicy(initial_delay=0.1, attempts=MOST_DEATHS)),
        )

    def close(self) -> None:
        """Close the files of the locks that are still open."""
        for lock in (self.first, *(each.lock for each in self.started if each.ended is None)):
            lock.release()

    def _start(self, standby: bool) -> Process:
        self.started.append(Process(self, standby))
        return self.started[-1]

    def _sleep(self, seconds: float) -> None:
        self.looks += 1
        assert self.looks < 5_000, "the pair does not end"
        for event, place in next(self.events, None) or [(FINISH, place) for place in range(len(self.started))]:
            if event == STOP:
                self.pair.stop()
            elif place < len(self.started):
                self.started[-1 - place].happens(event)


def between_looks(events: list[tuple[str, int]], cuts: list[int]) -> Iterator[list[tuple[str, int]]]:
    """Divide events among the looks of the pair."""
    sizes = iter(cuts)
    begin = 0
    while begin < len(events):
        size = next(sizes, 1)
        yield events[begin : begin + size]
        begin += size


# The process that runs the job is older than three others.
@example(events=[(STEP, 0), (KILL, 0), (STEP, 0), (STEP, 0), (KILL, 0), (STEP, 0), (STEP, 0)], cuts=[])
@settings(max_examples=1000)
@given(events=EVENTS, cuts=st.lists(st.integers(1, 4), max_size=30))
def test_a_pair_ends_with_its_job_in_any_order_of_events(events: list[tuple[str, int]], cuts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), between_looks(events, cuts))
        try:
            code = world.pair.run()
        finally:
            world.close()
        assert len(world.outcomes) <= 1, "the job ended twice"
        if world.outcomes and world.outcomes[0] is world.pair.running:
            assert code == ExitCode.OK
        if not world.outcomes and not world.pair.stopping:
            assert code == ExitCode.FAILED
            assert all(each.ended is not None and not each.asked for each in world.started), "a process was left out"
        assert all(each.ended is not None or each.asked for each in world.started), "a process is left"
