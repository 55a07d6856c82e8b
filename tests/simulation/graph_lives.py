"""Lives of random graphs of chains, from their first process to their end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.simulation.driver import Simulation, live
from tests.simulation.flow import Node
from tests.simulation.graph_run import GraphRun
from tests.simulation.graph_world import GraphWorld, drawn_limits
from tests.simulation.world import Choices

from streamjob.checkpointing_policy import LiveCheckpointingPolicy

POLICIES = (
    LiveCheckpointingPolicy(interval=4.0, timeout=600.0, tolerable_failed_checkpoints=2),
    LiveCheckpointingPolicy(
        interval=3.0, timeout=600.0, aligned_checkpoint_timeout=3.0, tolerable_failed_checkpoints=2
    ),
    LiveCheckpointingPolicy(interval=3.0, timeout=600.0, mode="unaligned", tolerable_failed_checkpoints=2),
    LiveCheckpointingPolicy(interval=2.0, timeout=9.0, aligned_checkpoint_timeout=5.0, tolerable_failed_checkpoints=2),
)
STEPS = 2500


def simulate(
    draw: Callable[[Choices], tuple[Node, ...]], choices: Choices, *, processes: int, fault_share: int
) -> GraphWorld:
    """Simulate a job with a random graph, and check that it leaves nothing behind.

    Args:
        draw: draws the graph.
        choices: decide all.
        processes: maximum number of simultaneous processes.
        fault_share: percent of the store's requests that fail.
    """
    nodes = draw(choices)
    world = GraphWorld(choices, nodes, drawn_limits(choices, nodes))
    simulation = Simulation(
        world,
        partial(GraphRun, world),
        POLICIES,
        most_processes=processes,
        fault_share=fault_share,
        disturbance_share=2,
        sleep_shares=(0, 5),
    )
    live(simulation, STEPS)
    assert simulation.finished_before_last or not world.left_behind
    return world
