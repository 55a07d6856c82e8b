"""Lays measurements out as tables, for the terminal and the pages alike, and summarizes many runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Protocol, TypeVar

from rich.table import Table as RichTable

MB = 1e6
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a head; the first column is text, the others are numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(things: Iterable[T], *columns: tuple[str, Callable[[T], object]]) -> Table:
        """Return a table with a line for each thing.

        Args:
            things: the lines.
            columns: the head of each column, and how to get its text from a thing.
        """
        rows = (tuple(str(text(each)) for _, text in columns) for each in things)
        return Table(tuple(head for head, _ in columns), tuple(rows))

    def markdown(self) -> str:
        """Return the table in Markdown."""
        rule = "|".join(["---", *("---:" for _ in self.head[1:])])
        lines = [f"| {' | '.join(self.head)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in self.rows)]
        return "\n".join(lines) + "\n"

    def rich(self, title: str) -> RichTable:
        """Return the table for a terminal."""
        table = RichTable(title=title, title_justify="left")
        for number, name in enumerate(self.head):
            table.add_column(name, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*row)
        return table


def goal_list(goals: Iterable[tuple[str, bool]]) -> str:
    """Return a list in Markdown of goals, each with whether it was reached; nothing for none."""
    return "".join(f"- {'reached' if reached else '**missed**'}: {text}\n" for text, reached in goals)


def quantile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that at least `share` of all values do not exceed. Raises ValueError for none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    rank = -int(-share * len(ordered) // 1)
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def mid(values: Iterable[float], form: str, unit: float = 1.0) -> str:
    """Return the median of values in a unit, as text; a dash for none."""
    known = list(values)
    return f"{median(known) / unit:{form}}" if known else "–"


def spread(values: Iterable[float], form: str) -> str:
    """Return the median of values, and in brackets the least and the most."""
    known = list(values)
    return f"{median(known):{form}} ({min(known):{form}}–{max(known):{form}})"


class Loaded(Protocol):
    """Something measured, and the load average before it; None if that is not known."""

    @property
    def load_before(self) -> float | None: ...


def loads(runs: Iterable[Loaded], what: str = "run") -> str:
    """Return a sentence on how busy the machine was before each of the runs; nothing if that is not known of any."""
    known = [run.load_before for run in runs if run.load_before is not None]
    return f"Load average before a {what}: median {median(known):.1f}, most {max(known):.1f}." if known else ""


class InRound(Protocol):
    """A run of a side, in a round."""

    @property
    def side(self) -> str: ...
    @property
    def round(self) -> int: ...


class Counted(InRound, Protocol):
    """A run of a side over a number of records, in a round."""

    @property
    def records(self) -> int: ...


P = TypeVar("P", bound=InRound)
C = TypeVar("C", bound=Counted)


def of_side(runs: Iterable[P], side: str) -> list[P]:
    """Return the runs of a side."""
    return [run for run in runs if run.side == side]


def interleaved(runs: Iterable[InRound]) -> str:
    """Return a sentence on how many rounds were run."""
    rounds = len({run.round for run in runs})
    return "One round." if rounds == 1 else f"Medians of {rounds} interleaved rounds."


def paired(runs: Iterable[P], side: str, base: str, figure: Callable[[P], float]) -> float | None:
    """Return the median over the rounds of a figure of one side as a multiple of another's; None without pairs.

    The two runs of a pair were made one shortly after the other, so what disturbed the machine was about the same.
    """
    of = {(run.side, run.round): figure(run) for run in runs}
    rounds = {number for each, number in of if each == side} & {number for each, number in of if each == base}
    ratios = [of[side, number] / of[base, number] for number in rounds if of[base, number]]
    return median(ratios) if ratios else None


def longest(runs: Iterable[C], side: str) -> list[C]:
    """Return the runs of a side with the most records."""
    mine = of_side(runs, side)
    return [run for run in mine if run.records == max(each.records for each in mine)]


def per_million(runs: Iterable[C], side: str, figure: Callable[[C], float]) -> dict[int, float]:
    """Return what a further million records adds to a figure of a side, by round.

    It is the difference of the longest and the shortest run of a round, so that starts and ends do not count. Rounds
    with one run of the side are left out.
    """
    by: dict[int, list[C]] = {}
    for run in of_side(runs, side):
        by.setdefault(run.round, []).append(run)
    found = {}
    for number, mine in sorted(by.items()):
        few, many = (chosen(mine, key=lambda run: run.records) for chosen in (min, max))
        if few.records < many.records:
            found[number] = (figure(many) - figure(few)) * 1e6 / (many.records - few.records)
    return found
