"""A simulated job: micro-batches, restarts behind a checkpoint, and the counters that a real job reports."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from bench.autoscaler.traces import TICK

ROWS_PER_SLOT = 10_000.0
"""Records per second that a slot processes in the largest batches."""
MOST_SLOTS = 60
MAX_LAG = 60.0


@dataclass(frozen=True, slots=True)
class Kind:
    """The properties of a job.

    Args:
        fixed: seconds a batch, whatever its rows.
        full_batch: seconds of a batch that takes as many rows as it may.
        noise: standard deviation of the duration of batches, as a share; correlated over a minute.
        alpha: exponent of capacity by slots.
        hot: slots above which more do not help, because of one hot key; None without.
        restart: median seconds without processing for a restart.
        restart_spread: standard deviation of its logarithm.
        checkpoint_interval: seconds; a restart reads the records since the last checkpoint again. 0: none.
        in_place: whether slots change without a restart.
        executor: slots of an executor, which is added or removed as a whole; None if all slots are in one process.
        joins: seconds until new executors take part, after a pause of `restart`.
    """

    fixed: float = 0.35
    full_batch: float = 5.0
    noise: float = 0.1
    alpha: float = 0.95
    hot: int | None = None
    restart: float = 17.0
    restart_spread: float = 0.12
    checkpoint_interval: float = 10.0
    in_place: bool = False
    executor: int | None = None
    joins: float = 30.0


SPECIFIED = Kind(fixed=0.0, noise=0.0, restart_spread=0.0, checkpoint_interval=0.0)
"""The world of the specification's simulator, but for the duration of its restarts."""


@dataclass(slots=True)
class Tick:
    """The figures that an autoscaler sees after a tick.

    Args:
        time: seconds since the beginning.
        done: records per second that the job processed.
        lag: unread records.
        busy: share of its capacity that the job used.
        rate: records per second that arrived.
        running: whether the job runs.
    """

    time: int
    done: float
    lag: float
    busy: float
    rate: float
    running: bool


@dataclass(slots=True)
class World:
    """One job through one trace.

    Args:
        rates: records per second by tick.
        slots: slots at the beginning.
        kind: the job.
        seed: of its noise.
        lag: unread records at the beginning.
    """

    rates: list[float]
    slots: int
    kind: Kind
    seed: int
    lag: float = 0.0
    time: int = 0
    moves: int = 0
    down: float = 0.0
    slot_seconds: float = 0.0
    late_seconds: float = 0.0
    worst_lag: float = 0.0
    down_seconds: float = 0.0
    running_since: float = 0.0
    process: int = 0
    rows: float = 0.0
    batches: int = 0
    batch_seconds: float = 0.0
    position: float = 0.0
    reported: tuple[float, int, float, float, float] = (0.0, 0, 0.0, 0.0, 0.0)
    history: list[tuple[float, float, int]] = field(default_factory=list)
    keep_history: bool = False
    joining: int | None = None
    _joined_at: float = 0.0
    _since_checkpoint: float = 0.0
    _partial: float = 0.0
    _noise: float = 0.0
    _random: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._random.seed(self.seed * 7919 + 17)
        self.reported = (0.0, 0, 0.0, 0.0, self.lag)

    def full_rate(self, slots: int) -> float:
        """Return the records per second of a number of slots in the largest batches."""
        kind = self.kind
        effective = min(slots, kind.hot) if kind.hot is not None else slots**kind.alpha
        return ROWS_PER_SLOT * effective

    def step(self) -> Tick:
        """Let ten seconds pass, and return what can be seen of them."""
        kind, rate = self.kind, self.rates[self.time // TICK]
        arrived = rate * TICK
        available = float(TICK)
        if self.joining is not None and self.time >= self._joined_at:
            self.slots, self.joining, self.down = self.joining, None, kind.restart
        if self.down > 0:
            gone = min(self.down, available)
            self.down -= gone
            self.down_seconds += gone
            available -= gone
            if self.down <= 0:
                self.running_since = self.time + gone
        full = self.full_rate(self.slots)
        slow = 1.0
        if kind.noise:
            self._noise = 0.7 * self._noise + self._random.gauss(0, kind.noise * 0.714)
            slow = math.exp(self._noise)
        can = full / slow * available
        pending = self.lag + arrived
        done = min(pending, can)
        self.lag = pending - done
        busy = done * slow / (full * TICK)
        if available > 0 and done > 0:
            self._batches(done, rate, available, full, slow)
        self.rows += done
        self.position += done
        self.slot_seconds += max(self.slots, self.joining or 0) * TICK
        self.time += TICK
        lag_seconds = self.lag / max(rate, 1.0)
        if lag_seconds > MAX_LAG:
            self.late_seconds += TICK
        self.worst_lag = max(self.worst_lag, lag_seconds)
        if kind.checkpoint_interval and available >= TICK:
            self._since_checkpoint = done * kind.checkpoint_interval / TICK
        if self.keep_history:
            self.history.append((rate, lag_seconds, self.slots))
        return Tick(self.time, done / TICK, self.lag, busy, rate, self.down <= 0)

    def _batches(self, done: float, rate: float, available: float, full: float, slow: float) -> None:
        """Add the batches of a tick: of the size at which they keep up, or as large as they may be."""
        kind = self.kind
        largest = full * kind.full_batch
        row = (kind.full_batch - kind.fixed) / largest * slow
        fixed = kind.fixed * slow
        if self.lag > largest or row * rate >= 0.98:
            n = largest
        else:
            n = min(largest, max(1.0, rate * fixed / (1.0 - row * rate)))
        self._partial += done / n
        count = int(self._partial)
        self._partial -= count
        if not count:
            return
        duration = fixed + row * n
        self.batches += count
        self.batch_seconds += count * duration
        # Counters are those of whole batches; the lag is that of the moment at which the last one was planned.
        under_way = self._partial * n
        seen = self.position + done - under_way
        planned = self.position + done + self.lag - rate * duration * (1 + self._partial)
        self.reported = (
            max(0.0, self.rows + done - under_way),
            self.batches,
            self.batch_seconds,
            seen,
            max(0.0, planned - seen),
        )

    def rescale(self, slots: int) -> None:
        """Change the number of slots, with a pause."""
        kind, slots = self.kind, max(1, min(slots, MOST_SLOTS))
        if slots == (self.joining or self.slots):
            return
        if kind.executor is not None:
            self.moves += 1
            self.joining, self._joined_at = slots, self.time + (kind.joins if slots > self.slots else 0.0)
            return
        self.slots = slots
        self.moves += 1
        if kind.in_place:
            self.down = kind.restart
            return
        self.down = kind.restart * math.exp(self._random.gauss(0, kind.restart_spread))
        again = self._since_checkpoint * self._random.random() if kind.checkpoint_interval else 0.0
        self.lag += again
        self.position -= again
        self.process += 1
        self.rows = self.batch_seconds = self._partial = 0.0
        self.batches = 0
        self.reported = (0.0, 0, 0.0, self.position, self.lag)
