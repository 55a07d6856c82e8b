"""How conditions change: one of each type, and a time of transition that moves only with the status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.simulation.operator.conditions import is_true

from streamjob_operator.resources.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    find_condition,
    with_condition,
)

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def ready(status: ConditionStatus = "True", generation: int = 1) -> tuple[Condition, ...]:
    """Return the conditions of a resource of which only Ready is known."""
    return with_condition((), ConditionType.READY, status, "Stable", generation=generation, now=NOW)


def test_a_new_condition_comes_last() -> None:
    both = with_condition(ready(), ConditionType.STALLED, "False", "Fine", generation=1, now=LATER)

    assert [each.type for each in both] == ["Ready", "Stalled"]


def test_a_condition_takes_the_place_of_the_one_of_its_type() -> None:
    before = with_condition(ready(), ConditionType.STALLED, "False", "Fine", generation=1, now=NOW)
    after = with_condition(before, ConditionType.READY, "False", "Upgrading", "as asked", generation=2, now=LATER)

    assert [(each.type, each.status, each.reason) for each in after] == [
        ("Ready", "False", "Upgrading"),
        ("Stalled", "False", "Fine"),
    ]
    assert after[1] == before[1]


def test_a_changed_status_is_a_transition() -> None:
    (changed,) = with_condition(ready(), ConditionType.READY, "False", "Gone", generation=1, now=LATER)

    assert changed.last_transition_time == LATER


def test_another_reason_or_generation_is_no_transition() -> None:
    (changed,) = with_condition(ready(), ConditionType.READY, "True", "Finished", "done", generation=2, now=LATER)

    assert changed.last_transition_time == NOW
    assert (changed.reason, changed.message, changed.observed_generation) == ("Finished", "done", 2)


def test_the_time_of_a_condition_that_the_definition_filled_in_is_that_of_the_first_look() -> None:
    default = ready()[0].replaced(last_transition_time=datetime(1970, 1, 1, tzinfo=UTC))
    (looked_at,) = with_condition((default,), ConditionType.READY, "True", "Stable", generation=1, now=NOW)

    assert looked_at.last_transition_time == NOW


def test_a_condition_of_an_older_generation_says_nothing_about_this_one() -> None:
    assert is_true(ready(generation=1), "Ready")
    assert is_true(ready(generation=1), "Ready", generation=1)
    assert not is_true(ready(generation=1), "Ready", generation=2)
    assert not is_true(ready("False"), "Ready")
    assert not is_true((), "Ready")


def test_a_condition_that_nobody_set_is_not_found() -> None:
    assert find_condition(ready(), "Stalled") is None
