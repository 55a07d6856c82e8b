"""The algorithm of Flink's autoscaler, on one vertex: flink-kubernetes-operator 6e9caeb4, module flink-autoscaler."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bench.autoscaler.traces import TICK
from bench.autoscaler.world import Tick, World

_EVERY = 60
_MOST_DOWN = 0.6
_BACKLOG = 300.0
_MOST_TRACKED = 900.0
_KEY_GROUPS = 64
"""Its maximum parallelism in the specification's simulator."""


@dataclass(slots=True)
class Flink:
    """Its options, in seconds, and its state. The defaults are Flink's.

    Args:
        target: utilization after a change.
        upper: utilization above which it adds slots; None for target + boundary.
        lower: utilization below which it removes slots; None for target - boundary.
        window: of its metrics.
        stabilization: after a restart.
        catch_up: time in which a change reduces the lag to nothing.
        restart: expected duration of a restart.
        track: whether it measures restarts instead.
        down_interval: time for which a reduction waits.
    """

    target: float = 0.7
    upper: float | None = None
    lower: float | None = None
    window: int = 900
    stabilization: int = 300
    catch_up: int = 1800
    restart: float = 300.0
    track: bool = False
    down_interval: int = 3600
    _history: list[tuple[int, float, float, float, float | None]] = field(default_factory=list)
    _delayed: list[tuple[int, int, bool]] = field(default_factory=list)
    _first: int | None = None
    _tracked: list[float] = field(default_factory=list)
    _scaled_at: int | None = None
    _done: float = 0.0

    def tick(self, world: World, seen: Tick) -> int | None:
        """Return another number of slots, or None."""
        self._done += seen.done * TICK
        if world.time % _EVERY or not seen.running or not self._collect(world, seen):
            return None
        history = self._history
        seconds = history[-1][0] - history[0][0]
        processed = (history[-1][1] - history[0][1]) / seconds
        arriving = max(0.0, processed + (history[-1][3] - history[0][3]) / seconds)
        busy = sum(each[2] for each in history) / len(history)
        true_rate = processed / busy if busy > 0 and processed > 0 else math.inf
        observed = [each[4] for each in history if each[4]]
        if len(observed) >= 2:
            mean = sum(observed) / len(observed)
            true_rate = mean if true_rate > mean * 1.15 else true_rate
        return self._evaluate(world, arriving, processed, true_rate, history[-1][3])

    def _collect(self, world: World, seen: Tick) -> bool:
        if self._history and world.running_since > self._history[0][0]:
            self._history = []
            if self._scaled_at is not None:
                self._tracked.append(world.running_since - self._scaled_at)
                self._scaled_at = None
        stable = world.running_since + self.stabilization
        observed = seen.done if seen.done > 0 and seen.lag >= 30 * seen.done else None
        self._history.append((world.time, self._done, seen.busy, seen.lag, observed))
        begun = next((each[0] for each in self._history if each[0] >= stable), None)
        if begun is None or world.time < begun + self.window:
            return False
        self._history = [each for each in self._history if each[0] >= world.time - self.window]
        return len(self._history) >= 2

    def _evaluate(self, world: World, arriving: float, processed: float, true_rate: float, lag: float) -> int | None:
        restart = min(max(self._tracked), _MOST_TRACKED) if self.track and self._tracked else self.restart
        backlog = processed > 0 and lag / processed > _BACKLOG
        high = 1.0 if backlog else min(1.0, self.upper if self.upper is not None else self.target + 0.3)
        low = 0.0 if backlog else max(0.0, self.lower if self.lower is not None else self.target - 0.3)

        def capacity(utilization: float, with_restart: bool) -> float:
            if utilization <= 0:
                return math.inf
            extra = arriving * restart / self.catch_up if with_restart else 0.0
            return lag / self.catch_up + extra + arriving / utilization

        outside = true_rate < capacity(high, False) or true_rate > capacity(low, True)
        factor = capacity(self.target, True) / true_rate if true_rate != math.inf else 0.0
        slots = world.slots
        new = min(max(1, math.ceil(max(factor, 1 - _MOST_DOWN) * slots)), _KEY_GROUPS)
        if new != slots:
            new = _aligned(new, slots)
        if new == slots:
            self._first, self._delayed = None, []
            return None
        if new > slots:
            self._first, self._delayed = None, []
            if not outside:
                return None
        else:
            chosen = self._after_delay(world.time, new, outside, slots)
            if chosen is None:
                return None
            new = chosen
        self._first, self._delayed, self._scaled_at = None, [], world.time
        return new

    def _after_delay(self, now: int, new: int, outside: bool, slots: int) -> int | None:
        """Return the largest recommendation of the interval, once that has passed."""
        if self.down_interval > 0:
            self._first = now if self._first is None else self._first
            self._delayed.append((now, new, outside))
            if now - self.down_interval < self._first:
                return None
            self._delayed = [each for each in self._delayed if each[0] >= now - self.down_interval]
            _, new, outside = max(self._delayed, key=lambda each: each[1])
        return new if outside and new < slots else None


def _aligned(new: int, slots: int) -> int:
    """Return the number of slots that distributes the key groups evenly (BALANCED)."""
    end = _KEY_GROUPS if new > slots else slots
    groups = _KEY_GROUPS
    return next((q for q in range(new, end + 1) if groups % q == 0 or groups // q < groups // new), new)


def documented_example(restart: float = 120.0, *, track: bool = False) -> Flink:
    """Return Flink with the options of the second example in its documentation."""
    return Flink(
        target=0.6,
        upper=0.8,
        lower=0.4,
        window=300,
        stabilization=60,
        restart=restart,
        catch_up=300,
        down_interval=3600,
        track=track,
    )
