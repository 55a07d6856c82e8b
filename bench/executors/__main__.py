"""Measures executors: their cost against one process, checkpoints, restores and losses."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from bench import model
from bench.entry import Benchmark, parser, run
from bench.executors import report
from bench.executors.checkpoints import checkpoints
from bench.executors.cost import cost
from bench.executors.crowd import crowd
from bench.executors.flink import flink_loss
from bench.executors.loss import loss
from bench.executors.manifests import manifest_of
from bench.executors.restore import restore
from bench.executors.results import (
    AllCheckpoints,
    Costs,
    Crowds,
    Executors,
    FlinkLosses,
    Losses,
    Manifests,
    Part,
    Restores,
    Starts,
)
from bench.executors.setting import Setting
from bench.executors.start import start
from bench.object_store import object_store
from bench.processes import REPOSITORY, locked

T = TypeVar("T")
RESULTS = REPOSITORY / "bench" / "executors.json"
FILES = (1000, 10_000, 40_000)
"""Of the manifests that the part `manifest` measures."""
PARTS = ("agents", "manifest", "start", "cost", "checkpoints", "restore", "loss", "flink")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    made = parser("make bench-executors", __doc__, "little and once")
    add = made.add_argument
    add("--part", choices=PARTS, action="append", help="measure these parts only, and keep the others' results")
    add("--records", type=int, default=8_000_000, metavar="N", help="of a run of the part `cost` (8000000)")
    add("--rounds", type=int, default=5, metavar="N", help="of `cost`, `start`, `agents`, `loss` and `flink` (5)")
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

    def keep(name: str, measured: Part) -> None:
        before = None if options.quick else model.load(Executors, RESULTS)
        result = (before or Executors()).model_copy(update={name: measured})
        benchmark.keep(result, RESULTS, report.render)
        benchmark.show(name, report.tables(result)[name])

    def tell(each: object) -> None:
        benchmark.tell(str(each)[:180])

    with locked(options.lock), object_store(benchmark.work / "s3") as server:
        setting = Setting(benchmark.work, benchmark.cache, server, options.timeout)
        measures: dict[str, Callable[[float], Part]] = {
            "agents": lambda begun: Crowds(
                runs=tuple(each for count in options.agents for each in crowd(count, options.rounds, tell)),
                circumstances=benchmark.circumstances(begun),
            ),
            "manifest": lambda begun: Manifests(
                runs=tuple(map(manifest_of, FILES)), circumstances=benchmark.circumstances(begun)
            ),
            "start": lambda begun: Starts(
                runs=start(setting, options.rounds, tell), circumstances=benchmark.circumstances(begun)
            ),
            "cost": lambda begun: Costs(
                runs=cost(setting, options.records, options.rounds, tell),
                circumstances=benchmark.circumstances(begun),
            ),
            "checkpoints": lambda begun: AllCheckpoints(
                runs=tuple(
                    _told(checkpoints(setting, executors, partitions, options.samples), tell)
                    for partitions in options.partitions
                    for executors in options.executors
                ),
                circumstances=benchmark.circumstances(begun),
            ),
            "restore": lambda begun: Restores(
                runs=tuple(each for size in options.megabytes for each in restore(setting, size, tell)),
                circumstances=benchmark.circumstances(begun),
            ),
            "loss": lambda begun: Losses(
                runs=loss(setting, options.rounds, tell), circumstances=benchmark.circumstances(begun)
            ),
            "flink": lambda begun: FlinkLosses(
                runs=flink_loss(setting, options.rounds, tell), circumstances=benchmark.circumstances(begun)
            ),
        }
        for name in options.part or PARTS:
            keep(name, measures[name](time.time()))


def _told(result: T, tell: Callable[[object], None]) -> T:
    tell(result)
    return result


def main() -> int:
    """Run the benchmark; return its exit code."""
    return run(arguments(), bench)


if __name__ == "__main__":
    sys.exit(main())
