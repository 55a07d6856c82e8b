"""Runs one autoscaler through one trace."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from bench.autoscaler.traces import CATCH_UP, DAY, HOUR, SKEW, TICK
from bench.autoscaler.world import ROWS_PER_SLOT, Kind, Tick, World

_HOT_SLOTS = 7


class Autoscaler(Protocol):
    """Chooses the number of slots, tick by tick."""

    def tick(self, world: World, seen: Tick) -> int | None:
        """Return another number of slots, or None."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One day.

    Args:
        moves: changes of the number of slots.
        late: minutes with more lag than allowed.
        worst_lag: seconds.
        over: slot-seconds beyond those that the records needed, in percent.
        down: minutes without processing.
    """

    moves: int
    late: float
    worst_lag: float
    over: float
    down: float


def run(
    name: str, rates: list[float], scaler: Autoscaler, kind: Kind, seed: int, *, history: bool = False
) -> tuple[Outcome, World]:
    """Return what became of a job on one trace, and the job."""
    world = World(
        rates=rates,
        slots=max(1, math.ceil(rates[0] / ROWS_PER_SLOT / 0.7)),
        kind=replace(kind, hot=_HOT_SLOTS) if name == SKEW else kind,
        seed=seed,
        lag=rates[0] * HOUR if name == CATCH_UP else 0.0,
        keep_history=history,
    )
    while world.time < DAY:
        slots = scaler.tick(world, world.step())
        if slots is not None:
            world.rescale(slots)
    needed = sum(rates) / ROWS_PER_SLOT * TICK
    return (
        Outcome(
            world.moves,
            world.late_seconds / 60,
            world.worst_lag,
            100 * (world.slot_seconds / needed - 1),
            world.down_seconds / 60,
        ),
        world,
    )
