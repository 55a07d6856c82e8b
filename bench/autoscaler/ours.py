"""The product's decision in the simulated world: it sees nothing but the counters that a job reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.autoscaler.world import MOST_SLOTS, Tick, World

from streamjob.autoscaling.deciding import Decision, decide
from streamjob.autoscaling.load import ChainLoad, LoadReport, SourceLoad
from streamjob.autoscaling.memory import Memory
from streamjob.autoscaling.policy import Means, Policy

RESTARTS = Policy(max=MOST_SLOTS, means=(Means.RESTART,))
IN_PLACE = Policy(max=MOST_SLOTS, means=(Means.IN_PLACE, Means.RESTART), target_utilization=0.8)


def load_of(world: World, seen: Tick) -> LoadReport:
    """Return the report of a simulated job."""
    rows, batches, seconds, position, lag = world.reported
    kind = world.kind
    return LoadReport(
        time=float(seen.time),
        slots=world.joining or world.slots,
        rows=rows,
        chains=(ChainLoad("job", rows, batches, seconds),),
        sources=(SourceLoad("events", lag, position, MOST_SLOTS),),
        running=seen.running,
        process=str(world.process),
        in_place_slots=MOST_SLOTS if kind.in_place else None,
        executor_slots=kind.executor,
        slots_in_use=world.slots if kind.executor is not None else None,
        checkpoint_interval=kind.checkpoint_interval or None,
        checkpoint_age=max(0.0, min(seen.time - world.running_since, 5.0)),
    )


@dataclass(slots=True)
class Ours:
    """The decision, with its memory."""

    policy: Policy
    memory: Memory = field(default_factory=Memory)
    decisions: list[tuple[int, Decision]] = field(default_factory=list)
    keep: bool = False

    def tick(self, world: World, seen: Tick) -> int | None:
        """Return another number of slots, or None."""
        decision = decide(self.policy, self.memory, load_of(world, seen), float(seen.time))
        self.memory = decision.memory
        if self.keep and decision.slots is not None:
            self.decisions.append((seen.time, decision))
        return decision.slots
