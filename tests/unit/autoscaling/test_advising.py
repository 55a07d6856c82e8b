"""Advice expects nobody to follow it, and sees the changes that somebody makes."""

from __future__ import annotations

from tests.unit.autoscaling.jobs import CALM, RESTARTS, Life, hours, moves

from streamjob.autoscaling import Means, Memory, Rule, advise


def test_a_change_that_somebody_makes_is_remembered_as_a_move() -> None:
    made = Life(hours((0.5, 40_000), (0.4, 120_000)), kind=CALM).run()
    (move,) = moves(made)

    memory = Memory()
    for load, _ in made:
        memory = advise(RESTARTS, memory, load).memory

    (seen,) = memory.moves
    assert (seen.before, seen.after, seen.means, seen.rule) == (6, move.slots, Means.RESTART, "External")
    assert memory.slots == move.slots


def test_advice_is_the_decision_until_somebody_follows_it() -> None:
    made = Life(hours((0.5, 40_000), (0.4, 120_000)), kind=CALM).run()
    first = next(number for number, (_, decision) in enumerate(made) if decision.slots is not None)

    memory = Memory()
    for load, decision in made[: first + 1]:
        advice = advise(RESTARTS, memory, load)
        memory = advice.memory
        assert (advice.rule, advice.slots, dict(advice.inputs)) == (
            decision.rule,
            decision.slots,
            dict(decision.inputs),
        )

    assert advice.rule is Rule.BEHIND
    assert memory.moves == ()
