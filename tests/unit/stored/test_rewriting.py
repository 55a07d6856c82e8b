"""Which state is rewritten for another number of partitions, and when it has come through unchanged."""

from __future__ import annotations

import pytest

from streamjob.comparison.rewrite_checks import (
    REWRITABLE,
    Contents,
    StatefulOperator,
    StateNotRewritable,
    StateRewrittenWrongly,
    check_rewritable,
    check_unchanged,
)

LABEL = "dedupe 0 of chain 'report'"
PLACE = ("default", "default")


def operator(name: str, *, join_format: int = 2, keyed: bool = True) -> StatefulOperator:
    return StatefulOperator(label=f"{name} 0 of chain 'report'", name=name, join_format=join_format, keyed=keyed)


def test_what_keeps_its_state_by_key_is_rewritten() -> None:
    check_rewritable(map(operator, REWRITABLE), 4)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (operator("globalLimit"), "globalLimit 0 of chain 'report' .* for 4 partitions: Spark has no way"),
        (operator("symmetricHashJoin", join_format=4), "it is in join state format 4"),
        (operator("stateStoreSave", keyed=False), "it has no key"),
    ],
    ids=["limit", "join", "total"],
)
def test_what_cannot_be_rewritten_is_named_with_the_reason(wrong: StatefulOperator, reason: str) -> None:
    with pytest.raises(StateNotRewritable, match=reason) as refused:
        check_rewritable([operator("dedupe"), wrong], 4)

    assert "remove maxParallelism" in refused.value.fix


def test_the_format_of_joins_matters_to_joins_only() -> None:
    check_rewritable([operator("dedupe", join_format=4)], 4)


def test_state_with_the_same_rows_in_their_places_is_unchanged() -> None:
    before = {PLACE: Contents(3, 77, misplaced=0), ("left", "default"): Contents(1, 5, misplaced=0)}

    assert check_unchanged(LABEL, before, dict(before)) == 4


@pytest.mark.parametrize(
    "after",
    [
        {},
        {PLACE: Contents(2, 77, misplaced=0)},
        {PLACE: Contents(3, 78, misplaced=0)},
        {PLACE: Contents(3, 77, misplaced=1)},
        {PLACE: Contents(3, 77, misplaced=0), ("default", "timers"): Contents(1, 1, misplaced=0)},
    ],
    ids=["gone", "lost", "changed", "misplaced", "more"],
)
def test_state_that_is_lost_changed_added_or_misplaced_is_noticed(after: dict[tuple[str, str], Contents]) -> None:
    with pytest.raises(StateRewrittenWrongly, match=LABEL):
        check_unchanged(LABEL, {PLACE: Contents(3, 77, misplaced=0)}, after)
