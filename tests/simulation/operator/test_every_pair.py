"""Every pair of a change of the spec and an observation, in every state: one decision, which comes to a point.

A frozen world is reconciled repeatedly. The decision may change a few times, as intents are stored one after the other,
and then stays the same. The final actions do not contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from tests.integration.core import thorough
from tests.simulation.operator.objects import Stored
from tests.simulation.operator.test_any_course_of_events import SPEC
from tests.simulation.operator.world import ClusterWorld

from streamjob.protocol.lifecycle import JobState
from streamjob_operator.decisions import Decision, Resource, decide
from streamjob_operator.decisions.values.actions import (
    Action,
    AddFinalizer,
    CreateDriver,
    DeleteDriver,
    DeleteSnapshot,
    DisposeCheckpoints,
    Emit,
    EnsureRevision,
    RemoveFinalizer,
    StopJob,
)
from streamjob_operator.decisions.values.memory import intends_otherwise, memory_of
from streamjob_operator.decisions.values.observation import Compatibility, Observation, PodPhase, StoredLog
from streamjob_operator.decisions.values.revision import revision_of
from streamjob_operator.resources.status import LifecycleState, PreflightState, StreamJobStatus
from streamjob_operator.resources.streamjob import StreamJobSpec

EACH_MINUTE = {"cron": "* * * * *"}
INTENTS = 8
"""Maximum number of intents stored in a row while nothing happens."""

CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "image": {"image": "other"},
    "policy": {"checkpointing": {"interval": "7s"}},
    "parallelism": {"parallelism": 3},
    "suspend": {"suspend": True},
    "resume": {"suspend": False},
    "stateless image": {"upgradeMode": "stateless", "image": "other"},
    "last-state image": {"upgradeMode": "last-state", "image": "other"},
    "image without fallback": {"image": "other", "upgrade": {"lastStateFallback": False}},
    "redeploy": {"savepointRedeployNonce": 9},
    "savepoint nonce": {"savepointTriggerNonce": 9},
    "location": {"checkpointing": {"location": "s3://elsewhere/snapshots"}},
    "dispose": {"deletionPolicy": "Delete"},
    "schedule": {"schedule": {"cron": "30 * * * *"}},
    "no schedule": {"schedule": None},
    "run at once": {"schedule": {"cron": "* * * * *", "runNonce": 9}},
}
ASKED = ("as it is", "invalid", "deleted")
EXIT_CODES = (0, 2, 3, 4, 5, 6, 137)


def run_until(state: LifecycleState, world: ClusterWorld, limit: int = 600) -> ClusterWorld:
    for _ in range(limit):
        if world.status.lifecycle_state is state:
            return world
        world.reconcile()
        if world.status.lifecycle_state is state:
            return world
        world.tick()
    raise AssertionError(f"never {state}: {world.status.lifecycle_state}")


def started(**changes: Any) -> ClusterWorld:
    world = ClusterWorld()
    world.apply(changed(SPEC, changes))
    return world


def changed(spec: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = deepcopy(spec)
    for name, value in changes.items():
        result[name] = {**result.get(name, {}), **value} if isinstance(value, dict) else value
    return result


def stable(**changes: Any) -> ClusterWorld:
    return run_until(LifecycleState.STABLE, started(**changes))


def edited(world: ClusterWorld, **changes: Any) -> ClusterWorld:
    world.apply(changed(world.stored.spec, changes))
    return world


def deleted(world: ClusterWorld) -> ClusterWorld:
    world.delete()
    return world


def with_successor(done: Callable[[ClusterWorld], bool]) -> ClusterWorld:
    """Return a world in an upgrade with a successor, once something is so."""
    world = edited(stable(upgrade={"warmSuccessor": True}), image="b")
    for _ in range(100):
        world.reconcile()
        if done(world):
            return world
        world.tick()
    raise AssertionError(f"never: {world.status.to_dict()}")


def with_preflight(done: Callable[[ClusterWorld], bool]) -> ClusterWorld:
    """Return a world in an upgrade with a preflight of a job that cannot start, once something is so."""
    world = edited(stable(), image="b", job={"behaviour": "invalid"})
    for _ in range(100):
        world.reconcile()
        if world.status.reconciliation.preflight is not None and done(world):
            return world
        world.tick()
    raise AssertionError(f"never: {world.status.to_dict()}")


def has_failed(world: ClusterWorld) -> bool:
    """Return whether the preflight has failed."""
    preflight = world.status.reconciliation.preflight
    return preflight is not None and preflight.state is PreflightState.FAILED


def follows(world: ClusterWorld) -> bool:
    """Return whether a successor has a pod."""
    return world.status.reconciliation.successor is not None and len(world.pods) == 2


SITUATIONS: dict[str, Callable[[], ClusterWorld]] = {
    LifecycleState.CREATED: lambda: run_until(LifecycleState.CREATED, started()),
    LifecycleState.DEPLOYING: lambda: run_until(LifecycleState.DEPLOYING, started()),
    LifecycleState.DEPLOYED: lambda: run_until(LifecycleState.DEPLOYED, started(job={"behaviour": "hang"})),
    LifecycleState.STABLE: stable,
    LifecycleState.UPGRADING: lambda: run_until(LifecycleState.UPGRADING, edited(stable(), image="b")),
    LifecycleState.SUSPENDING: lambda: run_until(LifecycleState.SUSPENDING, edited(stable(), suspend=True)),
    LifecycleState.SUSPENDED: lambda: run_until(LifecycleState.SUSPENDED, edited(stable(), suspend=True)),
    LifecycleState.ROLLING_BACK: lambda: run_until(
        LifecycleState.ROLLING_BACK, edited(stable(), job={"behaviour": "hang"})
    ),
    LifecycleState.ROLLED_BACK: lambda: run_until(
        LifecycleState.ROLLED_BACK, edited(stable(upgrade={"preflight": False}), job={"behaviour": "invalid"})
    ),
    LifecycleState.SCHEDULED: lambda: run_until(LifecycleState.SCHEDULED, started(schedule=EACH_MINUTE)),
    LifecycleState.FINISHED: lambda: run_until(LifecycleState.FINISHED, started(job={"behaviour": "finite"})),
    LifecycleState.FAILED: lambda: run_until(LifecycleState.FAILED, started(job={"behaviour": "invalid"})),
    LifecycleState.DELETING: lambda: run_until(LifecycleState.DELETING, deleted(stable())),
    "run under way": lambda: stable(schedule=EACH_MINUTE),
    "run over": lambda: run_until(LifecycleState.SCHEDULED, stable(schedule=EACH_MINUTE)),
    "run failed": lambda: run_until(LifecycleState.FAILED, started(job={"behaviour": "invalid"}, schedule=EACH_MINUTE)),
    "preflight under way": lambda: with_preflight(lambda world: bool(world.preflights.pods)),
    "preflight failed": lambda: with_preflight(has_failed),
    "successor decided on": lambda: with_successor(lambda world: world.status.reconciliation.successor is not None),
    "successor in preparation": lambda: with_successor(follows),
    "stop for a successor": lambda: with_successor(lambda world: any(each.triggers for each in world.processes)),
    "successor takes over": lambda: with_successor(lambda world: world.status.job_status.attempt == 2),
}


def observations(world: ClusterWorld, seen: Observation) -> list[Observation]:
    """Return what could be seen in the place of what is seen."""
    variants = [
        seen,
        replace(seen, pods=(), job=None, policy=None, triggers={}),
        replace(seen, job=None, policy=None, triggers={}),
        replace(seen, job=None, policy=None, triggers={}, log=None),
        replace(seen, log=None),
        replace(seen, log=StoredLog()),
        replace(seen, now=seen.now + 10_000),
        replace(seen, now=seen.now + 10_000, job=None, policy=None, triggers={}),
    ]
    attempt = world.status.job_status.attempt
    others = tuple(pod for pod in seen.pods if pod.attempt != attempt)
    if others:
        variants.append(replace(seen, successor=None))
        variants.append(replace(seen, pods=tuple(pod for pod in seen.pods if pod.attempt == attempt), successor=None))
        variants.append(replace(seen, pods=others))
        ended_others = tuple(replace(pod, phase=PodPhase.FAILED, exit_code=2) for pod in others)
        variants.append(replace(seen, pods=(*(pod for pod in seen.pods if pod.attempt == attempt), *ended_others)))
    for pod in seen.preflights:
        variants.append(replace(seen, preflights=()))
        variants += [
            replace(seen, preflights=(replace(pod, **changes),))
            for changes in (
                {"phase": PodPhase.SUCCEEDED, "exit_code": 0},
                {"phase": PodPhase.FAILED, "exit_code": 2, "message": "wrong"},
                {"phase": PodPhase.FAILED, "exit_code": 137},
                {"phase": PodPhase.FAILED, "reason": "Evicted"},
                {"phase": PodPhase.PENDING, "started": None, "reason": "ImagePullBackOff"},
                {"phase": PodPhase.PENDING, "started": None, "reason": "Unschedulable"},
                {"uid": "another"},
                {"revision": "another"},
                {"deleting": seen.now + 10},
                {"attempt": 99},
            )
        ]
    for pod in seen.pods:
        if pod.attempt != attempt:
            continue
        for code in EXIT_CODES:
            phase = PodPhase.FAILED if code else PodPhase.SUCCEEDED
            ended = replace(pod, phase=phase, exit_code=code)
            variants.append(replace(seen, pods=(ended,), job=None, policy=None, triggers={}))
            variants.append(replace(seen, pods=(ended,), job=None, policy=None, triggers={}, log=None))
        finished = replace(pod, phase=PodPhase.SUCCEEDED, exit_code=0, outcome=JobState.FINISHED)
        variants.append(replace(seen, pods=(finished,), job=None, policy=None, triggers={}))
        variants.append(replace(seen, pods=(replace(pod, uid="another"),)))
        variants.append(replace(seen, pods=(replace(pod, deleting=seen.now + 10),)))
        variants.append(replace(seen, pods=(replace(pod, deleting=seen.now - 1000),)))
        variants.append(replace(seen, pods=(replace(pod, attempt=attempt + 5, name=f"job-driver-{attempt + 5}"),)))
    if seen.job is not None:
        variants += [replace(seen, job=seen.job.model_copy(update={"state": state})) for state in JobState]
    return variants


def frozen(resource: Resource, seen: Observation) -> tuple[Decision, Observation]:
    """Return the decision and the sight of a world in which nothing happens, once all that is to be done is stored."""
    for _ in range(INTENTS):
        decision = decide(resource, seen)
        stored = StreamJobStatus.model_validate(decision.status.to_dict())
        assert stored == decision.status
        for action in decision.actions:
            if isinstance(action, EnsureRevision) and seen.revision(action.revision.name) is None:
                seen = replace(seen, revisions=(*seen.revisions, action.revision))
            if isinstance(action, AddFinalizer):
                seen = replace(seen, finalizer=True)
        before = memory_of(resource.status)
        if not intends_otherwise(before, memory_of(stored)) and not any(
            isinstance(action, EnsureRevision | AddFinalizer) for action in decision.actions
        ):
            return decision, seen
        resource = replace(resource, status=stored)
    raise AssertionError(f"what is to be done changes for ever: {decision.status.to_dict()}")


def judge(resource: Resource, decision: Decision) -> None:
    """See that what is done is of one mind, and covered by what is stored."""
    memory = memory_of(decision.status)
    done = [action for action in decision.actions if not isinstance(action, Emit | DeleteSnapshot)]
    minds: list[list[Action]] = [
        [each for each in done if isinstance(each, CreateDriver)],
        [each for each in done if isinstance(each, StopJob)],
        [each for each in done if isinstance(each, DisposeCheckpoints | RemoveFinalizer)],
    ]
    assert sum(bool(mind) for mind in minds) <= 1, done
    assert all(len({type(each) for each in mind}) == len(mind) for mind in minds), done
    for action in done:
        if isinstance(action, CreateDriver):
            assert not resource.deleted
            if action.waits:
                assert memory.successor is not None
                assert action.attempt == memory.successor.attempt > memory.attempt
                continue
            assert (action.attempt, action.revision) == (memory.attempt, memory.revision)
            assert memory.lifecycle is LifecycleState.DEPLOYING
        if isinstance(action, StopJob):
            assert memory.stop is not None
            assert action.trigger_id == memory.stop.trigger_id
        if isinstance(action, DeleteDriver) and action.name == f"job-driver-{memory.attempt}":
            resting = (LifecycleState.SUSPENDED, LifecycleState.SCHEDULED, LifecycleState.DELETING)
            assert memory.stop is not None or memory.lifecycle in resting
        if isinstance(action, DisposeCheckpoints | RemoveFinalizer):
            assert memory.lifecycle is LifecycleState.DELETING


@pytest.mark.slow
@pytest.mark.parametrize(
    "state", thorough(SITUATIONS, "STABLE", "UPGRADING", "SUSPENDING", "successor takes over"), ids=str
)
def test_every_change_meets_every_observation_with_one_decision(state: str) -> None:
    world = SITUATIONS[state]()
    read: Stored = world.stored
    seen = world.observe(read)
    for (name, change), asked in product(CHANGES.items(), ASKED):
        if read.deleted and asked != "deleted":
            continue
        spec = StreamJobSpec.model_validate(changed(read.spec, change))
        wanted = revision_of("job", spec)
        resource = Resource(
            name="job",
            generation=read.generation + (name != "nothing"),
            deleted=asked == "deleted",
            spec=spec,
            problems=("wrong",) if asked == "invalid" else (),
            status=StreamJobStatus.model_validate(read.status),
        )
        variants = observations(world, seen)
        variants.append(replace(seen, compatibility=Compatibility(revision=wanted.name, compatible=False)))
        for variant in variants:
            decision, _ = frozen(resource, variant)
            judge(resource, decision)


@pytest.mark.parametrize("state", SITUATIONS, ids=str)
def test_a_second_that_passes_is_no_reason_to_write_a_status(state: str) -> None:
    world = SITUATIONS[state]()
    read = world.stored
    resource = world.resource(read)
    for variant in observations(world, world.observe(read)):
        settled, seen = frozen(resource, variant)

        later = decide(replace(resource, status=settled.status), replace(seen, now=seen.now + 1))

        assert later.status == settled.status
