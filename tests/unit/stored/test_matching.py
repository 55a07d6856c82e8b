"""The owners of state in a query whose stateful operators Spark has renumbered."""

from __future__ import annotations

import pytest

from streamjob.comparison.operator_matching import Keeper, Matched, match, not_told
from streamjob.ids import OperatorUid

JOIN, AGGREGATION = "symmetricHashJoin", "stateStoreSave"


def keeper(name: str, *uids: str) -> Keeper:
    return Keeper(frozenset(map(OperatorUid, uids)), name)


def test_state_follows_its_operator_to_another_number() -> None:
    former = {0: keeper(AGGREGATION, "hours"), 1: keeper(AGGREGATION, "minutes")}

    assert match(former, {0: keeper(AGGREGATION, "minutes")}) == Matched({0: 1}, (), (0,))
    assert match(former, {0: keeper(AGGREGATION, "minutes"), 1: keeper(AGGREGATION, "hours")}).numbers == {0: 1, 1: 0}


def test_state_of_another_kind_is_not_the_operators_own() -> None:
    former = {0: keeper(AGGREGATION, "report")}

    assert match(former, {0: keeper(JOIN, "report")}) == Matched({}, (0,), (0,))


def test_several_states_of_one_operator_go_on_in_their_order() -> None:
    former = {0: keeper(AGGREGATION, "report"), 1: keeper(AGGREGATION, "report")}

    assert match(former, former).numbers == {0: 0, 1: 1}
    assert match(former, {0: former[0], 1: former[1], 2: former[0]}) == Matched({0: 0, 1: 1}, (2,), ())


def test_state_that_may_be_of_several_goes_to_the_one_that_is_there() -> None:
    former = {0: keeper("dedupe", "first", "second"), 1: keeper("dedupe", "second")}

    assert match(former, {0: keeper("dedupe", "second")}).numbers == {0: 1}
    assert match(former, {0: keeper("dedupe", "first")}).numbers == {0: 0}


FIRST, SECOND, NEW = OperatorUid("first"), OperatorUid("second"), OperatorUid("new")
EITHER = keeper("dedupe", FIRST, SECOND)


@pytest.mark.parametrize(
    ("planned", "now", "concerned"),
    [
        ({0: EITHER, 1: EITHER}, [FIRST, SECOND], set()),
        ({0: EITHER, 1: EITHER}, [FIRST, NEW, SECOND], set()),
        ({0: EITHER, 1: EITHER}, [SECOND, FIRST], {FIRST, SECOND}),
        ({0: keeper("dedupe", SECOND)}, [SECOND], {SECOND}),
        ({0: keeper("other", NEW)}, [NEW], set()),
    ],
    ids=["as they were", "another between them", "in another order", "one is gone", "both are gone"],
)
def test_states_that_may_be_of_any_of_several_are_given_to_all_of_them_in_their_order_or_to_none(
    planned: dict[int, Keeper], now: list[OperatorUid], concerned: set[OperatorUid]
) -> None:
    former = {0: EITHER, 1: EITHER}

    assert not_told(match(former, planned), former, [FIRST, SECOND], now) == concerned


def test_one_state_is_given_to_the_one_operator_that_keeps_some_of_those_that_may_have() -> None:
    former = {0: EITHER, 1: keeper("join", FIRST, SECOND)}
    planned = {0: keeper("dedupe", SECOND)}

    assert not not_told(match(former, planned), former, [FIRST, SECOND], [SECOND])
