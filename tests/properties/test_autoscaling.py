"""Automatic scaling stays within its bounds, moves rarely, and decides the same after a restart of the controller."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from bench.autoscaler.world import Kind
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.autoscaling.jobs import Life, moves

from streamjob.autoscaling import (
    Decision,
    LoadReport,
    Means,
    Memory,
    Period,
    Policy,
    decide,
    pack_memory,
    unpack_memory,
)
from streamjob.autoscaling.capacity import limit_of, pause_of

_LEVELS = st.lists(st.tuples(st.integers(5, 40), st.floats(0, 400_000), st.floats(0, 0.4)), min_size=2, max_size=5)
"""Minutes, records per second, noise."""
_KINDS = st.builds(
    Kind,
    fixed=st.floats(0.02, 2.0),
    noise=st.floats(0, 0.2),
    alpha=st.floats(0.5, 1.0),
    hot=st.one_of(st.none(), st.integers(1, 12)),
    restart=st.floats(3, 60),
    in_place=st.booleans(),
    executor=st.one_of(st.none(), st.integers(1, 4)),
)
_FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def rates(levels: list[tuple[int, float, float]], seed: int) -> list[float]:
    random = Random(seed)
    return [rate * random.lognormvariate(0, noise) for minutes, rate, noise in levels for _ in range(minutes * 6)]


@st.composite
def lives(draw: st.DrawFn) -> Life:
    least = draw(st.integers(1, 6))
    most = draw(st.integers(least, 40))
    policy = Policy(
        min=least,
        max=most,
        target_utilization=draw(st.floats(0.3, 0.95)),
        max_lag=draw(st.floats(5, 300)),
        scale_down_delay=draw(st.floats(60, 1800)),
        max_moves_per_day=draw(st.integers(1, 24)),
        means=draw(st.sampled_from([(Means.RESTART,), (Means.IN_PLACE, Means.RESTART), (Means.IN_PLACE,)])),
        quota_cpu=draw(st.one_of(st.none(), st.floats(least, 60))),
    )
    seed = draw(st.integers(0, 1000))
    kind = draw(_KINDS)
    slots = draw(st.integers(least, most))
    if (unit := kind.executor) is not None:
        policy = policy.model_copy(update={"means": (*policy.means, Means.EXECUTORS), "max": max(most, unit)})
        kind = replace(kind, in_place=False, restart=5.0)
        slots = max(slots // unit, 1) * unit
    if kind.in_place:
        kind = replace(kind, restart=1.0)
    return Life(rates(draw(_LEVELS), seed), policy, kind, slots=slots, seed=seed)


@_FEW
@given(lives(), st.one_of(st.none(), st.integers(1, 60)), st.sampled_from([None, True, False]))
def test_slots_are_never_out_of_bounds(life: Life, partitions: int | None, stateful: bool | None) -> None:
    def known(load: LoadReport) -> LoadReport:
        sources = tuple(replace(source, partitions=partitions) for source in load.sources)
        return replace(load, max_parallelism=partitions, stateful=stateful, sources=sources)

    life.change = known
    for load, decision in life.run():
        if decision.slots is not None:
            bounds = limit_of(life.policy, load)
            assert bounds.least <= decision.slots <= bounds.most
            unit = life.kind.executor or 1
            most = min(life.policy.max, life.policy.quota_cpu or 60, partitions or 60)
            assert decision.slots <= max(most, unit)
            assert decision.slots % unit == 0
            assert decision.slots != load.slots
            assert decision.means in life.policy.means


@_FEW
@given(lives())
def test_there_are_never_two_moves_within_two_restarts(life: Life) -> None:
    last = None
    for load, decision in life.run():
        if decision.slots is None:
            continue
        if last is not None:
            assert decision.means is not None
            pause = 0.0 if decision.means is Means.IN_PLACE else pause_of(decision.memory, decision.means)
            assert load.time - last > max(60.0, 2 * pause)
        last = load.time


@pytest.mark.slow
@_FEW
@given(lives())
def test_a_controller_that_restarts_decides_as_before(life: Life) -> None:
    def stored(memory: Memory) -> Memory:
        return unpack_memory(pack_memory(memory))

    without = life.run()
    life.recorded = stored

    assert [_seen(decision) for _, decision in life.run()] == [_seen(decision) for _, decision in without]


@_FEW
@given(lives())
def test_a_report_that_arrives_twice_changes_nothing(life: Life) -> None:
    for load, decision in life.run()[::37]:
        if decision.slots is None:
            again = decide(life.policy, decision.memory, load, load.time)
            assert again.memory == decision.memory


@_FEW
@given(lives(), st.integers(0, 2**20))
def test_nothing_moves_during_an_upgrade(life: Life, when: int) -> None:
    def upgrading(load: LoadReport) -> LoadReport:
        return replace(load, busy_with="an upgrade") if (when >> (int(load.time) // 600 % 20)) & 1 else load

    life.change = upgrading
    for load, decision in life.run():
        assert decision.slots is None or not load.busy_with


@_FEW
@given(lives(), st.integers(0, 59), st.integers(1, 50))
def test_nothing_moves_in_an_excluded_period(life: Life, minute: int, length: int) -> None:
    period = Period(start=f"{minute} * * * *", duration=length * 60.0)
    life.policy = life.policy.model_copy(update={"excluded_periods": (period,)})
    for load, decision in life.run():
        if decision.slots is not None:
            assert (load.time / 60 - minute) % 60 >= length


@_FEW
@given(lives())
def test_restarts_beyond_the_budget_are_for_a_job_that_is_late(life: Life) -> None:
    life.policy = life.policy.model_copy(update={"means": (Means.RESTART,), "max_moves_per_day": 2})
    life.kind = replace(life.kind, in_place=False, executor=None)
    for load, decision in life.run():
        if decision.slots is not None and len(decision.memory.moves) > 2:
            lag = (load.lag or 0.0) / max(decision.inputs["rate"], 1.0)
            assert lag > life.policy.max_lag / 2


def _seen(decision: Decision) -> tuple[object, ...]:
    return decision.slots, decision.means, decision.rule, decision.state, dict(decision.inputs), decision.memory


def test_the_lives_move_at_all() -> None:
    life = Life(rates([(40, 40_000, 0.05), (40, 200_000, 0.05), (60, 20_000, 0.05)], 1))

    assert len(moves(life.run())) >= 2
