"""An upgrade behind a preflight, disturbed at each of its steps in each way, while the controller dies.

Whatever happens, the driver is not stopped before the preflight has passed, no number is given to two pods, no pod of a
preflight is left, and the job comes to what its spec asks for.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.simulation.operator.invariants import check_savepoints, check_starts
from tests.simulation.operator.test_any_course_of_events import EXAMPLES, SPEC, at_rest_as_asked, come_to_rest
from tests.simulation.operator.test_every_pair import changed, run_until
from tests.simulation.operator.test_upgrades_with_a_successor import DEATHS, Happens, edits, sets
from tests.simulation.operator.world import ClusterWorld, Mishap

from streamjob_operator.decisions.values.actions import StopJob
from streamjob_operator.resources.status import LifecycleState, PreflightState

STEPS = range(14)
"""Looks of the controller, from the changed spec to the stop of the driver."""


def of_preflights(name: str, value: Any) -> Happens:
    return lambda world: setattr(world.preflights, name, value)


EVENTS: dict[str, Happens] = {
    "nothing": lambda world: None,
    "the driver dies": lambda world: world.kill_older_driver(),
    "the node of the driver is lost": lambda world: world.lose_node(),
    "the pod of the preflight is gone": lambda world: world.preflights.pods.clear(),
    "the preflight fails": of_preflights("exit_code", 5),
    "the preflight hangs": of_preflights("never_end", True),
    "no node has room": of_preflights("no_room", True),
    "the savepoint fails": lambda world: setattr(world, "next_fault", "savepoint fails"),
    "the spec is withdrawn": edits(image="a"),
    "the spec changes again": edits(image="c"),
    "the job is rescaled": edits(parallelism=3),
    "the next revision cannot start": edits(job={"behaviour": "invalid"}),
    "the next image is missing": edits(job={"behaviour": "no-image"}),
    "a snapshot is named": edits(savepointRedeployNonce=7, initialSavepointPath="s3://b/s/manifest.json"),
    "a successor is wanted": edits(upgrade={"warmSuccessor": True}),
    "no preflights are wanted": edits(upgrade={"preflight": False}),
    "the job is suspended": edits(suspend=True),
    "the job is deleted": lambda world: world.delete(),
    "the spec is invalid": lambda world: world.apply(world.stored.spec, valid=False),
    "the store is away": sets("store_up", False),
    "drivers do not answer": sets("api_up", False),
    "pods are rejected": sets("rejects", True),
}


def upgraded(behaviour: str) -> ClusterWorld:
    """Return a world whose user has just changed the spec of a stable job."""
    world = ClusterWorld()
    spec = {name: value for name, value in SPEC.items() if name != "initialSavepointPath"}
    world.apply({**spec, "image": "a"})
    run_until(LifecycleState.STABLE, world)
    world.apply(changed(world.stored.spec, {"image": "b", "job": {"behaviour": behaviour}}))
    return world


def disturbed(world: ClusterWorld, name: str, step: int, life: Mishap) -> None:
    for look in STEPS:
        if look == step:
            EVENTS[name](world)
            world.reconcile(life)
        else:
            world.reconcile()
        world.tick(1)
    world.preflights.never_end = world.preflights.no_room = False
    for pod in world.preflights.pods:
        pod.ends = world.now
    come_to_rest(world)


@pytest.mark.parametrize("behaviour", ["good", "invalid"])
@pytest.mark.parametrize("name", EVENTS)
def test_an_upgrade_that_is_disturbed_at_any_step_comes_to_what_is_asked(name: str, behaviour: str) -> None:
    ends: Counter[str] = Counter()
    offset = list(EVENTS).index(name) % 7
    for step in STEPS if EXAMPLES > 100 else STEPS[offset::7]:
        for dies_at in DEATHS if EXAMPLES > 100 else (DEATHS[step % len(DEATHS)],):
            world = upgraded(behaviour)
            disturbed(world, name, step, Mishap(dies_at=dies_at))

            check_starts(world)
            if name not in ("the store is away", "the job is deleted"):
                check_savepoints(world)
            assert len(set(world.preflights.made)) == len(world.preflights.made)
            known = world.status.reconciliation.preflight
            failed = known is not None and known.state in (PreflightState.FAILED, PreflightState.PENDING)
            assert world.gone or failed or not world.preflights.pods, (step, dies_at, world.status.to_dict())
            assert at_rest_as_asked(world), (step, dies_at, world.status.to_dict())
            if known is not None:
                ends[known.state] += 1
            if name == "nothing" and behaviour == "invalid":
                assert not [each for each in world.actions if isinstance(each, StopJob)]
    assert ends, "no preflight was decided on: the test proves nothing"


@pytest.mark.parametrize("stale", [1, 2, 3])
def test_a_controller_that_reads_old_versions_gives_no_number_to_two_pods(stale: int) -> None:
    for step in STEPS if EXAMPLES > 100 else STEPS[stale::5]:
        world = upgraded("good")
        for look in STEPS:
            world.reconcile(Mishap(stale=stale) if look >= step else None)
            world.reconcile()
            world.tick(1)
        come_to_rest(world)
        check_starts(world)
        assert len(set(world.preflights.made)) == len(world.preflights.made)
        assert at_rest_as_asked(world), (step, world.status.to_dict())
