"""Executors and drivers are killed at any step, and state comes back as the last completed checkpoint has it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.properties.executors_world import CHAIN, PARTITIONS, EpochOver, World


@contextmanager
def world(seed: int) -> Iterator[World]:
    with tempfile.TemporaryDirectory() as directory:
        made = World(Path(directory), Random(seed))
        try:
            yield made
        finally:
            made.close()


FATES = st.lists(
    st.tuples(st.sampled_from(["executor-0", "executor-1", "executor-2", "driver"]), st.integers(0, 40)),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), fates=FATES)
def test_state_comes_back_whenever_an_executor_or_the_driver_is_killed(seed: int, fates: list[tuple[str, int]]) -> None:
    with world(seed) as job:
        for victim, step in fates:
            # Each task compares what it finds with what was written, see `Machine.run_task`.
            if victim == "driver":
                live(job, batches=1 + step % 3)
                job.start_driver()
            elif victim in job.machines:
                job.machines[victim].steps_left = step
                if not live(job, batches=3):
                    event("an executor with files was killed")
                    job.begin()
                elif victim in job.machines:
                    job.machines[victim].steps_left = None
        assert live(job, batches=2)
        assert job.completed == job.now


@pytest.mark.slow
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    changes=st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.none() | st.integers(0, 30)), max_size=4),
)
def test_nothing_is_lost_when_executors_end_on_request_and_others_join(
    seed: int, changes: list[tuple[int, bool, int | None]]
) -> None:
    with world(seed) as job:
        live(job, batches=1)
        for number, joins, killed_at in changes:
            name = f"executor-{number}"
            machine = job.machines.get(name)
            if joins and machine is None:
                job.join(name)
                assert job.state.idle() != ()
            elif machine is not None and len(job.machines) > 1:
                job.fleet.drain(machine.number, machine.instance)
                assert job.restarts != []
                machine.steps_left = killed_at
            else:
                continue
            before = dict(job.now)
            try:
                job.restart()
            except EpochOver:
                event("an executor was killed before its state was elsewhere")
                job.begin(replace=False)
            else:
                assert job.completed == job.now == before
                assert joins or name not in job.machines
            assert live(job, batches=1)
            owners = {each.name for each in job.state.choose(CHAIN, {0: PARTITIONS})[0]}
            assert owners == set(job.machines)


def live(job: World, batches: int) -> bool:
    """Run batches with checkpoints between them; return whether the epoch goes on."""
    try:
        for _ in range(batches):
            job.run_batch()
            if job.random.random() < 0.8:
                job.checkpoint()
        job.run_batch()
        job.checkpoint()
    except EpochOver:
        return False
    return True


def test_an_executor_that_is_killed_at_each_of_its_steps_harms_nothing() -> None:
    ended = came_back = elsewhere = 0
    for step in range(40):
        with world(seed=step) as job:
            job.machines["executor-1"].steps_left = step
            if not live(job, batches=1):
                ended += 1
                job.begin()
            elif "executor-1" in job.machines:
                job.machines["executor-1"].steps_left = None
            assert live(job, batches=1)
            assert job.completed == job.now
            came_back += job.channel.read_again
            elsewhere += job.channel.read_elsewhere

    assert ended > 14, "the steps reach into the epoch"
    assert came_back > 1, "rows in flight come back and are read"
    assert elsewhere > 1, "tasks run where their rows are not"
