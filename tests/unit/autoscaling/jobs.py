"""Jobs whose load is written down tick by tick, for tests of automatic scaling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bench.autoscaler.ours import load_of
from bench.autoscaler.world import Kind, World

from streamjob.autoscaling import Decision, LoadReport, Means, Memory, Policy, decide

TICK = 10
RESTARTS = Policy(max=60, means=(Means.RESTART,))
Change = Callable[[LoadReport], LoadReport]


def unchanged(load: LoadReport) -> LoadReport:
    return load


@dataclass
class Life:
    """A simulated job under automatic scaling, and the decisions that were made."""

    rates: Sequence[float]
    policy: Policy = RESTARTS
    kind: Kind = field(default_factory=Kind)
    slots: int = 6
    seed: int = 1
    lag: float = 0.0
    change: Change = unchanged
    """Changes reports before they are used."""
    recorded: Callable[[Memory], Memory] = lambda memory: memory
    """Stands for a memory that was stored and read again."""

    def run(self) -> list[tuple[LoadReport, Decision]]:
        """Return all reports with their decisions, of which each was carried out."""
        world = World(list(self.rates), self.slots, self.kind, self.seed, lag=self.lag)
        memory, made = Memory(), []
        for _ in self.rates:
            seen = world.step()
            load = self.change(load_of(world, seen))
            decision = decide(self.policy, memory, load, load.time)
            memory = self.recorded(decision.memory)
            made.append((load, decision))
            if decision.slots is not None:
                world.rescale(decision.slots)
        return made


def hours(*levels: tuple[float, float]) -> list[float]:
    """Return a rate for each tick: pairs of hours and records per second."""
    return [rate for length, rate in levels for _ in range(round(length * 3600 / TICK))]


def moves(made: Sequence[tuple[LoadReport, Decision]]) -> list[Decision]:
    """Return the decisions that change something."""
    return [decision for _, decision in made if decision.slots is not None]


CALM = replace(Kind(), noise=0.0, restart_spread=0.0)
"""A job whose batches always take the same time."""
