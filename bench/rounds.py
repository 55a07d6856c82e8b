"""Lets the sides of a comparison take turns, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from bench.processes import locked

S = TypeVar("S")


def order(sides: Sequence[S], number: int) -> list[S]:
    """Return the order of the sides in a round: each comes first, and last, about as often."""
    turn = number // 2 % len(sides)
    turned = [*sides[turn:], *sides[:turn]]
    return turned if number % 2 == 0 else turned[::-1]


def rounds(sides: Sequence[S], count: int, lock: Path | None) -> Iterator[tuple[int, list[S]]]:
    """Yield the number of each round, and the sides in its order, within one hold of the lock.

    Args:
        sides: what is compared: it runs as close together as can be.
        count: how many rounds.
        lock: see `locked`.
    """
    for number in range(count):
        with locked(lock):
            yield number, order(sides, number)
