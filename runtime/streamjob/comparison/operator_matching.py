"""Matches a chain's state with the stateful operators of its new query, which Spark has renumbered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from streamjob.ids import OperatorUid


@dataclass(frozen=True, slots=True)
class Keeper:
    """A stateful operator of a query.

    Args:
        uids: the job operator that owns it; several if it is ambiguous.
        name: Spark's name for it.
    """

    uids: Set[OperatorUid]
    name: str


@dataclass(frozen=True, slots=True)
class Matched:
    """The result of the matching.

    Args:
        numbers: maps the number of an operator in the new query to the number of the one whose state it takes over.
        new: numbers in the new query of operators without previous state.
        gone: previous numbers of operators whose state is not taken over.
    """

    numbers: Mapping[int, int]
    new: tuple[int, ...]
    gone: tuple[int, ...]


def match(former: Mapping[int, Keeper], planned: Mapping[int, Keeper]) -> Matched:
    """Match by owner and Spark's name; several of the same owner and name are matched in order."""
    left = dict(sorted(former.items()))
    numbers: dict[int, int] = {}
    for number, keeper in sorted(planned.items()):
        fits = [had for had, each in left.items() if each.name == keeper.name and each.uids & keeper.uids]
        found = next((had for had in fits if left[had].uids == keeper.uids), next(iter(fits), None))
        if found is not None:
            numbers[number] = found
            del left[found]
    return Matched(numbers, tuple(sorted(planned.keys() - numbers.keys())), tuple(left))


def not_told(
    matched: Matched, former: Mapping[int, Keeper], was: Sequence[OperatorUid], now: Sequence[OperatorUid]
) -> frozenset[OperatorUid]:
    """Return the operators that may have received the state of another one.

    Several states of the same name that may belong to any of several operators are assigned in order. This is right if
    all of these operators are still there, in the same order.

    Args:
        was: the operators of the snapshot's query, from output to inputs.
        now: the operators of the new query, in the same direction.
    """
    found: set[OperatorUid] = set()
    for uids, name in {(frozenset(each.uids), each.name) for each in former.values() if len(each.uids) > 1}:
        numbers = [number for number, each in former.items() if (each.uids, each.name) == (uids, name)]
        given = [number for number in numbers if number in matched.numbers.values()]
        moved = [uid for uid in was if uid in uids and uid in now] != [uid for uid in now if uid in uids]
        if given and len(numbers) > 1 and (moved or len(given) < len(numbers)):
            found |= uids.intersection(now)
    return frozenset(found)
