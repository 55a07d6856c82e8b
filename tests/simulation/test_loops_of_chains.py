"""Random graphs with loops on the real protocol, under barriers, switches, drains, crashes and a failing store.

Rows go round a limited number of times, so that every graph has a result. The oracle completes each checkpoint's loops
by arithmetic; rows that a loop loses, doubles or reorders are missing, surplus or late in the sinks.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.simulation import graph_lives
from tests.simulation.graph_world import draw_loops
from tests.simulation.world import Choices

LENGTH = 10_000
SEEDS = int(os.environ.get("STREAMJOB_SIMULATIONS", "90"))
MOMENTS = (
    "rows go round in aligned",
    "rows go round in unaligned",
    "rows go round in savepoints",
    "loops have ended, not all else",
    "drained loops",
    "drained loops leave barriers or ends",
    "batches that a loop's end takes back",
    "switched half way",
    "aborted half way",
    "restored rows in flight",
)

simulate = partial(graph_lives.simulate, draw_loops)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    drawn=st.binary(min_size=LENGTH // 20, max_size=LENGTH // 4),
    processes=st.integers(1, 2),
    fault_share=st.sampled_from((0, 4)),
)
def test_every_checkpoint_of_any_graph_with_loops_is_consistent(drawn: bytes, processes: int, fault_share: int) -> None:
    simulate(Choices(drawn), processes=processes, fault_share=fault_share)


@pytest.mark.thorough
@pytest.mark.slow
def test_long_lives_of_random_loops_reach_every_dangerous_moment_unharmed() -> None:
    """STREAMJOB_SIMULATIONS sets how many lives there are."""
    total: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = simulate(Choices.seeded(seed, LENGTH), processes=1 + seed % 2, fault_share=(0, 3)[seed // 2 % 2])
        total.update(world.graph_oracle.moments)

    never = [moment for moment in MOMENTS if total[moment] == 0]
    assert not never, f"{never} in {total}"


def test_a_quiet_life_of_a_loop_takes_aligned_checkpoints_and_finishes() -> None:
    world = simulate(Choices(b""), processes=1, fault_share=0)

    assert len(world.oracle.claims) == 1
    assert world.graph_oracle.moments["aligned"] > 1
    assert world.graph_oracle.moments["unaligned"] == 0
    assert [record.kind for record, _ in world.oracle.completions][-1] == "final"
