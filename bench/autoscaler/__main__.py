"""Simulates automatic scaling, and writes AUTOSCALER.md: `python -m bench.autoscaler --help`."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.autoscaler.algorithms import ALGORITHMS, FLINK_TRACKED, OURS_IN_PLACE, OURS_RESTART
from bench.autoscaler.ours import Ours
from bench.autoscaler.picture import Panel, draw
from bench.autoscaler.report import CONSTANT, TRIALS, Constant, Results, Trial, render, summary_table
from bench.autoscaler.traces import DAY, TICK, traces
from bench.autoscaler.trial import Outcome, run
from bench.autoscaler.world import MOST_SLOTS, ROWS_PER_SLOT, Kind, World
from bench.entry import Benchmark, parser
from bench.entry import run as run_benchmark
from bench.results import Page

from streamjob.autoscaling import Rule

_FIRST_SEED = 101
"""The decision was tuned on lower ones."""
_SHOWN = ("diurnal 1:5", "spike x4 10 min", "bursty")
_COMPARED = (FLINK_TRACKED, OURS_RESTART, OURS_IN_PLACE)
_BURSTY = "bursty"


def bench(benchmark: Benchmark) -> None:
    """Run all algorithms on all traces and seeds."""
    cpu = time.process_time()
    seeds = tuple(range(_FIRST_SEED, _FIRST_SEED + (2 if benchmark.options.quick else benchmark.options.seeds)))
    outcomes: dict[tuple[str, str], list[tuple[Outcome, int]]] = {}
    constant = []
    for seed in seeds:
        rates = traces(seed)
        for name, trace in rates.items():
            for algorithm, outcome, undone in _all(name, trace, seed):
                outcomes.setdefault((algorithm, name), []).append((outcome, undone))
        constant.append(_constant(rates[_BURSTY], seed))
        benchmark.tell(f"seed {seed}")
    trials = [
        Trial(
            algorithm=algorithm,
            trace=name,
            moves=tuple(each.moves for each, _ in days),
            late=tuple(round(each.late, 3) for each, _ in days),
            worst_lag=tuple(round(each.worst_lag, 1) for each, _ in days),
            over=tuple(round(each.over, 1) for each, _ in days),
            undone_after=tuple(undone for _, undone in days),
        )
        for (algorithm, name), days in outcomes.items()
    ]
    slots, over = zip(*constant, strict=True)
    fewest = Constant(seeds=seeds, slots=slots, over=over, cpu=round(time.process_time() - cpu, 1))
    benchmark.show("Automatic scaling", summary_table(Results(trials, fewest)))
    benchmark.keep(CONSTANT, [fewest])
    benchmark.keep(TRIALS, trials)


def _all(name: str, rates: list[float], seed: int) -> Iterator[tuple[str, Outcome, int]]:
    for algorithm, each in ALGORITHMS.items():
        scaler = each.make()
        outcome, _ = run(name, rates, scaler, each.kind, seed)
        undone = 0
        if isinstance(scaler, Ours):
            rules = [move.rule for move in scaler.memory.moves]
            undone = rules.index(Rule.UNDO) + 1 if Rule.UNDO in rules else 0
        yield algorithm, outcome, undone


def _constant(rates: list[float], seed: int) -> tuple[int, float]:
    """Return the fewest constant slots without a late minute, and their over-provisioning in percent."""
    for slots in range(12, MOST_SLOTS + 1):
        world = World(rates, slots, Kind(), seed)
        while world.time < DAY and world.late_seconds == 0:
            world.step()
        if world.late_seconds == 0:
            break
    return slots, round(100 * (slots * DAY / (sum(rates) / ROWS_PER_SLOT * TICK) - 1), 1)


def _draw() -> str:
    rates = traces(_FIRST_SEED)
    panels = []
    for name in _SHOWN:
        slots = {}
        for algorithm in _COMPARED:
            each = ALGORITHMS[algorithm]
            _, world = run(name, rates[name], each.make(), each.kind, _FIRST_SEED, history=True)
            slots[algorithm] = [tick[2] for tick in world.history]
        panels.append(Panel(f"{name} (seed {_FIRST_SEED})", rates[name], slots))
    return draw(panels)


PAGE = Page("AUTOSCALER", render, _draw)

if __name__ == "__main__":
    command = parser("make bench-autoscaler", __doc__, "two seeds")
    command.add_argument("--seeds", type=int, default=20, metavar="N", help="number of seeds (20)")
    run_benchmark(command.parse_args(), PAGE, bench)
