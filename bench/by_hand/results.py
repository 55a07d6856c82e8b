"""Measurements in the form of `by_hand.json`, and BY_HAND.md, which shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from bench.by_hand.cases import CASES, SLOTS
from bench.model import Circumstances, Model
from bench.summary import interleaved, loads, per_million, spread
from bench.tables import Table

NEAR = 1.05
"""Most CPU of ours, as a multiple of plain Spark's."""

_HEAD = """\
# Decoding, bad rows and joins by hand

<!-- Written by `make bench-by-hand`; change bench/by_hand/results.py. -->

Numbers as measured, misses included. `by_hand.json` has every run.
"""

_TEXT = """\
Each run is a process of its own with {slots} task slots, and discards its rows; the sides alternate within a round. All
have the same settings of Spark, and streamjob takes a checkpoint every 10 s. "CPU µs / record" is user and system time
of the whole process tree, without broker and database, for a further record: the difference of a long run and a short
one, so that starts and ends do not count; minimum and maximum are in brackets. "Of by hand" is the median of the ratios
within the rounds; the goal is at most {near:.2f}. {rounds} {load}

A short run alone takes {least:.0f} to {most:.0f} CPU s, most of them for the start and for what Java compiles, and
these vary by seconds. So the figures of a single round are rough, and their ratios too.

Before that, each side has written its rows once. Their number and the sums of their numeric columns were the same on
all sides of a case.
"""


class Run(Model):
    """A run of a side of a case: `cpu` and `wall` are seconds."""

    case: str
    side: str
    round: int
    records: int
    wall: float
    cpu: float
    load_before: float


class ByHand(Model):
    """All runs, and the number of rows in each case that were compared."""

    circumstances: Circumstances
    runs: tuple[Run, ...] = ()
    compared: Mapping[str, int] = {}


def micros(runs: Sequence[Run], case: str, side: str) -> dict[int, float]:
    """Return the CPU microseconds of a further record, by round."""
    return per_million([run for run in runs if run.case == case], side, lambda run: run.cpu)


def ratio(runs: Sequence[Run], case: str, side: str) -> float | None:
    """Return the CPU of a side as a multiple of that of the side it is compared with; None without rounds of both."""
    base = CASES[case].sides[side].base
    if base is None:
        return None
    ours, theirs = micros(runs, case, side), micros(runs, case, base)
    found = [ours[number] / theirs[number] for number in ours.keys() & theirs.keys()]
    return median(found) if found else None


def table(runs: Sequence[Run], case: str) -> Table:
    """Return what a further record costs on each side of a case."""
    head = ("", "rounds", "CPU µs / record", "of by hand", "records / s", "whole run, CPU s")
    rows = []
    for side, described in CASES[case].sides.items():
        costs = micros(runs, case, side)
        if not costs:
            continue
        mine = [run for run in runs if (run.case, run.side) == (case, side)]
        walls = per_million(mine, side, lambda run: run.wall).values()
        share = ratio(runs, case, side)
        rows.append(
            (
                described.title,
                str(len(costs)),
                spread(costs.values(), ".2f"),
                "–" if share is None else f"{share:.2f}",
                f"{1e6 / median(walls):,.0f}",
                f"{median(run.cpu for run in mine if run.records == max(each.records for each in mine)):.1f}",
            )
        )
    return Table(head, tuple(rows))


def missed(runs: Sequence[Run]) -> list[str]:
    """Return the sides that miss the goal, each with its ratio."""
    found = []
    for case, described in CASES.items():
        for side, each in described.sides.items():
            share = ratio(runs, case, side)
            if share is not None and share > NEAR:
                found.append(f"{described.title}, {each.title.removeprefix('streamjob, ')}: {share:.2f}")
    return found


def render(results: ByHand) -> str:
    """Return BY_HAND.md."""
    runs = results.runs
    smallest = {name: min((run.records for run in runs if run.case == name), default=0) for name in CASES}
    short = [run.cpu for run in runs if run.records == smallest[run.case]]
    text = _TEXT.format(
        slots=SLOTS, near=NEAR, rounds=interleaved(runs), load=loads(runs), least=min(short), most=max(short)
    )
    parts = [_HEAD, f"{results.circumstances}\n", text]
    over = missed(runs)
    parts.append(
        "Over the goal:\n\n" + "\n".join(f"- {each}" for each in over) + "\n" if over else "All reach the goal.\n"
    )
    for name, case in CASES.items():
        measured = table(runs, name)
        if not measured.rows:
            continue
        sizes = sorted({run.records for run in runs if run.case == name})
        compared = results.compared.get(name)
        about = f"Runs of {sizes[-1]:,} and {sizes[0]:,} records" + (
            f"; {compared:,} rows compared." if compared is not None else "."
        )
        parts += [f"## {case.title}\n", f"{case.text} {about}\n", measured.markdown() + "\n"]
    return "\n".join(parts)
