"""The cost of a chain's batches is fitted from its counters, also while a slow machine makes batches larger."""

from __future__ import annotations

from random import Random

import pytest
from bench.autoscaler.traces import traces
from bench.autoscaler.world import Kind, World

from streamjob.autoscaling.chain_model import ChainModel, fitted

FIXED, ROW = 0.4, 1e-5


def observe(
    model: ChainModel, rate: float, *, slow: float = 1.0, due: float | None = None, row: float = ROW
) -> ChainModel:
    """Add ten seconds of back-to-back batches at a rate, on a machine that is `slow` times as slow."""
    n = rate * FIXED * slow / (1 - rate * row * slow)
    d = slow * (FIXED + row * n)
    batches = round(10 / d)
    return fitted(
        model,
        batches=batches,
        rows=batches * n,
        seconds=batches * d,
        due=rate if due is None else due,
        source_rows=batches * n,
        covered=10.0,
    )


def test_fixed_cost_and_cost_of_a_row_are_told_apart_when_the_load_changes() -> None:
    model = ChainModel("chain")
    for tick in range(360):
        model = observe(model, 50_000 + 20_000 * (tick // 30 % 2))

    assert model.fixed == pytest.approx(FIXED, rel=0.1)
    assert model.row_seconds == pytest.approx(ROW, rel=0.1)


def test_a_slow_machine_is_not_taken_for_costly_rows() -> None:
    model, random = ChainModel("chain"), Random(1)
    for tick in range(720):
        model = observe(model, 60_000 + 10_000 * (tick // 30 % 2), slow=random.uniform(0.85, 1.15))

    assert model.row_seconds == pytest.approx(ROW, rel=0.15)


def test_a_load_that_never_changes_leaves_the_known_fixed_cost() -> None:
    model = ChainModel("chain")
    for _ in range(100):
        model = observe(model, 60_000)

    assert model.fixed == pytest.approx(0.25, abs=0.01)
    assert model.fixed + model.per_row * 60_000 == pytest.approx(FIXED + ROW * 60_000, rel=0.5)


def test_rows_that_become_costly_show_within_minutes() -> None:
    model = ChainModel("chain")
    for tick in range(360):
        model = observe(model, 50_000 + 20_000 * (tick // 30 % 2))
    for tick in range(60):
        model = observe(model, 50_000 + 20_000 * (tick // 30 % 2), row=1.3 * ROW)

    assert model.row_seconds > 1.15 * ROW


def test_another_number_of_slots_keeps_the_fixed_cost_and_scales_the_rows() -> None:
    model = ChainModel("chain")
    for tick in range(360):
        model = observe(model, 50_000 + 20_000 * (tick // 30 % 2))

    wider = model.at_width(0.5)

    assert wider.row_seconds == pytest.approx(model.row_seconds / 2)
    assert wider.fixed == model.fixed
    first = observe(wider, 60_000, row=ROW / 2)
    assert first.row_seconds == pytest.approx(ROW / 2, rel=0.25)
    assert first.fixed == pytest.approx(FIXED, rel=0.3)


def test_a_wrong_expectation_of_another_width_gives_way_to_what_is_measured() -> None:
    model = ChainModel("chain")
    for tick in range(360):
        model = observe(model, 50_000 + 20_000 * (tick // 30 % 2))
    model = model.at_width(0.25)
    for tick in range(180):
        model = observe(model, 50_000 + 20_000 * (tick // 30 % 2))

    assert model.row_seconds == pytest.approx(ROW, rel=0.25)


@pytest.mark.parametrize("trace", ["diurnal 1:5", "bursty", "spike x4 10 min"])
def test_the_fit_of_a_simulated_day_is_close_to_the_truth(trace: str) -> None:
    kind = Kind()
    world = World(traces(5)[trace][:4320], 20, kind, 5)
    model, before = ChainModel("job"), (0.0, 0, 0.0)
    for rate in world.rates:
        world.step()
        rows, batches, seconds, _, lag = world.reported
        if batches > before[1] and rows > before[0]:
            model = fitted(
                model,
                batches=batches - before[1],
                rows=rows - before[0],
                seconds=seconds - before[2],
                due=rate + lag,
                source_rows=rows - before[0],
                covered=10.0,
            )
            before = (rows, batches, seconds)
    truth = (kind.full_batch - kind.fixed) / (world.full_rate(20) * kind.full_batch)

    assert model.per_row == pytest.approx(truth, rel=0.2)
    assert model.fixed == pytest.approx(kind.fixed, rel=0.3)
