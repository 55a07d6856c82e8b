"""An upgrade with a warm successor, disturbed at each of its steps in each way, while the controller dies.

Whatever happens, no completed checkpoint is passed over, no number is given to two pods, no successor is left that
waits, and the job comes to what its spec asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from tests.simulation.operator.invariants import check_savepoints, check_starts
from tests.simulation.operator.test_any_course_of_events import EXAMPLES, SPEC, at_rest_as_asked, come_to_rest
from tests.simulation.operator.test_every_pair import changed, run_until
from tests.simulation.operator.world import ClusterWorld, Mishap

from streamjob_operator.resources.status import LifecycleState

STEPS = range(24)
"""Looks of the controller, from the changed spec to the checkpoint of the driver that has taken over."""
DEATHS = (None, 0, 1, 2)
"""Where the controller dies at that step: nowhere, before the status is stored, after it, after the first action."""
WARM: dict[str, Any] = {
    "upgrade": {"warmSuccessor": True},
    "initialSavepointPath": None,
    "savepoints": {"onDeletion": True},
}

_SAVEPOINTS_UNSEEN = ("the store is away", "the job is deleted")
"""Nobody sees the savepoint while the store is away, and a deletion does not wait for ever to record one."""

Happens = Callable[[ClusterWorld], None]


def edits(**changes: Any) -> Happens:
    return lambda world: world.apply(changed(world.stored.spec, changes))


def sets(name: str, value: bool) -> Happens:
    return lambda world: setattr(world, name, value)


def of_successor(happens: Callable[[ClusterWorld, Any], None]) -> Happens:
    """Return what happens to the newest pod, if it is another one than the oldest."""
    return lambda world: happens(world, world.pods[-1]) if len(world.pods) > 1 else None


def killed(world: ClusterWorld, pod: Any) -> None:
    if pod.process is not None:
        pod.process.kill()


def removed(world: ClusterWorld, pod: Any) -> None:
    killed(world, pod)
    world.pods.remove(pod)


EVENTS: dict[str, Happens] = {
    "nothing": lambda world: None,
    "the driver dies": lambda world: world.kill_older_driver(),
    "the successor dies": of_successor(killed),
    "the pod of the successor is gone": of_successor(removed),
    "the pod of the driver is gone": lambda world: removed(world, world.pods[0]) if world.pods else None,
    "the node of the newest pod is lost": lambda world: world.lose_node(),
    "the driver lingers": lambda world: world.linger(),
    "the savepoint fails": lambda world: setattr(world, "next_fault", "savepoint fails"),
    "the driver crashes behind its savepoint": lambda world: setattr(world, "next_fault", "crash behind savepoint"),
    "the spec is withdrawn": edits(image="a"),
    "the spec changes again": edits(image="c"),
    "state may be dropped": edits(allowNonRestoredState=True),
    "state may get no gap": edits(strictMigration=True),
    "a snapshot is named": edits(savepointRedeployNonce=7, initialSavepointPath="s3://b/s/manifest.json"),
    "the next revision hangs": edits(job={"behaviour": "hang"}),
    "the next image is missing": edits(job={"behaviour": "no-image"}),
    "the job is suspended": edits(suspend=True),
    "the job is deleted": lambda world: world.delete(),
    "no successors are wanted": edits(upgrade={"warmSuccessor": False}),
    "the spec is invalid": lambda world: world.apply(world.stored.spec, valid=False),
    "the store is away": sets("store_up", False),
    "drivers do not answer": sets("api_up", False),
    "pods are rejected": sets("rejects", True),
}


def upgraded() -> ClusterWorld:
    """Return a world whose user has just changed the spec of a stable job."""
    world = ClusterWorld()
    spec = {name: value for name, value in changed(SPEC, WARM).items() if value is not None}
    world.apply({**spec, "image": "a"})
    run_until(LifecycleState.STABLE, world)
    world.apply(changed(world.stored.spec, {"image": "b"}))
    return world


@pytest.mark.slow
@pytest.mark.parametrize("name", EVENTS)
def test_an_upgrade_that_is_disturbed_at_any_step_comes_to_what_is_asked(name: str) -> None:
    taken_over = set()
    offset = list(EVENTS).index(name) % 2
    for step in STEPS if EXAMPLES > 100 else STEPS[offset::2]:
        for dies_at in DEATHS if EXAMPLES > 100 else (DEATHS[step // 2 % len(DEATHS)],):
            world = upgraded()
            for look in STEPS:
                if look == step:
                    EVENTS[name](world)
                    world.reconcile(Mishap(dies_at=dies_at))
                else:
                    world.reconcile()
                world.tick(1)
            before = deepcopy(world.stored)
            come_to_rest(world)
            check_starts(world)
            if name not in _SAVEPOINTS_UNSEEN:
                check_savepoints(world)
            taken_over |= world.taken_over
            waiting = [pod.name for pod in world.pods if pod.process is not None and pod.process.waits]
            assert not waiting, (step, dies_at, waiting)
            assert at_rest_as_asked(world), (step, dies_at, world.status.to_dict(), before)
    assert taken_over, "no successor took over: the test proves nothing"


@pytest.mark.slow
@pytest.mark.parametrize("stale", [1, 2, 3])
def test_a_controller_that_reads_old_versions_gives_no_number_to_two_pods(stale: int) -> None:
    for step in STEPS:
        world = upgraded()
        for look in STEPS:
            world.reconcile(Mishap(stale=stale) if look >= step else None)
            world.reconcile()
            world.tick(1)
        come_to_rest(world)
        check_starts(world)
        assert at_rest_as_asked(world), (step, world.status.to_dict())
