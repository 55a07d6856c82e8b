"""Decides which stateful operators of a query continue with their state, and which start empty if that is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from streamjob.comparison.operator_matching import Keeper, Matched
from streamjob.comparison.refusals import NewStateInOldChain
from streamjob.comparison.verdicts import Finding, Kind, Verdict, refused
from streamjob.errors import CannotRestore
from streamjob.ids import OperatorUid

EMPTY = "it starts empty, so earlier rows of open groups are missing in its results"
"""The cost of a start without state, in words."""

BEGINS = "it starts empty in a chain that has run"
"""The start of an operator that has no state in the snapshot, in words."""

_VARIABLES = "transformWithState"
"""Spark's names of operators with state variables begin with this."""

_WEIGHTS = (Verdict.REWRITTEN, Verdict.MIGRATED, Verdict.NEW, Verdict.DROPPED, Verdict.REFUSED)


@dataclass(frozen=True, slots=True)
class Starts:
    """How the stateful operators of a query start.

    Args:
        numbers: by the number of an operator, the number of the former one whose state it continues with.
        empty: the numbers of the operators that start empty.
        findings: one for each operator of the job whose state does not stay as it was.
    """

    numbers: Mapping[int, int]
    empty: tuple[int, ...]
    findings: tuple[Finding, ...]


def starts(
    matched: Matched,
    former: Mapping[int, Keeper],
    planned: Mapping[int, Keeper],
    causes: Mapping[int, CannotRestore],
    migrated: Mapping[int, str],
    *,
    allow: bool,
) -> Starts:
    """Return how the stateful operators of a query start.

    Args:
        matched: the former operator for each operator of the new query.
        former: the operators that have state in the snapshot.
        planned: the operators of the new query.
        causes: by number, the reason why an operator of the new query cannot continue with state.
        migrated: by number, how the state of an operator of the new query changes.
        allow: whether such an operator may start empty; otherwise the query does not start.
    """
    found: dict[OperatorUid, Finding] = {}
    for each in _findings(matched, former, planned, causes, migrated, allow):
        uid = OperatorUid(each.uid)
        # An operator may keep several states: the worst finding is the one to show.
        if uid not in found or _WEIGHTS.index(each.verdict) > _WEIGHTS.index(found[uid].verdict):
            found[uid] = each
    empty = tuple(sorted(number for number in causes if allow and _may_start_empty(planned[number])))
    numbers = {number: had for number, had in matched.numbers.items() if number not in causes}
    return Starts(numbers, empty, tuple(found.values()))


def _findings(
    matched: Matched,
    former: Mapping[int, Keeper],
    planned: Mapping[int, Keeper],
    causes: Mapping[int, CannotRestore],
    migrated: Mapping[int, str],
    allow: bool,
) -> Iterator[Finding]:
    for number, cause in causes.items():
        for uid in sorted(planned[number].uids):
            if not _may_start_empty(planned[number]):
                yield refused(Kind.OPERATOR, uid, _only_in_a_new_chain(cause, planned[number]))
            else:
                yield _empty(uid, cause) if allow else refused(Kind.OPERATOR, uid, cause)
    for number, why in migrated.items():
        for uid in planned[number].uids:
            yield Finding(kind=Kind.OPERATOR, uid=uid, verdict=Verdict.MIGRATED, why=why)
    for number, had in matched.numbers.items():
        if number != had and number not in causes:
            for uid in planned[number].uids:
                name = planned[number].name
                why = f"its {name} continues with its state, as number {number} of the query, not {had}"
                yield Finding(kind=Kind.OPERATOR, uid=uid, verdict=Verdict.REWRITTEN, why=why)
    for number in matched.gone:
        for uid in former[number].uids:
            why = f"the state of its {former[number].name} is given up"
            yield Finding(kind=Kind.OPERATOR, uid=uid, verdict=Verdict.DROPPED, why=why)


def _may_start_empty(keeper: Keeper) -> bool:
    return not keeper.name.startswith(_VARIABLES)


def _only_in_a_new_chain(cause: CannotRestore, keeper: Keeper) -> CannotRestore:
    ways = "undo the change; if a variable or a column was renamed, give the operator `renames: {former: present}`"
    _, queries, named = cause.fix.partition("; or give the job `migrate: ")
    return type(cause)(
        f"{cause.what}; its {keeper.name} cannot start empty in a chain that has run",
        f"{ways}{queries}{named.partition(', or give the state up with')[0]}; or give it another uid and "
        "`chain: false`, and drop its state with --allow-non-restored-state",
    )


def given_up(cause: CannotRestore) -> str:
    """Return in words that an operator drops its state, and the reason."""
    return f"its state is given up: {EMPTY}. {cause.what}"


def _empty(uid: OperatorUid, cause: CannotRestore) -> Finding:
    if isinstance(cause, NewStateInOldChain):
        return Finding(kind=Kind.OPERATOR, uid=uid, verdict=Verdict.NEW, why=BEGINS)
    return Finding(kind=Kind.OPERATOR, uid=uid, verdict=Verdict.DROPPED, why=given_up(cause))
