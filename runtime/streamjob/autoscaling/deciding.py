"""Decides the number of task slots of a job: one pure function of the policy, the memory, a report and the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, log, sqrt

from streamjob.autoscaling.arrivals import MINUTES_KEPT, highest_mean, worst_lag
from streamjob.autoscaling.capacity import DAY, Capacity, Limit, capacity_of, limit_of, pause_of
from streamjob.autoscaling.load import LoadReport
from streamjob.autoscaling.memory import Memory, Move
from streamjob.autoscaling.observing import HELPED, JUDGED_SECONDS, observe
from streamjob.autoscaling.policy import Means, Policy


class State(StrEnum):
    """The state of the automatic scaling of a job."""

    LEARNING = "Learning"
    STEADY = "Steady"
    BEHIND = "Behind"
    SATURATED = "Saturated"
    PAUSED = "Paused"
    LIMITED = "Limited"


class Rule(StrEnum):
    """The rule that decided."""

    NO_DATA = "NoData"
    NOT_RUNNING = "NotRunning"
    BUSY = "Busy"
    EXCLUDED = "ExcludedPeriod"
    PAUSED = "PausedAfterFailure"
    SETTLING = "Settling"
    UNDO = "Undo"
    FAILED = "MoveFailed"
    OUT_OF_BOUNDS = "OutOfBounds"
    BEHIND = "Behind"
    SATURATED = "Saturated"
    LIMITED = "Limited"
    BUDGET = "BudgetSpent"
    RIDING = "Riding"
    IDLE = "Idle"
    FITS = "Fits"


@dataclass(frozen=True, slots=True)
class Decision:
    """The action to take now, and its reason.

    Args:
        memory: the memory with the report taken in, and the move.
        inputs: the numbers that it was decided from.
        slots: the new number of slots; None to leave it.
        means: how to reach it; None without a change.
        limit: the cause of the upper limit that applied; empty if none did.
    """

    memory: Memory
    rule: Rule
    state: State
    inputs: Mapping[str, float]
    slots: int | None = None
    means: Means | None = None
    limit: str = ""


_FEWEST_SAMPLES = 5
"""Reports, one every ten seconds, that say something of the load."""
_SETTLED = 60.0
"""Seconds after a move before the next: the mean that decides is that of a minute."""
_FULL = 0.9
"""Share of the capacity above which batches have become too long, or a source that hides its lag may have some."""
_SUDDEN = 4.5
"""Standard deviations above the level of what is no noise: once in 300,000 by chance. Without sudden rises,
simulated jobs are late five times as long."""
_SHORT_SECONDS, _SHORT_BATCHES = 20.0, 4.0
"""Seconds, and batches, whose rate is the latest one: two reports, as counters move with batches."""
_BATCH_ERROR = 0.7
"""Error, in batches, of the time that a rate covers: half a batch at each end."""
_NEWEST_ERROR = 0.2
"""Error of the newest report by the seconds of a batch, a share of what it adds: batches of 5 s leave half of it.
Without the newest report, a sudden rise takes several moves, and simulated jobs have 8 % more slots."""
_NO_LAG = 2.0
"""Seconds of lag up to which a job keeps up: a batch reads what has arrived during the one before it."""
_BLIND_GAIN = 1.5
"""How many times the processed rate a job gets that does not report how much more has arrived."""
_GAIN = {Means.RESTART: 0.2, Means.EXECUTORS: 0.1, Means.IN_PLACE: 0.1}
"""Share of the slots that a reduction saves at least; as specified."""
_MUCH = 0.5
"""Share of the slots that a reduction saves for which it need not wait as long. Without it, there are 28 % more
simulated moves in place, as slots go little by little."""
_SHORTEST_DELAY = 180.0
"""Seconds of that shorter wait at least: three minutes tell a lower load from noise."""
_ROOM = 0.1
"""Utilization above its target that the present rate may cause: a peak of the last minutes is less sure to last."""
_DELAYS = {Means.RESTART: 1.0, Means.EXECUTORS: 3.0, Means.IN_PLACE: 6.0}
"""How many times shorter the delay before a reduction is; as specified: half an hour, and 5 minutes in place."""
_PEAK_MINUTES = {Means.RESTART: 10, Means.EXECUTORS: 3, Means.IN_PLACE: 3}
"""Minutes whose mean must fit into fewer slots; shorter peaks only must not make the job late. With the mean of the
whole delay instead, there are 22 % more simulated moves in place."""
_MOST_PATIENCE = 3
"""Doublings of the delay, so that the minutes of its arrivals are kept. Without any, there are twice as many simulated
moves in place."""
_REGRET, _FORGIVE = 4.0, 12.0
"""Delays within which more slots after fewer mean that the reduction was too early, and after which one is forgiven."""
PAUSE_AFTER_FAILURE = 3600.0
"""Seconds without another change: people or the cluster have to make room."""
_LONGEST_START = 600.0
"""Seconds that a driver may need until its first checkpoint: it may wait for a node and an image."""
_SHORT = 0.8
"""Share of the expected throughput below which a move is judged before the next one: two errors of a minute."""


@dataclass(frozen=True, slots=True)
class _Case:
    policy: Policy
    memory: Memory
    load: LoadReport
    now: float
    capacity: Capacity
    limit: Limit
    means: Means
    pause: float
    rate: float
    batch: float
    sudden: bool

    @property
    def here(self) -> float:
        return self.capacity.at(self.load.slots)

    @property
    def lag(self) -> float:
        return (self.load.lag or 0.0) / max(self.rate, 1.0)

    @property
    def delay(self) -> float:
        return float(self.policy.scale_down_delay / _DELAYS[self.means] * 2**self.memory.patience)

    @property
    def is_out_of_budget(self) -> bool:
        return self.restarts >= self.policy.max_moves_per_day

    @property
    def restarts(self) -> int:
        """The restarts of the last day; 0 where a move is none."""
        if self.means is not Means.RESTART:
            return 0
        return sum(move.time > self.now - DAY and move.means is Means.RESTART for move in self.memory.moves)


def decide(policy: Policy, memory: Memory, load: LoadReport, now: float) -> Decision:
    """Return the decision for a job, with the memory for the next one.

    Args:
        memory: the memory of the last decision.
        load: the job at present.
        now: seconds since 1970.
    """
    before, memory = memory.arrivals.minutes, observe(memory, load)
    a_minute_closed = memory.arrivals.minutes is not before
    numbers: dict[str, float] = {"slots": load.slots}
    if (failed := _failed_move(policy, memory, load, now)) is not None:
        return failed
    if not load.running or memory.down_since is not None:
        return Decision(memory, Rule.NOT_RUNNING, State.PAUSED, numbers)
    if load.hindrance:
        return Decision(memory, Rule.BUSY, State.PAUSED, numbers)
    capacity, samples = capacity_of(policy, memory, now), len(memory.arrivals.recent)
    if capacity is None or samples < _FEWEST_SAMPLES:
        return Decision(memory, Rule.NO_DATA, State.LEARNING, numbers | {"samples": samples})
    case = _case(policy, memory, load, now, capacity)
    if memory.moves:
        last = memory.moves[-1]
        rest = max(_SETTLED, 2 * case.pause, 2 * pause_of(memory, last.means))
        if now - last.time <= rest:
            return _hold(case, Rule.SETTLING, State.STEADY if case.lag < policy.max_lag else State.BEHIND, rest=rest)
    if now < memory.paused_until:
        return _hold(case, Rule.PAUSED, State.PAUSED, seconds=memory.paused_until - now)
    if any(period.contains(now) for period in policy.excluded_periods):
        return _hold(case, Rule.EXCLUDED, State.PAUSED)
    if case.means not in policy.means:
        return _hold(case, Rule.LIMITED, State.LIMITED, limit="the list of permitted means")
    within = case.limit.up(load.slots)
    if within != load.slots:
        return _move(case, within, Rule.OUT_OF_BOUNDS, State.LIMITED)
    if capacity.knee is not None and load.slots > (knee := case.limit.up(capacity.knee)):
        if case.is_out_of_budget:
            return _hold(case, Rule.BUDGET, State.SATURATED, moves=case.restarts)
        return _move(case, knee, Rule.UNDO, State.SATURATED)
    if _is_behind(case):
        return _more(case)
    return (_fewer(case) if a_minute_closed else None) or _hold(
        case, Rule.RIDING if case.rate > case.here else Rule.FITS, State.STEADY
    )


def _case(policy: Policy, memory: Memory, load: LoadReport, now: float, capacity: Capacity) -> _Case:
    arrivals = memory.arrivals
    batch = max(chain.batch_seconds for chain in memory.chains)
    short = max(_SHORT_SECONDS, _SHORT_BATCHES * batch)
    minute, latest = arrivals.rate(max(60.0, short)), arrivals.rate(short)
    level = max((arrivals.level or 0.0, *arrivals.minutes[-1:])) or arrivals.rate(300.0)
    noise = sqrt(2.0 * arrivals.noise**2 + (_BATCH_ERROR * batch / short) ** 2)
    sudden = latest > level > 0 and log(latest / level) > _SUDDEN * noise
    rate = minute
    if sudden:
        # The last sample is the only one behind the rise, and the rougher the fewer batches it has.
        newest = arrivals.rate(10.0)
        rate = max(minute, latest, latest + (newest - latest) / (1.0 + (_NEWEST_ERROR * batch) ** 2))
    means = _means(policy, load, load.slots)
    return _Case(
        policy=policy,
        memory=memory,
        load=load,
        now=now,
        capacity=capacity,
        limit=limit_of(policy, load),
        means=means,
        pause=pause_of(memory, means),
        rate=rate,
        batch=batch,
        sudden=sudden,
    )


def _means(policy: Policy, load: LoadReport, slots: int) -> Means:
    """Return the cheapest way to a number of slots; the only possible one, whether permitted or not, if it is one."""
    if load.executor_slots is not None:
        return Means.EXECUTORS
    reachable = load.in_place_slots is not None and slots <= load.in_place_slots
    return Means.IN_PLACE if Means.IN_PLACE in policy.means and reachable else Means.RESTART


def _set_back(case: _Case) -> float:
    """Return the seconds of lag that a move adds: its pause, and the rows since the last checkpoint, read again."""
    if case.means is not Means.RESTART:
        return case.pause
    again = case.load.checkpoint_interval or 0.0
    return case.pause + again * min(1.0, case.here / max(case.rate, 1.0))


def _is_behind(case: _Case) -> bool:
    policy, rate, here, lag = case.policy, case.rate, case.here, case.lag
    if (case.batch > policy.batch_limit or case.load.lag is None) and rate > _FULL * here:
        return True
    if rate <= here:
        return lag > policy.max_lag / 2 and lag * rate > policy.catch_up * (here - rate)
    if not case.sudden and lag < _NO_LAG:
        return False
    # A burst is ignored as long as another minute of it is harmless, with a move after it, or if moving is no better.
    return lag + 60 * (1 - here / rate) > max(policy.max_lag - _set_back(case), policy.max_lag / 3) / 2


def _more(case: _Case) -> Decision:
    policy, load, rate = case.policy, case.load, case.rate
    if _falls_short(case):
        return _hold(case, Rule.SETTLING, State.BEHIND)
    unread = (load.lag or 0.0) + rate * _set_back(case)
    wanted = max(rate / policy.target_utilization, rate + unread / policy.catch_up)
    if load.lag is None:
        wanted = max(wanted, rate * _BLIND_GAIN)
    most, unit, knee = case.limit.most, case.limit.unit, case.capacity.knee
    ceiling = most if knee is None else case.limit.up(knee)
    more = range(load.slots + unit, ceiling + 1, unit)
    slots = next((q for q in more if case.capacity.at(q) >= wanted), ceiling)
    if slots <= load.slots:
        if knee is not None and load.slots >= knee:
            return _hold(case, Rule.SATURATED, State.SATURATED, wanted=wanted)
        return _hold(case, Rule.LIMITED, State.LIMITED, limit=case.limit.cause, wanted=wanted)
    limit = case.limit.cause if slots == most and case.capacity.at(slots) < wanted else ""
    if case.is_out_of_budget and case.lag <= policy.max_lag / 2:
        return _hold(case, Rule.BUDGET, State.BEHIND, moves=case.restarts)
    return _move(case, slots, Rule.BEHIND, State.LIMITED if limit else State.BEHIND, limit=limit, wanted=wanted)


def _falls_short(case: _Case) -> bool:
    """Return whether the last move brings less than expected, and it is not clear yet that it does not help."""
    memory = case.memory
    move = memory.moves[-1] if memory.moves else None
    if move is None or not move.before < move.after == case.load.slots or case.now - move.time >= _LONGEST_START:
        return False
    if move.reached is not None:
        # It was judged, and nothing was concluded: more slots on top would only blur what they bring.
        return (move.reached - 1.0) < HELPED * (move.expected - 1.0)
    full = next((each for each in memory.full if each.slots == move.after and each.time > move.time), None)
    return full is not None and full.seconds < JUDGED_SECONDS and full.rate < _SHORT * move.capacity * move.expected


def _fewer(case: _Case) -> Decision | None:
    """Return fewer slots if these would have been enough since the delay began; replays the arrivals."""
    policy, load, memory, now = case.policy, case.load, case.memory, case.now
    arrivals, unit, least_slots = memory.arrivals, case.limit.unit, case.limit.least
    gain, peak_minutes, allowed = _GAIN[case.means], _PEAK_MINUTES[case.means], policy.max_lag / 4
    if load.slots <= least_slots or case.lag >= allowed:
        return None
    at_present = arrivals.rate(60.0) * min(1.0, policy.target_utilization + _ROOM)

    def enough(slots: int, minutes: Sequence[float]) -> bool:
        capacity = case.capacity.at(slots)
        sustained = max(highest_mean(minutes, peak_minutes), at_present)
        return capacity * policy.target_utilization >= sustained and worst_lag(minutes, capacity) <= allowed

    since = now - (memory.moves[-1].time if memory.moves else -inf)
    # Idle slots may cost as much as a move costs: the more of them there are, the sooner they go.
    for saved in (_MUCH, gain):
        delay = max(case.delay * gain / saved, _SHORTEST_DELAY) if saved > gain else case.delay
        minutes = min(int(delay // 60), MINUTES_KEPT)
        window = arrivals.minutes[-minutes:]
        slots = min(int(load.slots * (1 - saved)), load.slots - 1) // unit * unit
        if slots < least_slots or since <= delay or len(window) < minutes or not enough(slots, window):
            continue
        while slots > least_slots and enough(slots - unit, window):
            slots -= unit
        much_fewer = int(slots * (1 - gain)) // unit * unit
        if least_slots <= much_fewer < slots and enough(much_fewer, window[-(minutes // 2) :]):
            # The peak is about to leave the window: one move then, and not two, which saves 6 % of simulated slots.
            continue
        if case.restarts >= policy.max_moves_per_day // 2 and case.means is Means.RESTART:
            return _hold(case, Rule.BUDGET, State.STEADY, moves=case.restarts)
        peak = highest_mean(window, peak_minutes)
        return _move(case, slots, Rule.IDLE, State.STEADY, peak=peak, minutes=minutes)
    return None


def _hold(case: _Case, rule: Rule, state: State, *, limit: str = "", **more: float) -> Decision:
    return Decision(case.memory, rule, state, _numbers(case) | more, limit=limit)


def _move(case: _Case, slots: int, rule: Rule, state: State, *, limit: str = "", **more: float) -> Decision:
    memory, now, means = case.memory, case.now, _means(case.policy, case.load, slots)
    move = Move(now, case.load.slots, slots, means, rule, case.here, case.capacity.gain(slots))
    patience, since = memory.patience, memory.patience_since
    base = case.delay / 2**patience
    previous = memory.moves[-1] if memory.moves else None
    if rule is Rule.BEHIND and previous is not None and previous.rule == Rule.IDLE:
        # Were the slots still there, they would have been enough.
        if now - previous.time < _REGRET * base and case.capacity.at(previous.before) >= case.rate:
            patience, since = min(patience + 1, _MOST_PATIENCE), now
    elif rule is Rule.IDLE and patience and now - since > _FORGIVE * base:
        patience, since = patience - 1, now
    remembered = replace(memory, moves=(*memory.moves, move), patience=patience, patience_since=since)
    numbers = _numbers(case) | {"target": slots, "reached": case.capacity.at(slots)} | more
    return Decision(remembered, rule, state, numbers, slots, means, limit)


def _numbers(case: _Case) -> dict[str, float]:
    return {
        "slots": case.load.slots,
        "rate": case.rate,
        "capacity": case.here,
        "utilization": case.rate / case.here,
        "lag": case.lag,
        "pause": case.pause,
    }


def undo(memory: Memory, slots: int, now: float) -> Memory:
    """Return the memory with the move that undoes the last one, because the job did not run with its slots.

    Args:
        slots: the number of slots from now on.
        now: seconds since 1970.
    """
    last = memory.moves[-1]
    undone = Move(now, last.after, slots, last.means, Rule.FAILED, last.capacity, 1.0)
    return replace(memory, moves=(*memory.moves, undone), paused_until=now + PAUSE_AFTER_FAILURE)


def _failed_move(policy: Policy, memory: Memory, load: LoadReport, now: float) -> Decision | None:
    """Return the decision to undo a restart after which the job completes no checkpoint; None if there is none."""
    move = memory.moves[-1] if memory.moves else None
    if move is None or move.confirmed or move.rule == Rule.FAILED or load.busy_with or now < memory.paused_until:
        return None
    late = 2 * (load.checkpoint_interval or 0.0) + max(_LONGEST_START, 4 * pause_of(memory, move.means))
    if now - move.time <= late or any(period.contains(now) for period in policy.excluded_periods):
        return None
    if move.means not in policy.means:
        return None
    slots = limit_of(policy, load).up(move.before)
    numbers = {"slots": float(load.slots), "target": float(slots), "seconds": now - move.time}
    to = (slots, move.means) if slots != load.slots else (None, None)
    return Decision(undo(memory, slots, now), Rule.FAILED, State.PAUSED, numbers, *to)
