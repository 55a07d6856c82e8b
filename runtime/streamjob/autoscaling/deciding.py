"""Decides the number of task slots of a job: one pure function of the policy, the memory, a report and the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, log, sqrt

from streamjob.autoscaling.arrivals import highest_mean, worst_lag
from streamjob.autoscaling.capacity import Capacity, Limit, capacity_of, limit_of, pause_of
from streamjob.autoscaling.load import LoadReport
from streamjob.autoscaling.memory import Memory, Move
from streamjob.autoscaling.observing import DAY, HELPED, JUDGED_SECONDS, observe
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
        rule: the rule that decided.
        state: the state to report.
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


_SETTLED = 60.0
_FEWEST_SAMPLES = 5
_NEW_LEVEL = 3.0
"""Standard deviations of the noise above which a rate is no burst of the known noise."""
_SUDDEN = 4.5
_NO_LAG = 2.0
"""Seconds of lag up to which a job keeps up."""
_GAIN = {Means.RESTART: 0.2, Means.EXECUTORS: 0.1, Means.IN_PLACE: 0.1}
"""Share of the slots that a reduction saves at least."""
_MUCH = 0.5
"""Share of the slots that a reduction saves for which it need not wait as long."""
_SHORTEST_DELAY = 180.0
_DELAYS = {Means.RESTART: 1.0, Means.EXECUTORS: 3.0, Means.IN_PLACE: 6.0}
"""How many times shorter the delay before a reduction is."""
_PEAK_MINUTES = {Means.RESTART: 10, Means.EXECUTORS: 3, Means.IN_PLACE: 3}
_MOST_PATIENCE = 3
_REGRET = 4.0
"""Delays within which more slots after fewer mean that the reduction was too early."""
_FORGIVE = 12.0
_LOOK_AHEAD = 600.0
PAUSE_AFTER_FAILURE = 3600.0
_LONGEST_START = 600.0
_SHORT = 0.8
"""Share of the expected throughput below which a move is judged before the next one."""


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
    lag_records: float | None
    rate: float
    batch: float
    sudden: bool
    here: float

    @property
    def lag(self) -> float:
        return (self.lag_records or 0.0) / max(self.rate, 1.0)

    @property
    def delay(self) -> float:
        base = self.policy.scale_down_delay / _DELAYS[self.means]
        return float(base * 2**self.memory.patience)


def decide(policy: Policy, memory: Memory, load: LoadReport, now: float) -> Decision:
    """Return the decision for a job, with the memory for the next one.

    Args:
        policy: limits and goals.
        memory: the memory of the last decision.
        load: the job at present.
        now: seconds since 1970.
    """
    closed = len(memory.arrivals.minutes), memory.arrivals.open_seconds
    memory = observe(memory, load)
    a_minute_closed = memory.arrivals.open_seconds < closed[1] or len(memory.arrivals.minutes) != closed[0]
    numbers: dict[str, float] = {"slots": load.slots}
    if (failed := _failed_move(policy, memory, load, now)) is not None:
        return failed
    if not load.running or memory.down_since is not None:
        return Decision(memory, Rule.NOT_RUNNING, State.PAUSED, numbers)
    if load.hindrance:
        return Decision(memory, Rule.BUSY, State.PAUSED, numbers)
    capacity = capacity_of(policy, memory, load, now)
    if capacity is None or len(memory.arrivals.recent) < _FEWEST_SAMPLES:
        return Decision(memory, Rule.NO_DATA, State.LEARNING, numbers | {"samples": len(memory.arrivals.recent)})
    case = _case(policy, memory, load, now, capacity)
    last = memory.moves[-1] if memory.moves else None
    rest = max(_SETTLED, 2 * case.pause, 2 * pause_of(memory, last.means) if last else 0.0)
    if last is not None and now - last.time <= rest:
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
    if capacity.knee is not None and load.slots > case.limit.up(capacity.knee):
        spent = _moves_today(memory, now)
        if case.means is Means.RESTART and spent >= policy.max_moves_per_day:
            return _hold(case, Rule.BUDGET, State.SATURATED, moves=spent)
        return _move(case, case.limit.up(capacity.knee), Rule.UNDO, State.SATURATED)
    if _is_behind(case):
        return _more(case)
    return _fewer(case) if a_minute_closed else _fits(case)


def _case(policy: Policy, memory: Memory, load: LoadReport, now: float, capacity: Capacity) -> _Case:
    arrivals = memory.arrivals
    batch = max(chain.batch_seconds for chain in memory.chains)
    # Counters move with batches, so a rate over few of them is a rough one.
    short = max(20.0, 4 * batch)
    minute, latest = arrivals.rate(max(60.0, short)), arrivals.rate(short)
    level = max(arrivals.level or 0.0, arrivals.minutes[-1] if arrivals.minutes else 0.0) or arrivals.rate(300.0)
    noise = sqrt(2.0 * arrivals.noise**2 + (0.7 * batch / short) ** 2)
    sudden = latest > level > 0 and log(latest / level) > _SUDDEN * noise
    limit = limit_of(policy, load)
    means = _means(policy, load, load.slots)
    rate = minute
    if sudden:
        # The last sample is the only one behind the rise, and the rougher the fewer batches it has.
        newest = arrivals.rate(10.0)
        rate = max(minute, latest, latest + (newest - latest) / (1.0 + (0.2 * batch) ** 2))
    here, proven = capacity.at(load.slots), arrivals.rate(120.0)
    if load.lag is not None and proven > here and load.lag < _NO_LAG * proven:
        capacity = replace(capacity, busy=capacity.busy * proven / here)
        here = proven
    return _Case(
        policy=policy,
        memory=memory,
        load=load,
        now=now,
        capacity=capacity,
        limit=limit,
        means=means,
        pause=pause_of(memory, means),
        lag_records=load.lag,
        rate=rate,
        batch=batch,
        sudden=sudden,
        here=here,
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
    policy, rate, here = case.policy, case.rate, case.here
    excess = (rate - here) / rate if rate > here else 0.0
    if case.batch > policy.batch_limit and rate > 0.9 * here:
        return True
    if case.lag_records is None:
        return rate > 0.9 * here
    lag = case.lag
    if excess <= 0.0:
        drain = case.lag_records / max(here - rate, 1e-9)
        return lag > policy.max_lag / 2 and drain > policy.catch_up
    set_back = _set_back(case)
    if case.sudden:
        return excess > 0.2 or lag + 20 * excess > (policy.max_lag - 1.3 * set_back) / 3
    if lag < _NO_LAG:
        return False
    # Ignore a burst within the known noise if another minute of it is harmless, or if moving is no better.
    return lag + 60 * excess > max(policy.max_lag - 1.3 * set_back, policy.max_lag / 3) / 2


def _more(case: _Case) -> Decision:
    policy, load, memory = case.policy, case.load, case.memory
    arrivals, rate, lag_records = memory.arrivals, case.rate, case.lag_records or 0.0
    is_restart = case.means is Means.RESTART
    if _falls_short(case):
        return _hold(case, Rule.SETTLING, State.BEHIND)
    level = arrivals.level
    known = level is not None and arrivals.surprise(rate, level) <= _NEW_LEVEL and not case.sudden
    five = arrivals.rate(300.0)
    steady = max(five, level or 0.0) if known else rate
    trend = 0.0 if case.sudden or known else arrivals.trend()
    ahead = steady + trend * (_LOOK_AHEAD if is_restart else 60.0 + case.pause)
    drain = (lag_records + rate * _set_back(case)) / policy.catch_up
    wanted = max(ahead / policy.target_utilization, max(ahead, rate) + drain)
    if case.lag_records is None:
        wanted = max(wanted, rate * 1.5)
    most, unit = case.limit.most, case.limit.unit
    ceiling = most if case.capacity.knee is None else case.limit.up(case.capacity.knee)
    more = range(load.slots + unit, ceiling + 1, unit)
    slots = next((q for q in more if case.capacity.at(q) >= wanted), ceiling)
    if known and slots < ceiling:
        window = arrivals.minutes[-int(max(case.delay, 3600.0) // 60) :]
        while slots < ceiling and worst_lag(window, case.capacity.at(slots)) > policy.max_lag / 4:
            slots += unit
    if slots <= load.slots:
        if case.capacity.knee is not None and load.slots >= case.capacity.knee:
            return _hold(case, Rule.SATURATED, State.SATURATED, wanted=wanted)
        return _hold(case, Rule.LIMITED, State.LIMITED, limit=case.limit.cause, wanted=wanted)
    limit = case.limit.cause if slots == most and case.capacity.at(slots) < wanted else ""
    spent = _moves_today(memory, case.now)
    if is_restart and spent >= policy.max_moves_per_day and case.lag <= policy.max_lag / 2:
        return _hold(case, Rule.BUDGET, State.BEHIND, moves=spent)
    return _move(case, slots, Rule.BEHIND, State.LIMITED if limit else State.BEHIND, limit=limit, wanted=wanted)


def _falls_short(case: _Case) -> bool:
    """Return whether the last move brings less than expected, and it is not clear yet that it does not help."""
    memory = case.memory
    move = memory.moves[-1] if memory.moves else None
    if move is None or move.after <= move.before or move.after != case.load.slots:
        return False
    if case.now - move.time >= _LONGEST_START:
        return False
    if move.reached is not None:
        # It was judged, and nothing was concluded: more slots on top would only blur what they bring.
        return (move.reached - 1.0) < HELPED * (move.expected - 1.0)
    full = next((each for each in memory.full if each.slots == move.after and each.time > move.time), None)
    return full is not None and full.seconds < JUDGED_SECONDS and full.rate < _SHORT * move.capacity * move.expected


def _fewer(case: _Case) -> Decision:
    """Return fewer slots if these would have been enough since the delay began; replays the arrivals."""
    policy, load, memory, now = case.policy, case.load, case.memory, case.now
    arrivals, least_slots, unit = memory.arrivals, case.limit.least, case.limit.unit
    gain = _GAIN[case.means]
    if load.slots <= least_slots or case.lag >= policy.max_lag / 4:
        return _fits(case)
    least = max(arrivals.rate(60.0) * min(1.0, policy.target_utilization + 0.1), arrivals.an_hour_of_yesterday(now))
    allowed = policy.max_lag / 4
    start = arrivals.rate(300.0) * _set_back(case) if case.means is Means.RESTART else 0.0
    trend = arrivals.trend()

    def enough(slots: int, minutes: Sequence[float], delay: float) -> bool:
        sustained = max(highest_mean(minutes, _PEAK_MINUTES[case.means]), least) + trend * delay
        capacity = case.capacity.at(slots)
        if capacity * policy.target_utilization < sustained:
            return False
        if (capacity - sustained) * policy.catch_up < start:
            return False
        return worst_lag(minutes, capacity, allowed) <= allowed

    since = now - (memory.moves[-1].time if memory.moves else -inf)
    # Idle slots may cost as much as a move costs: the more of them there are, the sooner they go.
    for saved in (_MUCH, gain):
        delay = max(case.delay * gain / saved, _SHORTEST_DELAY) if saved > gain else case.delay
        minutes = int(delay // 60)
        window = arrivals.minutes[-minutes:]
        slots = min(int(load.slots * (1 - saved)), load.slots - 1) // unit * unit
        if slots < least_slots or since <= delay or len(window) < minutes or not enough(slots, window, delay):
            continue
        while slots > least_slots and enough(slots - unit, window, delay):
            slots -= unit
        much_fewer = int(slots * (1 - gain)) // unit * unit
        if least_slots <= much_fewer < slots and enough(much_fewer, window[-(minutes // 2) :], delay):
            # The peak is about to leave the window: one move then, and not two.
            continue
        spent = _moves_today(memory, now)
        if case.means is Means.RESTART and spent >= policy.max_moves_per_day // 2:
            return _hold(case, Rule.BUDGET, State.STEADY, moves=spent)
        peak = highest_mean(window, _PEAK_MINUTES[case.means])
        return _move(case, slots, Rule.IDLE, State.STEADY, peak=peak, minutes=minutes)
    return _fits(case)


def _fits(case: _Case) -> Decision:
    rule = Rule.RIDING if case.rate > case.here else Rule.FITS
    return _hold(case, rule, State.STEADY)


def _moves_today(memory: Memory, now: float) -> int:
    return sum(move.time > now - DAY and move.means is Means.RESTART for move in memory.moves)


def _numbers(case: _Case) -> dict[str, float]:
    return {
        "slots": case.load.slots,
        "rate": case.rate,
        "capacity": case.here,
        "utilization": case.rate / case.here,
        "lag": case.lag,
        "pause": case.pause,
    }


def _hold(case: _Case, rule: Rule, state: State, *, limit: str = "", **more: float) -> Decision:
    return Decision(case.memory, rule, state, _numbers(case) | more, limit=limit)


def _move(case: _Case, slots: int, rule: Rule, state: State, *, limit: str = "", **more: float) -> Decision:
    means = _means(case.policy, case.load, slots)
    memory = _remembered(case, slots, rule, means)
    numbers = _numbers(case) | {"target": slots, "reached": case.capacity.at(slots)} | more
    return Decision(memory, rule, state, numbers, slots, means, limit)


def _remembered(case: _Case, slots: int, rule: Rule, means: Means) -> Memory:
    memory, now = case.memory, case.now
    move = Move(
        time=now,
        before=case.load.slots,
        after=slots,
        means=means,
        rule=rule,
        capacity=case.here,
        expected=case.capacity.gain(slots),
    )
    patience, since = memory.patience, memory.patience_since
    base = case.delay / 2**patience
    previous = memory.moves[-1] if memory.moves else None
    if rule is Rule.BEHIND and previous is not None and previous.rule == Rule.IDLE:
        # Were the slots still there, they would have been enough.
        if now - previous.time < _REGRET * base and case.capacity.at(previous.before) >= case.rate:
            patience, since = min(patience + 1, _MOST_PATIENCE), now
    elif rule is Rule.IDLE and patience and now - since > _FORGIVE * base:
        patience, since = patience - 1, now
    return replace(memory, moves=(*memory.moves, move), patience=patience, patience_since=since)


def _failed_move(policy: Policy, memory: Memory, load: LoadReport, now: float) -> Decision | None:
    """Return the decision to undo a restart after which the job completes no checkpoint; None if there is none."""
    move = memory.moves[-1] if memory.moves else None
    if move is None or move.confirmed or move.rule == Rule.FAILED or load.busy_with or now < memory.paused_until:
        return None
    pause = pause_of(memory, move.means)
    late = 2 * (load.checkpoint_interval or 0.0) + max(_LONGEST_START, 4 * pause)
    if now - move.time <= late or any(period.contains(now) for period in policy.excluded_periods):
        return None
    slots = limit_of(policy, load).up(move.before)
    if move.means not in policy.means:
        return None
    numbers = {"slots": float(load.slots), "target": float(slots), "seconds": now - move.time}
    undone = Move(now, load.slots, slots, move.means, Rule.FAILED, move.capacity, 1.0)
    remembered = replace(memory, moves=(*memory.moves, undone), paused_until=now + PAUSE_AFTER_FAILURE)
    if slots == load.slots:
        return Decision(remembered, Rule.FAILED, State.PAUSED, numbers)
    return Decision(remembered, Rule.FAILED, State.PAUSED, numbers, slots, move.means)
