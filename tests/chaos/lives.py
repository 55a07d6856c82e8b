"""A round of chaos: one job through many lives, each ended at a random moment of a random kind."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.integration.runtime.executor_processes import LONG, ON_TWO, agents_of_executors, java_of_executors, kill
from tests.integration.runtime.processes import WITHIN, JobProcess, JobRuns

from streamjob.snapshot.record import RecordKind

SUPERSEDED = 4


class ChaosFailed(Exception):
    """The job did something that it must not do."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a life ends.

    Args:
        moment: what is waited for: `start`, `claim`, `progress`, `manifest`, `record`, `published` or `final`.
        delay: seconds after the moment.
        sleeps: whether the process is merely stopped, and wakes in a later life.
    """

    moment: str
    delay: float
    sleeps: bool

    def __str__(self) -> str:
        return f"{'sleeps' if self.sleeps else 'killed'} {self.delay:.2f} s behind {self.moment}"


def draw(chance: random.Random) -> Ending:
    """Draw how a life ends; the short moments, which a uniform draw would miss, are aimed at."""
    moment = chance.choices(
        ["start", "claim", "progress", "manifest", "record", "published", "final"], [2, 3, 4, 3, 3, 2, 2]
    )[0]
    spread = {"start": 12.0, "claim": 8.0, "progress": 2.0}.get(moment, 0.005)
    return Ending(moment, chance.uniform(0, spread), sleeps=chance.random() < 0.25)


class Round:
    """One job from its start to its end.

    Args:
        runs: its processes.
        chance: decides all.
        say: told what happens.
        on_executors: whether it runs on executors in processes of their own, which are killed on the way.
    """

    def __init__(
        self, runs: JobRuns, chance: random.Random, say: Callable[[str], None], *, on_executors: bool = False
    ) -> None:
        self._runs = runs
        self._options = ON_TWO if on_executors else ()
        self._within = LONG if on_executors else WITHIN
        self._chance = chance
        self._say = say
        self._sleepers: list[JobProcess] = []
        self._machines = 0
        self.lives = 0

    def run(self) -> None:
        """Let the job live and die until it has finished.

        Raises:
            ChaosFailed: a process ended as it must not.
        """
        for _ in range(self._chance.randint(1, 6)):
            if self._live(draw(self._chance)):
                break
        last = self._start()
        self._wake_some()
        hunter = self._hunter()
        deadline = time.monotonic() + 4 * self._within
        while last.exit_code is None and time.monotonic() < deadline:
            hunter.look()
            time.sleep(0.1)
        code = last.wait(1.0)
        if code != 0:
            raise ChaosFailed(f"the last process ended with {code}:\n{last.output()}")
        while self._sleepers:
            self._wake(self._sleepers.pop())
        if not any(record.kind is RecordKind.FINAL for record in self._runs.records()):
            raise ChaosFailed("the job has ended without a final record")

    def _live(self, ending: Ending) -> bool:
        """Run a process until it meets its end; return whether the job had finished before."""
        before = _State(self._runs)
        process = self._start()
        self._wake_some()
        hunter = self._hunter()
        for _ in self._until(process, before, ending):
            if process.exit_code is not None:
                break
            hunter.look()
        else:
            time.sleep(ending.delay)
        code = process.exit_code
        if code is not None:
            if code != 0:
                raise ChaosFailed(f"a process ended with {code}:\n{process.output()}")
            self._say("finished before it met its end")
            return True
        self._say(str(ending))
        if ending.sleeps:
            process.stop()
            self._sleepers.append(process)
        else:
            process.kill()
        return False

    def _until(self, process: JobProcess, before: _State, ending: Ending) -> Iterator[None]:
        """Poll until the moment has come; some moments last only for milliseconds."""
        deadline = time.monotonic() + 2 * self._within
        while not before.has_come(ending.moment):
            if time.monotonic() > deadline:
                raise ChaosFailed(f"no {ending.moment} within {2 * self._within:.0f} s:\n{process.output()}")
            time.sleep(0.02 if ending.moment in ("claim", "progress") else 0.0005)
            yield

    def _start(self) -> JobProcess:
        self.lives += 1
        # A sleeper keeps its own machine; who was killed is followed on the same one as often as on another.
        if self._sleepers or self._chance.random() < 0.5:
            self._machines += 1
        return self._runs.start(*self._options, workdir=f"work-{self._machines}")

    def _hunter(self) -> _Hunter:
        """Return what kills executors of the newest process, if it has any."""
        workdir = self._runs.file.parent / f"work-{self._machines}"
        return _Hunter(workdir, self._chance, self._say, self._chance.randint(0, 3) if self._options else 0)

    def _wake_some(self) -> None:
        """Wake sleepers while their successor starts, or leave them for later."""
        if self._sleepers and self._chance.random() < 0.5:
            epoch = self._runs.epoch()
            process = self._sleepers.pop(self._chance.randrange(len(self._sleepers)))
            deadline = time.monotonic() + WITHIN
            while self._runs.epoch() == epoch and time.monotonic() < deadline:
                time.sleep(0.05)
            self._wake(process)

    def _wake(self, process: JobProcess) -> None:
        process.wake()
        code = process.wait()
        # A process that slept between the last record and the end only had to exit.
        if code not in (0, SUPERSEDED):
            raise ChaosFailed(f"a sleeper ended with {code}:\n{process.output()}")
        self._say(f"a sleeper woke and ended with {code}")


class _Hunter:
    """Kills executors of a process at random moments.

    Args:
        workdir: the work directory of the process.
        chance: decides all.
        say: told what happens.
        kills: how many times at most.
    """

    def __init__(self, workdir: Path, chance: random.Random, say: Callable[[str], None], kills: int) -> None:
        self._workdir, self._chance, self._say = workdir, chance, say
        self._left = kills
        self._next = self._draw()

    def look(self) -> None:
        """Kill an agent or its Java if it is time."""
        if self._left == 0 or time.monotonic() < self._next or not (self._workdir / "executors").is_dir():
            return
        find = self._chance.choice([agents_of_executors, java_of_executors])
        there = find(self._workdir)
        self._next = self._draw()
        if not there:
            return
        victim = self._chance.choice(sorted(there))
        kill(there[victim])
        self._left -= 1
        self._say(f"killed {'the agent' if find is agents_of_executors else 'the Java'} of {victim}")

    def _draw(self) -> float:
        return time.monotonic() + self._chance.uniform(5.0, 40.0)


class _State:
    """The state when a life began, to recognise changes."""

    def __init__(self, runs: JobRuns) -> None:
        self._runs = runs
        self._epoch = runs.epoch()
        self._furthest = runs.furthest()
        self._manifests = self._list(runs.root / "checkpoints")
        self._records = self._list(runs.root / "log")
        self._published = self._outputs()

    def has_come(self, moment: str) -> bool:
        runs = self._runs
        match moment:
            case "start":
                return True
            case "claim":
                return runs.epoch() > self._epoch
            case "progress":
                return runs.furthest() > self._furthest
            case "manifest":
                return bool(self._list(runs.root / "checkpoints") - self._manifests)
            case "record":
                # The first new one is the claim.
                return len(self._list(runs.root / "log") - self._records) > 1
            case "published":
                return bool(self._outputs() - self._published)
            case "final":
                return any(record.kind is RecordKind.FINAL for record in runs.records())
        raise ValueError(moment)

    def _outputs(self) -> set[str]:
        directory = self._runs.file.parent
        return self._list(directory / "table") | self._list(directory / "lines")

    def _list(self, directory: Path) -> set[str]:
        return {entry.name for entry in directory.iterdir()} if directory.is_dir() else set()
