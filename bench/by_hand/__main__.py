"""Measures decoding and bad rows against plain Spark by hand: `python -m bench.by_hand --help`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.batches import Batch, batches_of, our_batches, used_between
from bench.by_hand.cases import BATCH, CASES, WARM_UP, Case, Place, Side
from bench.by_hand.data import FILE_ROWS, fill, make_csv
from bench.by_hand.results import PAGE, RUNS, Run, table
from bench.entry import Benchmark, parser, run
from bench.processes import RunFailed, Used, locked, measure
from bench.running import command
from pyarrow import compute, dataset
from tests.servers.kafka import KafkaServer


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-by-hand", __doc__, "one round of few records")
    add = made.add_argument
    add("--rounds", type=int, default=3, metavar="N", help="rounds of all sides (3)")
    add("--case", choices=list(CASES), action="append", help="measure only this one, and keep the others (all)")
    add("--timeout", type=float, default=300.0, metavar="S", help="seconds that one run may take (300)")
    options = made.parse_args()
    if options.quick:
        options.rounds = 1
    return options


def start_command(side: Side, place: Place, directory: Path) -> list[str]:
    """Return the command that runs a side."""
    if side.job is None:
        scratch = str(directory / "scratch")
        return [sys.executable, "-m", "bench.by_hand.plain_side", side.query, json.dumps(asdict(place)), scratch]
    job = directory / "job.yaml"
    job.write_text(json.dumps(side.job(place)))
    return command(job, (directory / "snapshots").as_uri(), directory / "work", {})


class _Inputs:
    """The input of the sides, made when it is first asked for."""

    def __init__(self, server: KafkaServer, work: Path) -> None:
        self._kafka = server
        self._work = work
        self._topics: dict[tuple[str, int], str] = {}

    def place(self, case: Case, records: int) -> Place:
        """Return where a case finds so many records."""
        if case.form is None:
            directory = self._work / f"csv-{records}"
            if not directory.exists():
                make_csv(directory, records)
            return Place(files=str(directory))
        key = case.form, records
        if key not in self._topics:
            self._topics[key] = fill(self._kafka, *key)
        return Place(kafka=self._kafka.bootstrap, topic=self._topics[key])


class _Bench:
    def __init__(self, benchmark: Benchmark, inputs: _Inputs) -> None:
        self._benchmark = benchmark
        self._inputs = inputs
        self._options = benchmark.options
        self._cases: Mapping[str, Case] = {name: CASES[name] for name in self._options.case or CASES}
        self._runs = [run for run in RUNS.load().runs if run.case not in self._cases]
        self._compared: dict[str, int] = {}

    def run(self) -> None:
        """Compare the sides' rows, then measure round by round; show and store after each."""
        options, benchmark = self._options, self._benchmark
        with locked(options.lock):
            for name, case in self._cases.items():
                self._compared[name] = self._compare(name, case)
                benchmark.tell(f"{name}: {self._compared[name]:,} rows are the same on all sides")
        names = [(case, side) for case in self._cases for side in self._cases[case].sides]
        for number, turn in benchmark.rounds(names):
            for name, side in turn:
                self._measure(number, name, side)
            benchmark.keep(RUNS, self._runs)
            for name in self._cases:
                benchmark.show(f"{name}, behind round {number + 1}", table(self._runs, name))

    def _measure(self, number: int, name: str, side: str) -> None:
        case = self._cases[name]
        if self._options.quick:
            case = replace(case, batches=WARM_UP + 2)
        directory = self._directory(f"{number}-{name}-{side}")
        place = replace(self._inputs.place(case, case.records), dead=str(directory / "dead"))
        used = measure(start_command(case.sides[side], place, directory), directory, self._options.timeout)
        batches = self._batches(case.sides[side], directory)
        self._runs.append(warm(name, side, number, case, self._compared[name], used, batches))
        shutil.rmtree(directory)
        self._benchmark.tell(self._runs[-1])

    def _batches(self, side: Side, directory: Path) -> list[Batch]:
        if side.job is None:
            return batches_of(directory / "scratch" / "checkpoint")
        # Dead letters are behind a channel, in a chain of their own.
        return our_batches(directory / "work", "orders" if side.keeps_bad else "*")

    def _compare(self, name: str, case: Case) -> int:
        """Return the number of rows that all sides write. Raises RunFailed if they differ."""
        found: dict[str, Content] = {}
        letters: dict[str, int] = {}
        for side, described in case.sides.items():
            directory = self._directory(f"compared-{name}-{side}")
            out, dead = directory / "out", directory / "dead"
            place = replace(self._inputs.place(case, FILE_ROWS), out=str(out), dead=str(dead))
            measure(start_command(described, place, directory), directory, self._options.timeout)
            found[side] = content_of(out)
            if described.keeps_bad:
                letters[side] = _lines(dead)
        if len(set(found.values())) != 1 or any(found[side].rows + dead != FILE_ROWS for side, dead in letters.items()):
            raise RunFailed(f"{name}: the sides wrote different rows: {found}, {letters}")
        return next(iter(found.values())).rows

    def _directory(self, name: str) -> Path:
        directory = self._benchmark.work / name.replace(" ", "-")
        directory.mkdir(parents=True)
        return directory


def warm(name: str, side: str, number: int, case: Case, compared: int, used: Used, batches: Sequence[Batch]) -> Run:
    """Return what a run took from the end of its first batches to that of its last full one."""
    begin, end = batches[WARM_UP - 1].end, batches[case.batches - 1].end
    return Run(
        case=name,
        side=side,
        round=number,
        records=(case.batches - WARM_UP) * BATCH,
        compared=compared,
        wall=end - begin,
        cpu=used_between(used.samples, begin, end),
        whole_cpu=used.cpu,
        load_before=used.load_before,
    )


@dataclass(frozen=True, slots=True)
class Content:
    """How many rows there are, and sums of their numbers, which are exact in hundredths."""

    rows: int
    sums: tuple[tuple[str, int], ...]


def content_of(directory: Path) -> Content:
    """Return the content of Parquet files."""
    rows = dataset.dataset([str(each) for each in sorted(directory.glob("*.parquet"))]).to_table()
    names = [name for name in ("id", "amount") if name in rows.column_names]
    sums = (compute.sum(compute.round(compute.multiply(rows[name], 100))).as_py() for name in names)
    return Content(rows.num_rows, tuple((name, round(each or 0)) for name, each in zip(names, sums, strict=True)))


def _lines(directory: Path) -> int:
    return sum(len(each.read_bytes().splitlines()) for each in directory.glob("part-*.json"))


def bench(benchmark: Benchmark) -> None:
    """Measure with a broker."""
    with KafkaServer() as server:
        _Bench(benchmark, _Inputs(server, benchmark.work)).run()


if __name__ == "__main__":
    run(arguments(), PAGE, bench)
