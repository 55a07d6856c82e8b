"""A process of the job: it runs epochs, whose tasks it lets make their steps, until the job ends for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tests.simulation.tasks import CommitFailed, Effect, Pause, SinkFailed, Stage, Task, Wait
from tests.simulation.world import Fault, World

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.errors import CannotRestore
from streamjob.ids import Attempt, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.statistics import StatisticsTracker
from streamjob.protocol.coordination.triggers import Triggers, TriggerStatus
from streamjob.protocol.log.claiming import CreateOutside
from streamjob.protocol.log.committing import Abort, Commit, SinkEffect
from streamjob.store.base import StoreError

if TYPE_CHECKING:
    from tests.simulation.runtime import EpochRun

RunOf: TypeAlias = "Callable[[Process, int], EpochRun]"


class Process:
    """One process of the job: runs epochs until the job ends for it."""

    def __init__(
        self,
        world: World,
        run_of: RunOf,
        name: str,
        attempt: Attempt,
        *,
        num_retained: int,
        policy: LiveCheckpointingPolicy,
    ) -> None:
        self.world = world
        self._run_of = run_of
        self.name = name
        self.attempt = attempt
        self.num_retained = num_retained
        self.policy = policy
        self.triggers = Triggers()
        self.statistics = StatisticsTracker()
        self.drains: set[TriggerId] = set()
        """Drains that were asked for, and of which nobody has told yet what has become of them."""
        self.drained: dict[TriggerId, TriggerStatus] = {}
        self.end: m.JobEnd | None = None
        self.refused: CannotRestore | None = None
        self.expired: list[float] = []
        self.frozen_until = 0
        self.has_held = False
        self._epochs = 0
        self.runs: list[EpochRun] = [run_of(self, 0)]

    @property
    def run(self) -> EpochRun | None:
        """The epoch that is not over yet."""
        return next((run for run in self.runs if not run.over), None)

    def tasks(self) -> list[tuple[EpochRun, Task]]:
        """Return the tasks that could make a step; none of an ended process."""
        if self.end is not None:
            return []
        return [(run, task) for run in self.runs for task in run.tasks if task.runnable]

    def ask_to_stop(self, trigger: TriggerId, *, savepoint: bool = False, drain: bool = False) -> None:
        """Ask the epoch that runs to stop the job. Without one, nothing happens."""
        if self.run is not None:
            if drain:
                self.drains.add(trigger)
            now = self.world.clock.now()
            self.run.handle(m.StopRequested(now=now, trigger_id=trigger, savepoint=savepoint, drain=drain))

    def refuse(self, error: CannotRestore) -> None:
        """End, because the job cannot start from its newest snapshot."""
        self.refused = error
        self.end = m.JobEnd.STOPPED
        self.runs.clear()

    def next_epoch(self, failed: EpochRun) -> None:
        """Begin the next epoch; the tasks of the failed one end, or go on as zombies."""
        now = self.world.clock.now()
        if failed.coordinator is not None and self.world.choices.pick(3) == 0:
            failed.handle(m.EpochEnded(now=now))
            failed.tasks.clear()
        self.runs = [run for run in self.runs if run.tasks]
        self._epochs += 1
        self.runs.append(self._run_of(self, self._epochs))

    def step(self, run: EpochRun, task: Task, fault: Fault) -> None:
        """Let a task make one step, its effect going as well as the fault lets it."""
        effect, error, reply = task.effect, None, None
        try:
            reply = self._perform(task, effect, fault)
        except (StoreError, SinkFailed, CommitFailed) as raised:
            error = raised
        try:
            task.effect = task.steps.throw(error) if error is not None else task.steps.send(reply)
        except StopIteration:
            if task in run.tasks:
                run.tasks.remove(task)

    def _perform(self, task: Task, effect: Effect, fault: Fault) -> object:
        match effect:
            case Pause(at):
                if at == "commit" and fault is Fault.REFUSED:
                    raise CommitFailed(at)
                return None
            case Wait():
                return None
            case Stage(name, epoch, rows):
                if fault is Fault.REFUSED:
                    raise SinkFailed(name)
                self.world.stage(name, epoch, rows)
                if fault is Fault.UNANSWERED:
                    raise SinkFailed(name)
                return None
            case Commit(checkpoint, output):
                names = tuple(str(name) for sink in output for name in sink.committables)
                self.world.note(f"{task.name}: commit {checkpoint}: {names} {fault.name}")
                if fault is Fault.REFUSED:
                    # A commit is atomic per file, not over all files.
                    self.world.commit(checkpoint, names[: len(names) // 2])
                    raise SinkFailed(str(checkpoint))
                self.world.commit(checkpoint, names)
                if fault is Fault.UNANSWERED:
                    raise SinkFailed(str(checkpoint))
                return None
            case Abort(_, before):
                self.world.sink.abort(before)
                return None
            case SinkEffect() | CreateOutside():
                raise TypeError(f"nothing here does {effect!r}")
            case _:
                return self.world.request(task.name, effect, fault)
