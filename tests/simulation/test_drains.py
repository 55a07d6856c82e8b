"""Drains of graphs of chains: their output and final positions, with any failure at any step.

Each life here is quiet but for what its test does to it. The oracle checks every snapshot, drained ones among them, and
at the end that the sinks show what a batch does that is flushed where the job was drained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from tests.integration.core import core
from tests.simulation.driver import Simulation
from tests.simulation.flow import SOURCE, Node, Work, batch_result
from tests.simulation.graph_run import GraphRun
from tests.simulation.graph_world import GraphWorld, positions_in
from tests.simulation.world import Choices, Fault

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import ChainUid, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import TriggerState
from streamjob.snapshot.manifest import Manifest

A, B, C, D = (ChainUid(name) for name in "abcd")
SHAPES: dict[str, tuple[Node, ...]] = {
    "one chain": (Node(A, Work.WINDOW, (SOURCE,), has_sink=True),),
    "a line": (
        Node(A, Work.PASS, (SOURCE,), has_sink=True, steps=3),
        Node(B, Work.WINDOW, (A,), has_sink=True),
        Node(C, Work.PASS, (B,), has_sink=False, steps=12),
        Node(D, Work.WINDOW, (C,), has_sink=True),
    ),
    "a fan": (
        Node(A, Work.PASS, (SOURCE,), has_sink=False),
        Node(B, Work.WINDOW, (A,), has_sink=True),
        Node(C, Work.PASS, (A,), has_sink=True, steps=12),
    ),
    "a join": (
        Node(A, Work.PASS, (SOURCE,), has_sink=True),
        Node(B, Work.WINDOW, (SOURCE,), has_sink=False),
        Node(C, Work.JOIN, (A, B), has_sink=True, steps=3),
        Node(D, Work.JOIN, (C, SOURCE), has_sink=True),
    ),
    "a loop": (
        Node(A, Work.PASS, (SOURCE,), has_sink=True),
        Node(B, Work.PASS, (A,), has_sink=False, feedback=(C,), laps=2),
        Node(C, Work.PASS, (B,), has_sink=True, steps=3),
        Node(D, Work.WINDOW, (C,), has_sink=True),
    ),
}
"""In the join, b's source is bounded; no other source has an end."""
STATELESS = (
    Node(A, Work.PASS, (SOURCE,), has_sink=True),
    Node(B, Work.PASS, (A, SOURCE), has_sink=True, steps=3),
    Node(C, Work.PASS, (B,), has_sink=True),
)
ALIGNED = LiveCheckpointingPolicy(interval=4.0, timeout=600.0, tolerable_failed_checkpoints=2)
UNALIGNED = LiveCheckpointingPolicy(interval=4.0, timeout=600.0, tolerable_failed_checkpoints=2, mode="unaligned")
FAULTS = (Fault.REFUSED, Fault.UNANSWERED, Fault.LATE)
MOST_STEPS = 20_000


