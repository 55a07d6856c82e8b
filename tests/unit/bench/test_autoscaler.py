"""The simulation of automatic scaling: its world, and the algorithms that it compares."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.autoscaler.flink import Flink, documented_example
from bench.autoscaler.ours import load_of
from bench.autoscaler.specified import Specified
from bench.autoscaler.traces import traces
from bench.autoscaler.trial import Autoscaler, run
from bench.autoscaler.world import SPECIFIED, Kind, World


@pytest.mark.parametrize(
    ("algorithm", "restart", "trace", "moves", "late", "worst", "over"),
    [
        (Flink(), 60, "step x3", 4, 26.2, 330, 162),
        (Flink(), 60, "spike x4 10 min", 10, 70.2, 1008, 147),
        (documented_example(), 60, "spike x4 10 min", 22, 21.7, 312, 446),
        (documented_example(track=True), 20, "night batch", 5, 7.7, 110, 227),
        (documented_example(track=True), 20, "bursty", 2, 0.0, 46, 169),
        (Specified(20.0), 20, "spike x4 10 min", 17, 0.2, 61, 150),
        (Specified(20.0), 20, "night batch", 5, 0.0, 53, 100),
    ],
)
def test_in_the_world_of_the_specification_its_numbers_come_out(
    algorithm: Autoscaler, restart: float, trace: str, moves: int, late: float, worst: float, over: float
) -> None:
    outcome, _ = run(trace, traces(1)[trace], algorithm, replace(SPECIFIED, restart=restart), 1)

    assert outcome.moves == moves
    assert outcome.late == pytest.approx(late, abs=0.06)
    assert outcome.worst_lag == pytest.approx(worst, abs=0.6)
    assert outcome.over == pytest.approx(over, abs=0.6)


def test_no_record_is_lost_and_what_is_read_again_counts_once() -> None:
    rates = [50_000.0] * 600
    world = World(rates, 6, Kind(), 3)
    for tick in range(600):
        world.step()
        if tick in (200, 400):
            world.rescale(6 + tick // 100)

    assert world.position + world.lag == pytest.approx(sum(rates) * 10)
    assert world.moves == 2


def test_counters_begin_again_with_each_process_and_are_those_of_whole_batches() -> None:
    world = World([50_000.0] * 100, 6, Kind(noise=0.0), 3)
    for _ in range(50):
        seen = world.step()
    before, read = load_of(world, seen), world.position
    world.rescale(8)
    after = load_of(world, seen)

    assert 0 <= read - before.rows < 50_000 * 10
    assert world.position <= read
    assert before.chains[0].batches > 100
    assert (after.rows, after.chains[0].batches) == (0, 0)
    assert after.process != before.process
