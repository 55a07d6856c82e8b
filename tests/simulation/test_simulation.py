"""Coordinator, cuts, log, registry, retention, deletion and publication together, without Spark, under every fault.

The oracle (`oracle.Oracle`) checks after every single request that the log is linear and written by its holder alone,
that each completed checkpoint is a consistent cut and restorable, that nothing retained is deleted, and that the sink
shows only what the log names, each row once; and at the end that a last quiet epoch leaves the batch's result and
nothing superfluous.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.simulation.chain import ChainWorld
from tests.simulation.driver import Simulation, live
from tests.simulation.world import Choices

from streamjob.checkpointing_policy import LiveCheckpointingPolicy

POLICIES = (
    LiveCheckpointingPolicy(interval=2.0, timeout=20.0, tolerable_failed_checkpoints=2),
    LiveCheckpointingPolicy(interval=0.5, timeout=3.0, tolerable_failed_checkpoints=1),
    LiveCheckpointingPolicy(interval=1.0, timeout=20.0, min_pause=2.0, tolerable_failed_checkpoints=0),
)


def simulate(choices: Choices, *, limit: int | None, processes: int, fault_share: int, steps: int) -> Simulation:
    world = ChainWorld(choices, limit=limit, min_retained=1)
    simulation = Simulation(world, world.run_of, POLICIES, most_processes=processes, fault_share=fault_share)
    live(simulation, steps)
    return simulation


def statement(simulation: Simulation) -> dict[str, int]:
    """Return how often each dangerous moment was reached."""
    oracle, trace = simulation.world.oracle, simulation.world.trace
    completions = oracle.completions
    kinds = [record.kind.value for record, _ in completions]
    drained = [record.kind.value for record, manifest in completions if manifest.drained]
    return {
        "checkpoints": kinds.count("checkpoint"),
        "savepoints": kinds.count("savepoint"),
        "finals": kinds.count("final"),
        "strays": oracle.strays,
        "strays right below the log": oracle.strays_at_the_edge,
        "deletions while the claim is forgotten": oracle.forgotten_claims,
        "claims": len(oracle.claims),
        "superseded": sum(": SUPERSEDED: " in line for line in trace),
        "late arrivals": sum("arrives late" in line for line in trace),
        "unknown outcomes": sum("is asked again for an unknown outcome" in line for line in trace),
        "outcomes that stay unknown": sum(line.endswith("stays unknown") for line in trace),
        "expired": sum("before all chains had acknowledged" in line for line in trace),
        "restarts behind a checkpoint": sum("restarts behind a checkpoint" in line for line in trace),
        "failed publications": sum("a sink could not publish" in line for line in trace),
        "drained savepoints": drained.count("savepoint"),
        "drained checkpoints": drained.count("checkpoint"),
        "failed drains": oracle.drains_failed,
        "deletions": sum(": Delete " in line for line in trace),
    }


LENGTH = 3000
STEPS = 1500
SEEDS = int(os.environ.get("STREAMJOB_SIMULATIONS", "120"))
LIMITS = (None, 12, 40)
FAULT_SHARES = (0, 8, 20)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    drawn=st.binary(min_size=LENGTH // 4, max_size=LENGTH // 4),
    limit=st.sampled_from(LIMITS),
    processes=st.integers(1, 3),
    fault_share=st.sampled_from(FAULT_SHARES),
)
def test_nothing_is_lost_or_doubled_whatever_happens_in_whatever_order(
    drawn: bytes, limit: int | None, processes: int, fault_share: int
) -> None:
    simulate(Choices(drawn), limit=limit, processes=processes, fault_share=fault_share, steps=STEPS)


@pytest.mark.slow
def test_long_random_lives_reach_every_dangerous_moment_unharmed() -> None:
    """STREAMJOB_SIMULATIONS sets how many lives there are."""
    total: Counter[str] = Counter()
    for seed in range(SEEDS):
        simulation = simulate(
            Choices.seeded(seed, LENGTH),
            limit=LIMITS[seed % 3],
            processes=1 + seed % 3,
            fault_share=FAULT_SHARES[seed // 3 % 3],
            steps=STEPS,
        )
        total.update(statement(simulation))

    never = [moment for moment, count in total.items() if count == 0]
    assert not never, f"{never} in {total}"


def test_a_quiet_life_takes_its_checkpoints_and_finishes() -> None:
    simulation = simulate(Choices(b""), limit=30, processes=1, fault_share=0, steps=STEPS)

    assert statement(simulation)["claims"] == 1
    assert statement(simulation)["checkpoints"] > 3
    assert [record.kind for record, _ in simulation.world.oracle.completions][-1] == "final"