class CalmJob:
    """A job that nothing happens to but what a test does."""

    def __init__(self, nodes: tuple[Node, ...], *, seed: int | None = None, unaligned: bool = False) -> None:
        choices = Choices(b"") if seed is None else Choices.seeded(seed, 500)
        limits = {node.uid: 9 if node.uid == B and len(nodes) == 4 else None for node in nodes if SOURCE in node.inputs}
        self.world = GraphWorld(choices, nodes, limits)
        policy = UNALIGNED if unaligned else ALIGNED
        run_of = partial(GraphRun, self.world)
        self.simulation = Simulation(self.world, run_of, (policy,), most_processes=1, fault_share=0)
        self.process = self.simulation.start_process()
        self.asked = 0

    def pass_steps(self, count: int) -> None:
        """Execute the given number of steps."""
        for _ in range(count):
            self.simulation.step()

    def pass_until(self, reached: Callable[[], bool]) -> None:
        """Let steps pass until something is reached. Raises AssertionError if it never is."""
        for _ in range(MOST_STEPS):
            if reached():
                return
            self.simulation.step()
        pytest.fail("what the test waits for does not come about")

    def drain(self, *, savepoint: bool = True) -> TriggerId:
        """Ask for a drain until all chains run; return the id of the request that was accepted."""

        def accepted() -> bool:
            self.asked += 1
            self.process.ask_to_stop(TriggerId(f"t{self.asked}"), savepoint=savepoint, drain=True)
            return self.process.run is not None and self.process.run.draining

        self.pass_until(accepted)
        return TriggerId(f"t{self.asked}")

    def stop(self) -> None:
        """Stop with a savepoint."""

        def stops() -> bool:
            self.asked += 1
            self.process.ask_to_stop(TriggerId(f"t{self.asked}"), savepoint=True)
            return self.process.end is not None

        self.pass_until(stops)

    def restart(self) -> None:
        """Start again, regardless of the previous process."""
        self.simulation.processes.clear()
        self.process = self.simulation.start_process()

    def ended(self) -> bool:
        """Whether the process has."""
        return self.process.end is not None

    def is_told(self, request: TriggerId) -> bool:
        """Whether the caller of a request knows its outcome."""
        return request in self.process.drained

    def last(self) -> Manifest:
        """Return the last completed snapshot."""
        return self.world.oracle.completions[-1][1]

    def rows(self) -> Counter[str]:
        """Return the names of all rows that the sinks have shown."""
        return Counter(name for name, _, _ in self.world.sink.delivered())

    def all_is_read(self) -> bool:
        """Whether the process has read what every source has so far."""
        run = self.process.run
        return isinstance(run, GraphRun) and run.coordinator is not None and run.all_is_read


def names(nodes: tuple[Node, ...], limits: dict[ChainUid, int]) -> Counter[str]:
    """Return the names of the rows that come of what the sources have up to some offsets."""
    return Counter(name for rows in batch_result(nodes, limits).values() for name, _, _ in rows)


