"""Measurements, and BY_HAND.md, which shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.by_hand.cases import CASES, SLOTS, WARM_UP
from bench.results import Page, Records, Row, head
from bench.tables import Table, loads, mid, of_side, paired, spread

NEAR = 1.05
"""Most CPU of ours, as a multiple of plain Spark's."""

_TEXT = """\
Each run is a process of its own with {slots} task slots, and discards its rows; the sides alternate within a round. All
have the same settings of Spark, and streamjob takes a checkpoint every 10 s. "CPU µs / record" is user and system time
of the whole process tree, without the broker, from the end of the first {warm} batches to that of the last
full one, so that starts and ends do not count, and little of what Java compiles; minimum and maximum are in brackets.
"Of by hand" is the median of the ratios within the rounds; the goal is at most {near:.2f}. {load}

Both sides do all the work: the sink that discards the rows takes each of them, with all of its columns.

Before that, each side has written its rows once. Their number and the sums of their numeric columns were the same on
all sides of a case.
"""


class Run(Row):
    """A run of a side of a case: the seconds for `records`, after the first batches, and those of all of it.

    The sides of the case had `compared` equal rows before.
    """

    case: str
    side: str
    round: int
    records: int
    compared: int
    wall: float
    cpu: float
    whole_cpu: float
    load_before: float

    @property
    def micros(self) -> float:
        """CPU microseconds of a record."""
        return self.cpu / self.records * 1e6


RUNS = Records("by-hand", Run)


def _of_case(runs: Sequence[Run], case: str) -> list[Run]:
    return [run for run in runs if run.case == case]


def ratio(runs: Sequence[Run], case: str, side: str) -> float | None:
    """Return the CPU of a side as a multiple of that of the side it is compared with; None without rounds of both."""
    base = CASES[case].sides[side].base
    return None if base is None else paired(_of_case(runs, case), side, base, lambda run: run.micros)


def table(runs: Sequence[Run], case: str) -> Table:
    """Return what a record costs on each side of a case."""
    sides, mine = CASES[case].sides, _of_case(runs, case)

    def of_by_hand(side: str) -> str:
        return "–" if (found := ratio(runs, case, side)) is None else f"{found:.2f}"

    return Table.of(
        [side for side in sides if of_side(mine, side)],
        ("", lambda side: sides[side].title),
        ("rounds", lambda side: len(of_side(mine, side))),
        ("CPU µs / record", lambda side: spread((run.micros for run in of_side(mine, side)), ".2f")),
        ("of by hand", of_by_hand),
        ("records / s", lambda side: mid((run.records / run.wall for run in of_side(mine, side)), ",.0f")),
        ("whole run, CPU s", lambda side: mid((run.whole_cpu for run in of_side(mine, side)), ".1f")),
    )


def missed(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the sides that miss the goal, each with its ratio."""
    for case, described in CASES.items():
        for side, each in described.sides.items():
            share = ratio(runs, case, side)
            if share is not None and share > NEAR:
                yield f"{described.title}, {each.title.removeprefix('streamjob, ')}: {share:.2f}"


def _render() -> str:
    measured = RUNS.load()
    runs, title = measured.runs, "Decoding and bad rows by hand"
    parts = [
        head(title, "bench-by-hand", "by_hand/results.py", "as measured, misses included"),
        f"{measured.where}\n",
        _TEXT.format(slots=SLOTS, near=NEAR, warm=WARM_UP, load=loads(runs)),
    ]
    over = "".join(f"- {each}\n" for each in missed(runs))
    parts.append(f"Over the goal:\n\n{over}" if over else "All reach the goal.\n")
    for name, case in CASES.items():
        if mine := _of_case(runs, name):
            records = max(run.records for run in mine)
            about = f"Measured over {records:,} records; {mine[0].compared:,} rows compared."
            parts += [f"## {case.title}\n", f"{case.text} {about}\n", table(runs, name).markdown()]
    return "\n".join(parts)


PAGE = Page("BY_HAND", _render)
