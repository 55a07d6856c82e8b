"""Measurements in the form of `by_hand.json`, and BY_HAND.md, which shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from bench.by_hand.cases import CASES, SLOTS, WARM_UP
from bench.model import Circumstances, Model
from bench.summary import loads, spread
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
of the whole process tree, without broker and database, from the end of the first {warm} batches to that of the last
full one, so that starts and ends do not count, and little of what Java compiles; minimum and maximum are in brackets.
"Of by hand" is the median of the ratios within the rounds; the goal is at most {near:.2f}. {load}

Both sides do all the work: the sink that discards the rows takes each of them, with all of its columns.

Before that, each side has written its rows once. Their number and the sums of their numeric columns were the same on
all sides of a case.
"""


class Run(Model):
    """A run of a side of a case: the seconds for `records`, after the first batches, and those of all of it."""

    case: str
    side: str
    round: int
    records: int
    wall: float
    cpu: float
    whole_cpu: float
    load_before: float


class ByHand(Model):
    """All runs, and the number of rows in each case that were compared."""

    circumstances: Circumstances
    runs: tuple[Run, ...] = ()
    compared: Mapping[str, int] = {}


def micros(runs: Sequence[Run], case: str, side: str) -> dict[int, float]:
    """Return the CPU microseconds of a record, by round."""
    return {run.round: run.cpu / run.records * 1e6 for run in runs if (run.case, run.side) == (case, side)}


def ratio(runs: Sequence[Run], case: str, side: str) -> float | None:
    """Return the CPU of a side as a multiple of that of the side it is compared with; None without rounds of both."""
    base = CASES[case].sides[side].base
    if base is None:
        return None
    ours, theirs = micros(runs, case, side), micros(runs, case, base)
    found = [ours[number] / theirs[number] for number in ours.keys() & theirs.keys()]
    return median(found) if found else None


def table(runs: Sequence[Run], case: str) -> Table:
    """Return what a record costs on each side of a case."""
    head = ("", "rounds", "CPU µs / record", "of by hand", "records / s", "whole run, CPU s")
    rows = []
    for side, described in CASES[case].sides.items():
        costs = micros(runs, case, side)
        if not costs:
            continue
        mine = [run for run in runs if (run.case, run.side) == (case, side)]
        share = ratio(runs, case, side)
        rows.append(
            (
                described.title,
                str(len(costs)),
                spread(costs.values(), ".2f"),
                "–" if share is None else f"{share:.2f}",
                f"{median(run.records / run.wall for run in mine):,.0f}",
                f"{median(run.whole_cpu for run in mine):.1f}",
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
    text = _TEXT.format(slots=SLOTS, near=NEAR, warm=WARM_UP, load=loads(runs))
    parts = [_HEAD, f"{results.circumstances}\n", text]
    over = missed(runs)
    parts.append(
        "Over the goal:\n\n" + "\n".join(f"- {each}" for each in over) + "\n" if over else "All reach the goal.\n"
    )
    known = {run.case for run in runs}
    if unknown := [case.title for name, case in CASES.items() if name not in known]:
        parts.append(f"Not measured: {', '.join(unknown)}.\n")
    for name, case in CASES.items():
        measured = table(runs, name)
        if not measured.rows:
            continue
        records = max(run.records for run in runs if run.case == name)
        compared = results.compared.get(name)
        about = f"Measured over {records:,} records" + (f"; {compared:,} rows compared." if compared else ".")
        parts += [f"## {case.title}\n", f"{case.text} {about}\n", measured.markdown() + "\n"]
    return "\n".join(parts)
