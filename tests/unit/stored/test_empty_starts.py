"""Operators of a query continue with their state, or start empty."""

from __future__ import annotations

from streamjob.comparison.empty_starts import Starts, starts
from streamjob.comparison.operator_matching import Keeper, match
from streamjob.comparison.refusals import NewStateInOldChain, StateChanged
from streamjob.errors import CannotRestore
from streamjob.ids import OperatorUid

JOIN, AGGREGATION = "symmetricHashJoin", "stateStoreSave"
CHANGED = StateChanged("its windows were 60 s long, and are 30 s long", "undo it")
BEGINS = NewStateInOldChain("'hours' begins to keep state", "give it a chain")


def keeper(name: str, *uids: str) -> Keeper:
    return Keeper(frozenset(map(OperatorUid, uids)), name)


TWO = {0: keeper(AGGREGATION, "hours"), 1: keeper(JOIN, "pairs")}


def started(
    former: dict[int, Keeper], planned: dict[int, Keeper], causes: dict[int, CannotRestore], *, allow: bool
) -> Starts:
    return starts(match(former, planned), former, planned, causes, {}, allow=allow)


def verdicts(found: Starts) -> dict[str, str]:
    return {each.uid: each.verdict.value for each in found.findings}


def test_state_that_does_not_fit_keeps_a_query_from_its_start() -> None:
    found = started(TWO, TWO, {0: CHANGED}, allow=False)

    assert [each.refusal for each in found.findings] == [CHANGED]
    assert found.empty == ()


def test_an_operator_that_may_give_its_state_up_begins_empty_and_the_others_go_on() -> None:
    found = started(TWO, TWO, {0: CHANGED}, allow=True)

    assert found.numbers == {1: 1}
    assert found.empty == (0,)
    assert verdicts(found) == {"hours": "dropped"}
    assert "windows were 60 s long" in found.findings[0].why
    assert "earlier rows of open groups are missing" in found.findings[0].why


def test_an_operator_that_had_no_state_is_new_where_it_may_begin_without() -> None:
    former = {0: TWO[1]}

    assert verdicts(started(former, TWO, {0: BEGINS}, allow=False)) == {"hours": "refused", "pairs": "rewritten"}
    found = started(former, TWO, {0: BEGINS}, allow=True)
    assert (found.numbers, found.empty) == ({1: 0}, (0,))
    assert verdicts(found) == {"hours": "new", "pairs": "rewritten"}


def test_the_worst_that_becomes_of_an_operators_states_is_told() -> None:
    both = {0: keeper(AGGREGATION, "hours"), 1: keeper(JOIN, "hours")}
    former = {0: both[1], 1: both[0]}

    found = started(former, both, {0: CHANGED}, allow=True)

    assert found.numbers == {1: 0}
    assert verdicts(found) == {"hours": "dropped"}


def test_nothing_is_said_of_state_that_goes_on_as_it_was() -> None:
    assert started(TWO, TWO, {}, allow=True) == Starts(numbers={0: 0, 1: 1}, empty=(), findings=())


def test_state_variables_of_a_processor_cannot_start_empty_in_a_chain_that_has_run() -> None:
    variables = {0: keeper("transformWithStateInPySparkExec", "sessions")}

    for allow in (False, True):
        found = started(variables, variables, {0: CHANGED}, allow=allow)
        (finding,) = found.findings
        assert isinstance(finding.refusal, StateChanged)
        assert "its transformWithStateInPySparkExec cannot start empty" in finding.why
        assert "`chain: false`" in finding.refusal.fix
        assert found.empty == ()
