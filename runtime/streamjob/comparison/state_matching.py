"""Matches the state of a chain with the stateful operators of its new query, which Spark has numbered anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from streamjob.ids import OperatorUid


@dataclass(frozen=True, slots=True)
class Keeper:
    """A stateful operator of a query.

    Args:
        uids: the job's operator that it is of; several if it may be of any of them.
        name: what Spark calls it.
    """

    uids: Set[OperatorUid]
    name: str


@dataclass(frozen=True, slots=True)
class Matched:
    """Which state is whose.

    Args:
        numbers: by the number of an operator of the new query, the number of the one whose state it goes on with.
        new: the numbers of those that have none.
        gone: the former numbers of those whose state nobody goes on with.
    """

    numbers: Mapping[int, int]
    new: tuple[int, ...]
    gone: tuple[int, ...]


def match(former: Mapping[int, Keeper], planned: Mapping[int, Keeper]) -> Matched:
    """Match by operator and by what Spark calls it; several of one operator and name, in their order."""
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
    """Return the operators that may have been given the state of another one.

    Several states of the same name that may be of any of several operators are given to them in their order. That is
    right as long as all of them are, and the operators are in the order in which they were.

    Args:
        matched: what `match` has found.
        former: what it was given.
        was: the operators of the query that the snapshot is of, from its output towards its inputs.
        now: those of the new query.
    """
    found: set[OperatorUid] = set()
    for uids, name in {(frozenset(each.uids), each.name) for each in former.values() if len(each.uids) > 1}:
        numbers = [number for number, each in former.items() if (each.uids, each.name) == (uids, name)]
        given = [number for number in numbers if number in matched.numbers.values()]
        moved = [uid for uid in was if uid in uids and uid in now] != [uid for uid in now if uid in uids]
        if given and len(numbers) > 1 and (moved or len(given) < len(numbers)):
            found |= uids.intersection(now)
    return frozenset(found)
