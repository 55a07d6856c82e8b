"""Measures executors: their cost against one process, checkpoints, restores and losses."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.entry import Benchmark, parser, run
from bench.executors import report
from bench.executors.crowd import crowd
from bench.executors.jobs import Setting, checkpoints, cost, restore
from bench.executors.manifests import manifest_of
from bench.executors.results import CHECKPOINTS, COSTS, CROWDS, LOCAL, MANIFESTS, REMOTE, RESTORES, Cost
from bench.object_store import object_store
from bench.processes import locked
from bench.results import Records
from bench.tables import Table

FILES = (1000, 10_000, 40_000)
"""Of the manifests that the part `manifest` measures."""
PARTS: dict[str, tuple[Records[Any], Callable[[Any], Table]]] = {
    "agents": (CROWDS, report.agents_table),
    "manifest": (MANIFESTS, report.manifest_table),
    "cost": (COSTS, report.cost_table),
    "checkpoints": (CHECKPOINTS, report.checkpoints_table),
    "restore": (RESTORES, report.restore_table),
}
"""By name: where the runs are stored, and the table that shows them."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-executors", __doc__, "little and once")
    add = made.add_argument
    add("--part", choices=list(PARTS), action="append", help="measure these parts only, and keep the others' results")
    add("--records", type=int, default=8_000_000, metavar="N", help="of a run of the part `cost` (8000000)")
    add("--rounds", type=int, default=5, metavar="N", help="of `cost` and `agents` (5)")
    add("--executors", type=int, nargs="*", default=(0, 1, 2, 4), metavar="N", help="of `checkpoints` (0 1 2 4)")
    add("--partitions", type=int, nargs="*", default=(8, 64, 200), metavar="N", help="of `checkpoints` (8 64 200)")
    add("--samples", type=int, default=7, metavar="N", help="checkpoints of each of these (7)")
    add("--megabytes", type=int, nargs="*", default=(100, 1000), metavar="N", help="of state to restore (100 1000)")
    add("--agents", type=int, nargs="*", default=(2, 10, 100), metavar="N", help="that ask at once (2 10 100)")
    add("--timeout", type=float, default=600.0, metavar="S", help="seconds for whatever is waited for (600)")
    options = made.parse_args()
    if options.quick:
        options.records, options.rounds, options.samples, options.megabytes = 3_000_000, 1, 2, (50,)
        options.executors, options.partitions, options.agents = (0, 2), (8, 64), (2, 100)
    return options


def bench(benchmark: Benchmark) -> None:
    """Measure; show and store the results after every part."""
    options = benchmark.options

    def costs() -> Iterator[Cost]:
        for number, turn in benchmark.rounds((LOCAL, REMOTE)):
            yield from (cost(setting, side, number, options.records) for side in turn)

    with object_store(benchmark.work / "s3") as server:
        setting = Setting(benchmark.work, benchmark.cache, server, options.timeout)
        measures: dict[str, Callable[[], Iterator[Any]]] = {
            "agents": lambda: (each for count in options.agents for each in crowd(count, options.rounds)),
            "manifest": lambda: map(manifest_of, FILES),
            "cost": costs,
            "checkpoints": lambda: (
                each
                for partitions in options.partitions
                for executors in options.executors
                for each in checkpoints(setting, executors, partitions, options.samples)
            ),
            "restore": lambda: (each for size in options.megabytes for each in restore(setting, size)),
        }
        for name in options.part or PARTS:
            begun, runs = time.time(), list[Any]()
            # Rounds hold the lock by themselves.
            with locked(None if name == "cost" else options.lock):
                for each in measures[name]():
                    runs.append(each)
                    benchmark.tell(each)
            records, table = PARTS[name]
            benchmark.keep(records, runs, begun)
            benchmark.show(name, table(runs))


if __name__ == "__main__":
    run(arguments(), report.PAGE, bench)
