"""Measurements of Nexmark, and NEXMARK.md, which shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from bench.nexmark.picture import draw
from bench.nexmark.queries import MISSING, QUERIES
from bench.nexmark.sides import SIDES
from bench.results import Page, Records, Row, head
from bench.tables import Table

NAMES = {"flink": "Flink 2.3", "spark": "plain Spark 4.3", "streamjob": "streamjob"}

_TEXT = """\
Persons, auctions and bids of an auction site (1 : 3 : 46), made with a seed, as Parquet files. Each side answers each
query in fresh processes, two task slots, and discards the result; sides alternate within a round. Before that, each
side has written its result once, and it was compared with DuckDB's row by row (plain Spark without its last windows,
which it does not close).

CPU is user and system time of the whole process tree, in microseconds per row that the query reads. "Cold" is all of a
run of {large:,} events, the start included. "Steady" is the difference between a run of {large:,} and one of {small:,}
events, so that start, warm-up and end do not count. The figures are medians of {rounds} round(s). The load was
{load_low:.1f} to {load_high:.1f}.

- **Flink 2.3** from PyPI, in one process: state in RocksDB, object reuse, mini-batches; no checkpoints.
- **Plain Spark 4.3** with its defaults (state on the heap), four state partitions, and batches of a million events.
- **streamjob** with its defaults: state in RocksDB, a checkpoint every 10 s into a directory, and batches whose size
  follows the time that they take.

q7 is measured twice. The join reads the bids twice, and keeps every bid in RocksDB until its window ends. "q7 by
max_by" asks the same question by one aggregation, which keeps 16 bids of a window. The cookbook has
[such a query](../docs/cookbook/highest-of-window.yaml).
"""


_Column = tuple[str, Callable[[str], str]]


class Answer(Row):
    """A run: `rows` are those that the query reads."""

    query: str
    side: str
    round: int
    events: int
    rows: int
    cpu: float
    load: float


class Compared(Row):
    """A result with so many rows that was compared with DuckDB's; `failed` says how larger runs of the side failed."""

    query: str
    side: str
    rows: int
    failed: str = ""


ANSWERS = Records("nexmark", Answer)
COMPARED = Records("nexmark-compared", Compared)


def cold(answers: Sequence[Answer], query: str, side: str) -> float | None:
    """Return CPU microseconds per row of the larger runs, start included; None without one."""
    large = max(each.events for each in answers)
    found = [each.cpu / each.rows * 1e6 for each in answers if _is(each, query, side) and each.events == large]
    return median(found) if found else None


def steady(answers: Sequence[Answer], query: str, side: str) -> float | None:
    """Return CPU microseconds per further row; None if only one size was run."""
    sizes = sorted({each.events for each in answers})
    if len(sizes) < 2:
        return None
    runs = {(each.round, each.events): each for each in answers if _is(each, query, side)}
    found = []
    for number in {each.round for each in runs.values()}:
        pair = runs.get((number, sizes[0])), runs.get((number, sizes[-1]))
        if pair[0] is not None and pair[1] is not None:
            found.append((pair[1].cpu - pair[0].cpu) / (pair[1].rows - pair[0].rows) * 1e6)
    return median(found) if found else None


def _is(answer: Answer, query: str, side: str) -> bool:
    return (answer.query, answer.side) == (query, side)


def table(answers: Sequence[Answer]) -> Table:
    """Return the table: a line per query, a column per side, cold and steady."""

    def columns(kind: str, figure: Callable[[Sequence[Answer], str, str], float | None]) -> list[_Column]:
        def of(side: str) -> Callable[[str], str]:
            return lambda query: "–" if (value := figure(answers, query, side)) is None else f"{value:.2f}"

        def ratio(other: str) -> Callable[[str], str]:
            def text(query: str) -> str:
                ours, theirs = figure(answers, query, "streamjob"), figure(answers, query, other)
                return "–" if ours is None or not theirs or theirs <= 0 else f"{ours / theirs:.2f}"

            return text

        found = [(f"{NAMES[side]}, {kind}", of(side)) for side in SIDES]
        return [*found, (f"of Flink's, {kind}", ratio("flink")), (f"of Spark's, {kind}", ratio("spark"))]

    queries = [query for query in QUERIES if any(each.query == query for each in answers)]
    return Table.of(queries, ("query", str), *columns("cold", cold), *columns("steady", steady))


def _render() -> str:
    measured, compared = ANSWERS.load(), COMPARED.load().runs
    answers = measured.runs
    sizes = sorted({each.events for each in answers})
    loads = [each.load for each in answers]
    text = _TEXT.format(
        large=sizes[-1],
        small=sizes[0],
        rounds=_rounds(answers),
        load_low=min(loads),
        load_high=max(loads),
    )
    parts = [
        head("Nexmark", "bench-nexmark", "nexmark/results.py", "as measured, misses included"),
        f"{measured.where}\n",
    ]
    parts += ["![CPU per row by query and side](nexmark.svg)\n", text, table(answers).markdown()]
    parts += [f"- {each.query}: {NAMES[each.side]} {each.failed}.\n" for each in compared if each.failed]
    rows = {name: max(each.rows for each in compared if each.query == name) for name in _queries(compared)}
    questions = tuple((name, QUERIES[name].purpose, str(count)) for name, count in rows.items())
    parts += ["## Queries\n", Table(("query", "question", "rows compared"), questions).markdown()]
    parts += ["## Not measured\n", Table(("query", "reason"), tuple(MISSING.items())).markdown()]
    return "\n".join(parts)


def _queries(compared: Sequence[Compared]) -> list[str]:
    return list(dict.fromkeys(each.query for each in compared))


def _rounds(answers: Sequence[Answer]) -> str:
    rounds: dict[str, set[int]] = {}
    for each in answers:
        rounds.setdefault(each.query, set()).add(each.round)
    counts = sorted({len(each) for each in rounds.values()})
    return " to ".join(map(str, (counts[0], counts[-1]) if len(counts) > 1 else counts))


def picture(answers: Sequence[Answer]) -> str:
    """Return the picture of the cold figures as SVG."""
    queries = [query for query in QUERIES if any(each.query == query for each in answers)]
    return draw({query: {NAMES[side]: cold(answers, query, side) for side in SIDES} for query in queries})


PAGE = Page("NEXMARK", _render, lambda: picture(ANSWERS.load().runs))
