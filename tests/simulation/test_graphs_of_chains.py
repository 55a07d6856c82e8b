"""Random graphs of chains on the real protocol, under barriers, switches, expiries, crashes and a failing store.

The oracle (`graph_world.GraphOracle`) completes the job from every single checkpoint, in parallel to the real run: the
published output together with the results of the cut must equal the result of the rows that its sources have read, with
nothing lost, doubled or out of order. Chains check the order of their input themselves.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.simulation import graph_lives
from tests.simulation.graph_world import draw_graph
from tests.simulation.world import Choices

LENGTH = 10_000
SEEDS = int(os.environ.get("STREAMJOB_SIMULATIONS", "90"))

simulate = partial(graph_lives.simulate, draw_graph)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    drawn=st.binary(min_size=LENGTH // 20, max_size=LENGTH // 4),
    processes=st.integers(1, 2),
    fault_share=st.sampled_from((0, 4)),
)
def test_every_checkpoint_of_any_graph_is_consistent_whatever_happens_in_whatever_order(
    drawn: bytes, processes: int, fault_share: int
) -> None:
    simulate(Choices(drawn), processes=processes, fault_share=fault_share)


@pytest.mark.thorough
@pytest.mark.slow
def test_long_lives_of_random_graphs_reach_every_dangerous_moment_unharmed() -> None:
    """STREAMJOB_SIMULATIONS sets how many lives there are."""
    total: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = simulate(Choices.seeded(seed, LENGTH), processes=1 + seed % 2, fault_share=(0, 3)[seed // 2 % 2])
        total.update(world.graph_oracle.moments)
        total["expired"] += sum("before all chains had acknowledged" in line for line in world.trace)
        total["failed drains"] += world.oracle.drains_failed
        total["epochs"] += len(world.oracle.claims)

    never = [moment for moment, count in total.items() if count == 0]
    assert not never, f"{never} in {total}"


def test_a_quiet_life_of_a_pipeline_takes_aligned_checkpoints_and_finishes() -> None:
    world = simulate(Choices(b""), processes=1, fault_share=0)

    assert len(world.oracle.claims) == 1
    assert world.graph_oracle.moments["aligned"] > 1
    assert world.graph_oracle.moments["unaligned"] == 0
    assert [record.kind for record, _ in world.oracle.completions][-1] == "final"
