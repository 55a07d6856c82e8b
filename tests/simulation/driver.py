"""Processes in a world, and the schedule that says who makes the next step and what goes wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.oracle import Violation
from tests.simulation.process import Process, RunOf
from tests.simulation.runtime import EpochRun
from tests.simulation.tasks import Task, Wait
from tests.simulation.world import Fault, World

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import Attempt, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import SnapshotKind
from streamjob.protocol.log.committing import Abort, Commit
from streamjob.store.effects import Delete, Get, List, Put, PutIfAbsent

STEP = 0.1
STORE_EFFECTS = (Get, Put, PutIfAbsent, List, Delete)
FAULTS = (Fault.REFUSED, Fault.UNANSWERED, Fault.LATE, Fault.REPEATED)


class Simulation:
    """Processes in a world, driven by a schedule."""

    def __init__(
        self,
        world: World,
        run_of: RunOf,
        policies: Sequence[LiveCheckpointingPolicy],
        *,
        most_processes: int,
        fault_share: int,
        disturbance_share: int = 12,
        sleep_shares: tuple[int, int] = (8, 30),
    ) -> None:
        self.world = world
        self.choices = choices = world.choices
        self._run_of = run_of
        self._policies = policies
        self.most_processes = most_processes
        self.fault_share = fault_share
        self.disturbance_share = disturbance_share
        # A drained job reads no further and ends; most lives are spared it.
        self.drains = choices.pick(3) == 2
        self.last_survives = choices.pick(2) == 1
        longest = max(policy.timeout for policy in policies)
        patient = [policies[0], *(policy for policy in policies if policy.timeout == longest)]
        self.last_policy = patient[choices.pick(len(patient))]
        # Some lives are spent asleep, with a decisive request in hand.
        self.sleep_share = sleep_shares[choices.pick(2)]
        self.processes: list[Process] = []
        self.started = 0
        self.steps = 0
        self.store_away_until = 0

    def start_process(self, attempt: int | None = None) -> Process:
        """Start one more process; by default with the next attempt, or with the last one's."""
        changed = bool(self.started) and self.world.change()
        if attempt is None:
            # Starting another job increases the counter, so that no process returns to the former one.
            attempt = self.world.highest_attempt + (1 if changed or self.choices.pick(3) else 0)
        self.world.highest_attempt = Attempt(max(attempt, self.world.highest_attempt))
        num_retained = (1, 3, 2)[self.choices.pick(3)]
        policy = self._policies[self.choices.pick(len(self._policies))]
        name = f"p{self.started}"
        process = Process(self.world, self._run_of, name, Attempt(attempt), num_retained=num_retained, policy=policy)
        self.world.note(f"{process.name}: starts as attempt {attempt}, retains {num_retained}")
        self.started += 1
        self.processes.append(process)
        return process

    def run(self, most_steps: int) -> None:
        """Follow the schedule."""
        self.start_process(1)
        while self.steps < most_steps and not self.choices.used_up:
            if self.choices.in_percent(self.disturbance_share):
                self._disturb()
            if self.has_edges and self.choices.in_percent(80):
                self._strike_at_the_edge()
            self._step_with_faults()

    def finish(self) -> None:
        """Let the network calm down and one process run to the end of all input: the last that lives, or a new one.

        Where nothing fails, nothing expires.
        """
        world = self.world
        alive = [process for process in self.processes if process.end is None and process.run is not None]
        survives = bool(alive) and self.last_survives
        while world.late:
            world.deliver_late(0)
        world.end_inputs()
        quiet_since = world.clock.now()
        last = self._calm(alive[-1]) if survives else self._start_last()
        for _ in range(30_000):
            if last.end is m.JobEnd.FINISHED:
                break
            if last.end is not None and (survives or last.refused is not None):
                # It had been told to stop before, had lost the log without knowing, or could not start.
                survives, last = False, self._start_last()
            self.step()
        if last.end is not m.JobEnd.FINISHED:
            raise Violation(f"the last process ended as {last.end}")
        if expired := [at for at in last.expired if at >= quiet_since]:
            raise Violation(f"what was triggered at {expired[0]} expires, and nothing has failed since")
        swept = not survives and not self.finished_before_last
        world.oracle.check_end(last.num_retained, recovered=not survives, swept=swept)

    def _start_last(self) -> Process:
        self.processes.clear()
        return self._calm(self.start_process(self.world.highest_attempt + 1))

    def _calm(self, process: Process) -> Process:
        """Crash all other processes, and let this one be patient; its last checkpoint is declined."""
        self.processes = [process]
        process.policy = self.last_policy
        run, now = process.run, self.world.clock.now()
        if run is not None and run.coordinator is not None:
            run.handle(m.PolicyChanged(now=now, policy=process.policy))
            if run.coordinator.pending is not None:
                run.handle(m.ChainDeclined(now=now, id=run.coordinator.pending, chain=run.chains[0]))
        return process

    @property
    def finished_before_last(self) -> bool:
        """Whether the last claim found a finished job, so that nothing could be collected after it."""
        return self.world.oracle.log[-1].kind == "claim"

    def step(self, fault: Fault = Fault.NONE) -> None:
        """Let a task make its next step, with success as far as the fault allows; no task sleeps."""
        found = self._next(asleep=True)
        if found is not None:
            process, run, task = found
            process.step(run, task, fault)

    def _next(self, *, asleep: bool) -> tuple[Process, EpochRun, Task] | None:
        """Let time pass, and return whose turn it is, sleepers included or not."""
        self.steps += 1
        self.world.clock.advance(STEP)
        runnable = [
            (process, *found)
            for process in self.processes
            for found in process.tasks()
            if asleep or process.frozen_until <= self.steps
        ]
        if not runnable:
            return None
        runnable.sort(key=lambda found: found[2].last_step)
        found = runnable[self.choices.pick(len(runnable))]
        found[2].last_step = self.steps
        return found

    def _step_with_faults(self) -> None:
        found = self._next(asleep=False)
        if found is None:
            return
        process, run, task = found
        fault = Fault.NONE
        if not isinstance(task.effect, Wait):
            decisive = isinstance(task.effect, PutIfAbsent | Delete | Commit | Abort)
            if decisive and self.choices.in_percent(self.sleep_share):
                self._freeze(process, deep=isinstance(task.effect, PutIfAbsent))
                return
            if decisive and self.fault_share and self.choices.in_percent(4):
                self._take_store_away(20 + 10 * self.choices.pick(10))
            away = self.steps < self.store_away_until and isinstance(task.effect, STORE_EFFECTS)
            if away or self.choices.in_percent(self.fault_share):
                fault = FAULTS[self.choices.pick(3 if away else len(FAULTS))]
        process.step(run, task, fault)

    @property
    def has_edges(self) -> bool:
        """Whether a process could write right below the log now, under a pruned number."""
        return bool(self._edges())

    def _edges(self) -> list[tuple[Process, EpochRun, Task] | int]:
        """Return the sleepers with such a request in hand, and the places of such requests that are held up."""
        world = self.world
        found: list[tuple[Process, EpochRun, Task] | int] = [
            (process, *task)
            for process in self.processes
            if process.frozen_until > self.steps
            for task in process.tasks()
            if world.is_edge(task[1].effect)
        ]
        return found + [index for index, effect in enumerate(world.late) if world.is_edge(effect)]

    def _strike_at_the_edge(self) -> None:
        edges = self._edges()
        edge = edges[self.choices.pick(len(edges))]
        if isinstance(edge, int):
            self.world.deliver_late(edge)
            return
        process, run, task = edge
        self.world.note(f"{process.name}: wakes at the edge of the log")
        process.frozen_until = 0
        process.step(run, task, Fault.NONE)

    def _disturb(self) -> None:
        world = self.world
        alive = [process for process in self.processes if process.end is None]
        self.processes = alive
        what = self.choices.pick(13 if self.drains else 10)
        asleep = all(process.frozen_until > self.steps for process in alive)
        if asleep or (what == 1 and len(alive) < self.most_processes):
            self.start_process()
            return
        process = alive[self.choices.pick(len(alive))]
        now, run = world.clock.now(), process.run
        match what:
            case 2:
                world.note(f"{process.name}: crashes")
                self.processes.remove(process)
            case 3:
                self._freeze(process)
            case 4 | 5:
                if world.late:
                    world.deliver_late(self.choices.pick(len(world.late)))
            case 6:
                world.clock.advance(self.choices.pick(40))
            case 7:
                if run is not None:
                    trigger = TriggerId(f"s{self.steps}")
                    run.handle(m.TriggerRequested(now=now, trigger_id=trigger, kind=SnapshotKind.SAVEPOINT))
            case 8:
                if world.sink.visible:
                    names = sorted(world.sink.visible)
                    world.sink.consume(names[self.choices.pick(len(names))])
            case 9:
                if run is not None:
                    self._order(process, now)
            case 10 | 11 | 12:
                process.ask_to_stop(TriggerId(f"d{self.steps}"), savepoint=what != 10, drain=True)
            case _:
                if self.fault_share and self.choices.pick(8) == 7:
                    self._take_store_away(10 * self.choices.pick(10))

    def _take_store_away(self, steps: int) -> None:
        self.store_away_until = self.steps + steps
        self.world.note(f"the store is away until step {self.store_away_until}")

    def _freeze(self, process: Process, *, deep: bool = False) -> None:
        process.frozen_until = (
            self.steps + ((200, 2000) if deep else (20, 60, 200, 500))[self.choices.pick(2 if deep else 4)]
        )
        self.world.note(f"{process.name}: sleeps until step {process.frozen_until}")

    def _order(self, process: Process, now: float) -> None:
        run = process.run
        assert run is not None
        order = self.choices.pick(5)
        if order == 0:
            process.policy = self._policies[self.choices.pick(len(self._policies))]
            run.handle(m.PolicyChanged(now=now, policy=process.policy))
        elif order == 1:
            process.num_retained = 1 + self.choices.pick(3)
        elif order == 4:
            run.handle(m.RestartRequested(now=now, message="state moves"))
        else:
            process.ask_to_stop(TriggerId(f"x{self.steps}"), savepoint=order == 3)


def live(simulation: Simulation, steps: int) -> None:
    """Follow the schedule for the given number of steps, then finish; an error reports the history."""
    try:
        simulation.run(steps)
        simulation.finish()
    except Exception as error:
        error.add_note("\n".join(simulation.world.trace[-400:]))
        raise
