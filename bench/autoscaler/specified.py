"""The rules of the specification, as its own simulator has them; they see the arrival rate and the busy share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bench.autoscaler.traces import DAY, TICK
from bench.autoscaler.world import MAX_LAG, Tick, World

_MOST = 64
_HIGH_SECONDS = 3


@dataclass(slots=True)
class Specified:
    """The specified rules.

    Args:
        restart: seconds that a change is taken to last.
        target: utilization after a change.
        high: utilization above which slots are added.
        quiet: seconds before slots are removed.
        gain: share of the slots that a reduction saves at least.
        budget: most changes in a day before reductions stop.
    """

    restart: float
    target: float = 0.75
    high: float = 0.9
    quiet: float = 1800.0
    gain: float = 0.2
    budget: int = 24
    catch_up: float = 300.0
    _rates: list[float] = field(default_factory=list)
    _minutes: list[float] = field(default_factory=list)
    _unit: float | None = None
    _knees: dict[int, float] = field(default_factory=dict)
    _last: float = 0.0
    _hot: int = 0
    _moves: list[float] = field(default_factory=list)
    _lag: float = 0.0

    def tick(self, world: World, seen: Tick) -> int | None:
        """Return another number of slots, or None."""
        rate = max(0.0, seen.done + (seen.lag - self._lag) / TICK)
        self._lag = seen.lag
        self._rates.append(rate)
        self._minutes.append(sum(self._rates[-6:]) / 6)
        if not seen.running:
            return None
        self._learn(seen, world.slots)
        if self._unit is None:
            return None
        return self._decide(seen, world.slots, rate)

    def _learn(self, seen: Tick, slots: int) -> None:
        if seen.busy <= 0.2:
            return
        unit = seen.done / seen.busy / slots
        self._unit = unit if self._unit is None else 0.9 * self._unit + 0.1 * unit
        if seen.busy > 0.97:
            known = self._knees.get(slots)
            self._knees[slots] = seen.done if known is None else 0.8 * known + 0.2 * seen.done

    def _saturation(self) -> int | None:
        found = None
        knees = sorted(self._knees)
        for index, few in enumerate(knees):
            for many in knees[index + 1 :]:
                if self._knees[many] < self._knees[few] * (1 + 0.25 * (many / few - 1)):
                    found = few if found is None else min(found, few)
        return found

    def _decide(self, seen: Tick, slots: int, rate: float) -> int | None:
        now, saturated = seen.time, self._saturation()
        unit = self._unit or 0.0

        def capacity(q: int) -> float:
            if saturated is not None and q >= saturated:
                return max(self._knees.values(), default=0.0)
            return self._knees[q] if q in self._knees else unit * q * float((q / slots) ** -0.05)

        def need(wanted: float) -> int:
            return next((q for q in range(1, _MOST + 1) if capacity(q) >= wanted or q == saturated), _MOST)

        rates = self._rates
        fast = _mean(rates[-6:], rate)
        trend = max(0.0, (fast - _mean(rates[-30:-24], rate)) / 240)
        lag = seen.lag / max(fast, 1.0)
        here = capacity(slots)
        drain = seen.lag / max(here - fast, 1e-9) if here > fast else math.inf
        behind = fast > self.high * here or (lag > MAX_LAG / 2 and drain > self.catch_up)
        self._hot = self._hot + 1 if behind else 0
        since = now - self._last
        if self._hot >= _HIGH_SECONDS and since > max(60, 2 * self.restart):
            late = lag > MAX_LAG / 2
            extra = (seen.lag * late + fast * self.restart) / self.catch_up
            ahead = fast + trend * (self.restart + 60)
            q = max(need(ahead / self.target + extra), slots + 1)
            if saturated is not None and q > saturated:
                if slots >= saturated:
                    return None
                q = saturated
            grown = (fast - here) * (60 + self.restart) / max(fast, 1)
            if not late and drain == math.inf and grown < MAX_LAG / 4 and trend == 0 and self._hot < 30:
                return None
            if slots < q <= _MOST:
                return self._moved(now, q)
        if lag < MAX_LAG / 4 and since > self.quiet:
            return self._fewer(now, slots, fast, need)
        return None

    def _fewer(self, now: int, slots: int, fast: float, need: object) -> int | None:
        assert callable(need)
        length = int(self.quiet // TICK)
        begun = max(0, len(self._rates) - length)
        # Minutes of the quiet time that begin every 30 s.
        top = max(self._minutes[begun + 5 :: 3], default=fast)
        if (
            now > DAY - 3600
            and (yesterday := self._rates[: max(0, (now - DAY + 3600) // TICK)])
            and len(yesterday) > 100
        ):
            top = max(top, max(sum(yesterday[i : i + 6]) / 6 for i in range(0, len(yesterday) - 5, 6)))
        q: int = need(top / self.target + top * self.restart / self.catch_up)
        today = sum(each > now - DAY for each in self._moves)
        if q <= slots * (1 - self.gain) and q < slots and today < self.budget:
            return self._moved(now, q)
        return None

    def _moved(self, now: int, slots: int) -> int:
        self._last, self._hot = now, 0
        self._moves.append(now)
        return slots


def _mean(rates: list[float], otherwise: float) -> float:
    return sum(rates) / len(rates) if rates else otherwise


def in_place() -> Specified:
    """Return the rules with the parameters for changes in place."""
    return Specified(restart=1.0, target=0.8, high=0.92, quiet=300.0, gain=0.1, budget=200)
