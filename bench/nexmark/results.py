"""Measurements of Nexmark, in the form of `nexmark.json`, and NEXMARK.md, which shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from bench.model import Circumstances, Model
from bench.nexmark.picture import draw
from bench.nexmark.queries import MISSING, QUERIES
from bench.nexmark.sides import SIDES
from bench.tables import Table

NAMES = {"flink": "Flink 2.3", "spark": "plain Spark 4.3", "streamjob": "streamjob"}

_HEAD = """\
# Nexmark

<!-- Written by `make bench-nexmark`; change bench/nexmark/results.py. -->

Numbers as measured, misses included. `nexmark.json` has every run.
"""

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
  follows the time that they take. It runs the join of q7 as an aggregation
  ([the reason](../docs/decisions/plan-rules.md#joins-with-ones-own-maxima)).
"""


class Answer(Model):
    """A run: `rows` are those that the query reads, times are seconds."""

    query: str
    side: str
    round: int
    events: int
    rows: int
    wall: float
    cpu: float
    load: float


class Nexmark(Model):
    """All runs, the rows in each result that was compared with DuckDB's, and the sides that failed, by query.

    `remark` says what a reader has to know about how the runs came about.
    """

    circumstances: Circumstances
    answers: tuple[Answer, ...] = ()
    compared: Mapping[str, Mapping[str, int]] = {}
    failed: Mapping[str, Mapping[str, str]] = {}
    remark: str = ""


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
    head = ["query"]
    for kind in ("cold", "steady"):
        head += [f"{NAMES[side]}, {kind}" for side in SIDES] + [f"of Flink's, {kind}", f"of Spark's, {kind}"]
    rows = []
    for query in QUERIES:
        if not any(each.query == query for each in answers):
            continue
        line = [query]
        for figure in (cold, steady):
            by_side = {side: figure(answers, query, side) for side in SIDES}
            line += [_text(by_side[side]) for side in SIDES]
            line += [_ratio(by_side["streamjob"], by_side[other]) for other in ("flink", "spark")]
        rows.append(tuple(line))
    return Table(tuple(head), tuple(rows))


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _ratio(ours: float | None, theirs: float | None) -> str:
    return "–" if ours is None or not theirs or theirs <= 0 else f"{ours / theirs:.2f}"


def render(results: Nexmark) -> str:
    """Return NEXMARK.md."""
    answers = results.answers
    sizes = sorted({each.events for each in answers})
    loads = [each.load for each in answers]
    text = _TEXT.format(
        large=sizes[-1],
        small=sizes[0],
        rounds=_rounds(answers),
        load_low=min(loads),
        load_high=max(loads),
    )
    remark = [f"{results.remark}\n"] if results.remark else []
    parts = [_HEAD, f"{results.circumstances}\n", *remark, "![CPU per row by query and side](nexmark.svg)\n", text]
    parts.append(table(answers).markdown() + "\n")
    for query, sides in results.failed.items():
        parts += [f"- {query}: {NAMES[side]} {cause}.\n" for side, cause in sides.items()]
    questions = [(name, QUERIES[name].purpose, str(max(sides.values()))) for name, sides in results.compared.items()]
    parts += ["## Queries\n", Table(("query", "question", "rows compared"), tuple(questions)).markdown() + "\n"]
    parts += ["## Not measured\n", Table(("query", "reason"), tuple(MISSING.items())).markdown() + "\n"]
    return "\n".join(parts)


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
