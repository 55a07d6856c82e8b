"""Random jobs that are another at each start: other slots and partitions, another graph, fused or split otherwise.

The real planner, comparison, placing, takeover and rewriting decide what the chains go on from; under crashes,
switches, drains, stops and a failing store. The oracle (`changed_world.ChangedOracle`) knows operators and no chains.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.simulation.changed_run import run_of
from tests.simulation.changed_world import ChangedWorld
from tests.simulation.driver import Simulation, live
from tests.simulation.graph_lives import POLICIES, STEPS
from tests.simulation.revisions import CHANGES, draw_revision
from tests.simulation.world import Choices

LENGTH = 10_000
MEMORY = Path("/dev/shm")
"""Where files come and go faster than on a disk, if there is such a place."""
SEEDS = int(os.environ.get("STREAMJOB_SIMULATIONS", "60"))
REFUSALS = (
    "InFlightDataLost",
    "NonRestoredState",
    "StateDivided",
    "StateOfSeveralChains",
)
WITH_ROWS_IN_FLIGHT = (
    "slots",
    "partitions",
    "operator renamed",
    "operator appended",
    "source added",
    "fused or split",
    "inputs turned",
    "loop closed",
)
MOMENTS = (
    *CHANGES,
    *(f"{each}, rows in flight" for each in WITH_ROWS_IN_FLIGHT),
    *REFUSALS,
    "state with more or fewer partitions",
    "loops changed with rows in flight",
    "changed behind a drain",
    "changed behind a savepoint",
    "changed behind a checkpoint",
    "restored rows in flight",
)


def simulate(choices: Choices, *, processes: int, fault_share: int) -> ChangedWorld:
    with TemporaryDirectory(prefix="simulated-", dir=MEMORY if MEMORY.is_dir() else None) as directory:
        world = ChangedWorld(choices, draw_revision(choices), Path(directory))
        simulation = Simulation(
            world,
            run_of(world, {}),
            POLICIES,
            most_processes=processes,
            fault_share=fault_share,
            disturbance_share=5,
            sleep_shares=(0, 5),
        )
        live(simulation, STEPS)
    return world


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    drawn=st.binary(min_size=LENGTH // 20, max_size=LENGTH // 4),
    processes=st.integers(1, 2),
    fault_share=st.sampled_from((0, 4)),
)
def test_every_row_goes_its_way_once_however_the_job_changes(drawn: bytes, processes: int, fault_share: int) -> None:
    simulate(Choices(drawn), processes=processes, fault_share=fault_share)


@pytest.mark.thorough
@pytest.mark.slow
def test_long_lives_of_changing_jobs_reach_every_dangerous_moment_unharmed() -> None:
    """STREAMJOB_SIMULATIONS sets how many lives there are."""
    total: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = simulate(Choices.seeded(seed, LENGTH), processes=1 + seed % 2, fault_share=(0, 3)[seed // 2 % 2])
        total.update(world.known.moments)

    never = [moment for moment in MOMENTS if total[moment] == 0]
    assert not never, f"{never} in {total}"


def test_a_quiet_life_changes_nothing_and_finishes() -> None:
    world = simulate(Choices(b""), processes=1, fault_share=0)

    assert len(world.revisions) == len(world.oracle.claims) == 1
    assert [record.kind for record, _ in world.oracle.completions][-1] == "final"
