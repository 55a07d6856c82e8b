"""StreamSnapshots during any course of events: each comes to an end, and needed files are not deleted."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st
from tests.simulation.operator.invariants import check_savepoints, check_starts
from tests.simulation.operator.snapshots import SnapshotWorld
from tests.simulation.operator.test_any_course_of_events import (
    SPEC,
    Edit,
    Happens,
    Reconcile,
    Tick,
    edits,
    lives,
    troubles,
)
from tests.simulation.operator.world import ClusterWorld, Mishap

from streamjob_operator.resources.snapshot import SnapshotState

EXAMPLES = int(os.environ.get("STREAMJOB_SIMULATIONS", "60"))
NAMES = ("one", "two", "three")
KINDS: tuple[dict[str, Any], ...] = (
    {"savepoint": {"disposeOnDelete": True}},
    {"savepoint": {"disposeOnDelete": False}},
    {"checkpoint": {}},
    {"savepoint": {"disposeOnDelete": True}, "backoffLimit": 0},
)
LONG = 8000
QUIET = 200
"""Seconds without a change of the job after which it has come to rest."""


@dataclass(frozen=True)
class Request:
    """A user applies a StreamSnapshot."""

    name: str
    spec: dict[str, Any]

    def __call__(self, world: ClusterWorld) -> None:
        cast(SnapshotWorld, world).request(self.name, self.spec)


@dataclass(frozen=True)
class Remove:
    """A user deletes a StreamSnapshot."""

    name: str

    def __call__(self, world: ClusterWorld) -> None:
        cast(SnapshotWorld, world).remove(self.name)


@dataclass(frozen=True)
class Look:
    """The controller looks at the job and at the snapshots."""

    life: Mishap
    times: int

    def __call__(self, world: ClusterWorld) -> None:
        for _ in range(self.times):
            world.reconcile()
            cast(SnapshotWorld, world).reconcile_snapshots(self.life)
            world.tick(1)


courses = st.lists(
    st.one_of(
        edits,
        st.builds(Request, st.sampled_from(NAMES), st.sampled_from(KINDS)),
        st.builds(Request, st.sampled_from(NAMES), st.sampled_from(KINDS)),
        st.builds(Remove, st.sampled_from(NAMES)),
        st.builds(Happens, troubles),
        st.builds(Tick, st.sampled_from([1, 5, 20])),
        st.builds(Look, lives, st.sampled_from([1, 2, 4])),
        st.builds(Look, st.just(Mishap()), st.sampled_from([2, 5, 12])),
    ),
    max_size=25,
)


def come_to_rest(world: SnapshotWorld) -> None:
    world.store_up = world.api_up = True
    world.next_fault = None
    world.give_node_up()
    start = quiet_since = world.now
    last = None
    while world.now < start + LONG and (
        world.now < quiet_since + QUIET or not all(at_rest(world, name) for name in world.resources)
    ):
        Look(Mishap(), 1)(world)
        world.tick(10)
        if world.gone:
            continue
        state = (world.status.lifecycle_state, world.status.job_status.attempt)
        if state != last:
            quiet_since, last = world.now, state


def at_rest(world: SnapshotWorld, name: str) -> bool:
    if world.resources[name].deleted:
        return False
    return world.state_of(name).terminal


def waits(world: SnapshotWorld, name: str) -> bool:
    """Whether a snapshot waits for a job that does not run, fails for ever, or has nothing newer to start from."""
    deployed = world.status.reconciliation.last_reconciled_revision
    job = None if deployed is None else world.revisions[deployed].content.get("job")
    steady = (job or {}).get("behaviour") == "good" and world.status.lifecycle_state == "STABLE"
    if not world.resources[name].deleted:
        return not steady
    return not world.gone and not steady


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@example([Edit("job.behaviour", "finite"), Happens("store down"), Look(Mishap(), 12)])
@given(courses)
def test_every_snapshot_comes_to_an_end_and_none_that_is_needed_is_deleted(
    course: list[Callable[[ClusterWorld], None]],
) -> None:
    world = SnapshotWorld()
    world.apply(deepcopy(SPEC))
    Reconcile(Mishap(), 30)(world)
    for step in course:
        step(world)
        if world.gone:
            break
    come_to_rest(world)
    completions = {each.path for each in world.log.completions}

    for name, stored in world.resources.items():
        state, path = world.state_of(name), stored.status.get("path")
        event(f"ends {state.value}")
        assert at_rest(world, name) or waits(world, name), (name, stored, world.status.to_dict())
        if state is SnapshotState.COMPLETED and not world.disposed:
            assert path in completions
    check_starts(world)
    check_savepoints(world)
