"""Measures Nexmark's queries on Flink, plain Spark and streamjob: `python -m bench.nexmark --help`."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.entry import Benchmark, parser, run
from bench.nexmark.events import make_events
from bench.nexmark.queries import QUERIES
from bench.nexmark.results import ANSWERS, COMPARED, PAGE, Answer, Compared, table
from bench.nexmark.sides import SIDES, Installed, Question, install
from bench.processes import RunFailed, measure
from pyarrow import dataset

CHUNK = 250_000
OUT_OF_MEMORY = "java.lang.OutOfMemoryError"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-nexmark", __doc__, "one round of few events")
    add = made.add_argument
    add("--rounds", type=int, default=5, metavar="N", help="rounds of all sides (5)")
    add("--events", type=int, default=5_000_000, metavar="N", help="events of the long runs (5,000,000)")
    add(
        "--few",
        type=int,
        default=1_000_000,
        metavar="N",
        help="events of the short ones, and of those compared (1,000,000)",
    )
    add("--query", choices=list(QUERIES), action="append", help="measure only this one (all)")
    add("--side", choices=SIDES, action="append", help="measure only this side (all)")
    add("--add", action="store_true", help="add rounds to the stored ones; compare only what is not compared")
    add("--timeout", type=float, default=900.0, metavar="S", help="seconds that one run may take (900)")
    options = made.parse_args()
    if options.quick:
        options.rounds, options.events, options.few = 1, 1_000_000, 500_000
    return options


class _Bench:
    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        self._options = benchmark.options
        self._queries = self._options.query or list(QUERIES)
        self._sides = self._options.side or list(SIDES)
        known = ANSWERS.load()
        add = self._options.add
        self._answers = list(known.runs) if add else []
        self._compared = {(each.query, each.side): each for each in COMPARED.load().runs} if add else {}
        self._remark = known.where.partition("\n\n")[2] if add else ""
        self._given_up: set[tuple[str, str, int]] = set()
        self._first = {
            query: max((each.round for each in self._answers if each.query == query), default=-1) + 1
            for query in self._queries
        }

    def run(self) -> None:
        """Compare each result with DuckDB's, then measure round by round; show and store after each."""
        options, benchmark = self._options, self._benchmark
        benchmark.tell("Flink, DuckDB and the events, if they are not there yet")
        installed = install(benchmark.cache)
        events = {size: make_events(benchmark.cache, size, CHUNK) for size in (options.few, options.events)}
        for query in self._queries:
            for side in self._sides:
                if (query, side) in self._compared:
                    continue
                question = self._question(query, events[options.few], installed, f"compared-{side}")
                out = question.directory / "out"
                measure(question.command(side, out), question.directory, options.timeout)
                rows = question.check(side, out)
                self._compared[query, side] = Compared(query=query, side=side, rows=rows)
                question.forget()
                benchmark.tell(f"{query}, {side}: {rows:,} rows, as DuckDB has them")
        for further, turn in benchmark.rounds(self._sides):
            for query in self._queries:
                for side in turn:
                    for size, directory in events.items():
                        if (query, side, size) not in self._given_up:
                            self._measure(self._first[query] + further, query, side, size, directory, installed)
            benchmark.keep(COMPARED, self._compared.values())
            benchmark.keep(ANSWERS, self._answers, remark=self._remark)
            benchmark.show(f"CPU µs per row behind round {further + 1}", table(self._answers))

    def _measure(self, number: int, query: str, side: str, size: int, events: Path, installed: Installed) -> None:
        question = self._question(query, events, installed, f"{number}-{side}-{size}")
        try:
            used = measure(question.command(side, None), question.directory, self._options.timeout)
        except RunFailed as error:
            if side == "streamjob":
                raise
            cause = "out of memory" if OUT_OF_MEMORY in (question.directory / "log.txt").read_text() else "failed"
            failed = {"failed": f"{cause} with {size:,} events"}
            self._compared[query, side] = self._compared[query, side].model_copy(update=failed)
            self._given_up.add((query, side, size))
            self._benchmark.tell(f"{query}, {side}, {size:,} events: {cause}: {str(error).partition(chr(10))[0]}")
            question.forget()
            return
        rows = sum(dataset.dataset(events / "spark" / each).count_rows() for each in QUERIES[query].tables)
        answer = Answer(
            query=query,
            side=side,
            round=number,
            events=size,
            rows=rows,
            cpu=used.cpu,
            load=used.load_before,
        )
        self._answers.append(answer)
        question.forget()
        self._benchmark.tell(answer)

    def _question(self, query: str, events: Path, installed: Installed, name: str) -> Question:
        directory = self._benchmark.work / f"{query.replace(' ', '-')}-{name}"
        return Question(query, QUERIES[query], events, directory, installed)


if __name__ == "__main__":
    run(arguments(), PAGE, lambda benchmark: _Bench(benchmark).run())
