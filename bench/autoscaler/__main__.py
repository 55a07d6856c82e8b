"""Simulates automatic scaling, and writes AUTOSCALER.md: `python -m bench.autoscaler --help`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from bench import machine, model
from bench.autoscaler.algorithms import ALGORITHMS, FLINK_TRACKED, OURS_IN_PLACE, OURS_RESTART
from bench.autoscaler.ours import Ours
from bench.autoscaler.picture import Panel, draw
from bench.autoscaler.report import render, summary_table
from bench.autoscaler.results import Results, Trial
from bench.autoscaler.traces import DAY, NAMES, TICK, traces
from bench.autoscaler.trial import Outcome, run
from bench.autoscaler.world import MOST_SLOTS, ROWS_PER_SLOT, Kind, World
from bench.processes import REPOSITORY
from rich.console import Console

from streamjob.autoscaling import Rule

RESULTS = REPOSITORY / "bench" / "autoscaler.json"
PICTURE = REPOSITORY / "bench" / "autoscaler.svg"
_FIRST_SEED = 101
"""The decision was tuned on lower ones."""
_SHOWN = ("diurnal 1:5", "spike x4 10 min", "bursty")
_COMPARED = (FLINK_TRACKED, OURS_RESTART, OURS_IN_PLACE)
_BURSTY = "bursty"


def main() -> None:
    """Run all algorithms on all traces and seeds."""
    parser = argparse.ArgumentParser(prog="make bench-autoscaler ARGS=", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds")
    parser.add_argument("--quick", action="store_true", help="two seeds, and keep nothing")
    options = parser.parse_args()
    console, begun = Console(highlight=False), time.time()
    cpu = time.process_time()
    seeds = tuple(range(_FIRST_SEED, _FIRST_SEED + (2 if options.quick else options.seeds)))
    outcomes: dict[tuple[str, str], list[tuple[Outcome, int | None]]] = {}
    constant = []
    for seed in seeds:
        rates = traces(seed)
        for name, trace in rates.items():
            for algorithm, outcome, undone in _all(name, trace, seed):
                outcomes.setdefault((algorithm, name), []).append((outcome, undone))
        constant.append(_constant(rates[_BURSTY], seed))
        console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] seed {seed}")
    results = Results(
        circumstances=machine.circumstances(begun, machine.command_line("make bench-autoscaler")),
        seeds=seeds,
        cpu_seconds=round(time.process_time() - cpu, 1),
        trials=tuple(
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
        ),
        constant=tuple(slots for slots, _ in constant),
        constant_over=tuple(round(over, 1) for _, over in constant),
    )
    console.print(summary_table(results).rich("Automatic scaling"))
    if not options.quick:
        model.save(results, RESULTS, render)
        PICTURE.write_text(_picture(seeds[0]), encoding="utf-8")


def _all(name: str, rates: list[float], seed: int) -> Iterator[tuple[str, Outcome, int | None]]:
    for algorithm, each in ALGORITHMS.items():
        scaler = each.make()
        outcome, _ = run(name, rates, scaler, each.kind, seed)
        undone = None
        if isinstance(scaler, Ours):
            rules = [move.rule for move in scaler.memory.moves]
            undone = rules.index(Rule.UNDO) + 1 if Rule.UNDO in rules else None
        yield algorithm, outcome, undone


def _constant(rates: list[float], seed: int) -> tuple[int, float]:
    """Return the fewest constant slots without a late minute, and their over-provisioning in percent."""
    for slots in range(12, MOST_SLOTS + 1):
        world = World(rates, slots, Kind(), seed)
        while world.time < DAY and world.late_seconds == 0:
            world.step()
        if world.late_seconds == 0:
            break
    return slots, 100 * (slots * DAY / (sum(rates) / ROWS_PER_SLOT * TICK) - 1)


def _picture(seed: int) -> str:
    rates = traces(seed)
    panels = []
    for name in _SHOWN:
        slots = {}
        for algorithm in _COMPARED:
            each = ALGORITHMS[algorithm]
            _, world = run(name, rates[name], each.make(), each.kind, seed, history=True)
            slots[algorithm] = [tick[2] for tick in world.history]
        panels.append(Panel(f"{name} (seed {seed})", rates[name], slots))
    return draw(panels)


if __name__ == "__main__":
    assert set(NAMES) >= set(_SHOWN)
    main()