@pytest.mark.parametrize("unaligned", [False, True], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("savepoint", [True, False], ids=["savepoint", "checkpoint"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_drained_job_has_published_the_flushed_result_of_what_its_sources_have_read(
    shape: str, savepoint: bool, unaligned: bool
) -> None:
    for steps in range(40, 160, 7):
        life = CalmJob(SHAPES[shape], unaligned=unaligned)
        life.pass_steps(steps)
        request = life.drain(savepoint=savepoint)
        life.pass_until(life.ended)

        outcome, (record, manifest) = life.process.drained[request], life.world.oracle.completions[-1]
        assert life.process.end is m.JobEnd.STOPPED
        assert (outcome.state, outcome.checkpoint) == (TriggerState.COMPLETED, record.id)
        assert manifest.drained
        assert record.kind == ("savepoint" if savepoint else "checkpoint")
        assert life.rows() == names(SHAPES[shape], positions_in(manifest))


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_one_snapshot_ends_a_drain_however_deep_the_graph(depth: int) -> None:
    line = [ChainUid(f"c{number}") for number in range(depth)]
    inputs = [SOURCE, *line]
    nodes = tuple(
        Node(name, Work.WINDOW if number % 2 else Work.PASS, (inputs[number],), has_sink=True)
        for number, name in enumerate(line)
    )
    life = CalmJob(nodes)
    life.pass_until(lambda: len(life.world.oracle.completions) == 2)
    life.drain()
    run = life.process.run
    assert run is not None
    assert run.coordinator is not None
    before = run.coordinator.last_id
    life.pass_until(life.ended)

    assert run.coordinator.last_id == before + 1 == life.last().id


@pytest.mark.parametrize("shape", SHAPES)
def test_a_drained_job_that_starts_again_reads_on_from_where_its_sources_stood(shape: str) -> None:
    life = CalmJob(SHAPES[shape])
    endless = [chain for chain, limit in life.world.limits.items() if limit is None]
    life.pass_steps(80)
    life.drain()
    life.pass_until(life.ended)
    drained_at = positions_in(life.last())
    life.restart()
    life.pass_until(lambda: all(positions_in(life.last())[chain] > drained_at[chain] for chain in endless))

    assert not any(operator.finished for operator in life.last().operators if operator.chain in endless)
    life.simulation.finish()


def test_drains_change_nothing_for_what_does_not_wait_for_event_time() -> None:
    life = CalmJob(STATELESS)
    for lives in range(6):
        life.pass_steps(50 + 9 * lives)
        life.drain(savepoint=lives % 2 == 0)
        life.pass_until(life.ended)
        life.restart()
    life.simulation.finish()

    limits = {chain: limit for chain, limit in life.world.limits.items() if limit is not None}
    assert life.rows() == names(STATELESS, limits)


def lives_up_to_a_drain(shape: str, *, unaligned: bool = False) -> Iterator[tuple[CalmJob, TriggerId, int]]:
    """Return lives in which a drain was just asked for, once for each step until its end."""
    steps, number = 1, 0
    while number < steps:
        # Some of them choose the next task at random.
        life = CalmJob(SHAPES[shape], seed=number or None, unaligned=unaligned)
        life.pass_steps(90 + number % 5)
        request = life.drain(savepoint=number % 3 > 0)
        if number == 0:
            asked = life.simulation.steps
            life.pass_until(life.ended)
            steps = life.simulation.steps - asked
        else:
            yield life, request, number
        number += 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", core(SHAPES, "a line"))
def test_a_crash_at_any_step_of_a_drain_loses_and_doubles_nothing(shape: str) -> None:
    drained = set()
    for life, _, steps in lives_up_to_a_drain(shape):
        life.pass_steps(steps)
        life.restart()
        life.simulation.finish()
        drained.add(any(manifest.drained for _, manifest in life.world.oracle.completions))

    assert drained == {False, True}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_drain_that_fails_at_any_step_is_told_so_and_may_be_asked_for_again(shape: str) -> None:
    told: Counter[TriggerState] = Counter()
    for fault, (life, request, steps) in ((fault, each) for fault in FAULTS for each in lives_up_to_a_drain(shape)):
        life.pass_steps(steps - 1)
        life.simulation.step(fault)
        life.pass_until(partial(life.is_told, request))
        outcome = life.process.drained[request]
        told[outcome.state] += 1
        if outcome.state is TriggerState.FAILED:
            assert life.process.end is None
            life.drain()
        life.pass_until(life.ended)
        assert life.process.end is m.JobEnd.STOPPED
        assert life.last().drained
        life.restart()
        life.simulation.finish()

    assert set(told) == {TriggerState.COMPLETED, TriggerState.FAILED}


def by_end_of_input(life: CalmJob, _: int) -> None:
    life.simulation.finish()


def by_drain(life: CalmJob, steps: int) -> None:
    life.pass_until(life.all_is_read)
    life.drain(savepoint=steps % 2 == 0)
    life.pass_until(life.ended)


def by_stop_and_end_of_input(life: CalmJob, steps: int) -> None:
    life.pass_steps(steps)
    life.stop()
    life.restart()
    life.simulation.finish()


def by_stop_and_drain(life: CalmJob, steps: int) -> None:
    life.pass_steps(steps)
    life.stop()
    life.restart()
    by_drain(life, steps)


def by_kill_and_end_of_input(life: CalmJob, steps: int) -> None:
    life.pass_steps(steps)
    life.restart()
    life.simulation.finish()


def by_kill_and_drain(life: CalmJob, steps: int) -> None:
    life.pass_steps(steps)
    life.restart()
    life.pass_steps(steps)
    by_drain(life, steps)


@pytest.mark.parametrize(
    "way",
    [
        by_end_of_input,
        by_drain,
        by_stop_and_end_of_input,
        by_stop_and_drain,
        by_kill_and_end_of_input,
        by_kill_and_drain,
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_rows_are_committed_however_a_job_ends(shape: str, way: Callable[[CalmJob, int], None]) -> None:
    for steps in range(30, 200, 11):
        life = CalmJob(SHAPES[shape], seed=steps, unaligned=steps % 2 == 0)
        life.world.written = 20
        expected = names(SHAPES[shape], {chain: limit or 20 for chain, limit in life.world.limits.items()})
        way(life, steps)

        assert life.rows() == expected
