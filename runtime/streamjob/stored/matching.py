"""Matches the state of a chain with the stateful operators of its new query, which Spark has numbered anew."""

from __future__ import annotations

from collections.abc import Mapping, Set
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
