"""Whatever users do and whatever goes wrong, in any order: no state is lost, and in the end all is as asked.

Hypothesis makes up the course of events: edits, deletions, kills, lost nodes, a store or a control API that is away,
and a controller that reads old versions and dies between any two writes. Then the world is fair, and comes to rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.simulation.operator.conditions import is_true
from tests.simulation.operator.invariants import check_savepoints, check_starts
from tests.simulation.operator.world import ClusterWorld, Mishap

from streamjob_operator.decisions.values.health import RUNS
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState, PreflightState

BEHAVIOURS = (
    "good",
    "good",
    "good",
    "good",
    "finite",
    "finite-crash",
    "crash",
    "hang",
    "stuck",
    "invalid",
    "unrestorable",
    "stubborn",
    "failing",
    "no-image",
    "no-account",
)
EXAMPLES = int(os.environ.get("STREAMJOB_SIMULATIONS", "100"))
YEARLY = {"cron": "0 0 1 1 *"}
LONG = 4000
"""Seconds within which a fair world comes to rest."""


@dataclass(frozen=True)
class Edit:
    """A user changes the spec: where, and what is there now."""

    path: str
    value: Any

    def __call__(self, world: ClusterWorld) -> None:
        spec = deepcopy(world.stored.spec)
        *parents, name = self.path.split(".")
        at = spec
        for parent in parents:
            at = at.setdefault(parent, {})
        at[name] = self.value
        world.apply(spec, valid=world.stored.valid)


@dataclass(frozen=True)
class Valid:
    """The spec becomes one that cannot be used, or can again."""

    valid: bool

    def __call__(self, world: ClusterWorld) -> None:
        world.apply(world.stored.spec, valid=self.valid)


@dataclass(frozen=True)
class Reconcile:
    """The controller looks, so often, in this way."""

    life: Mishap
    times: int = 1

    def __call__(self, world: ClusterWorld) -> None:
        for _ in range(self.times):
            world.reconcile(self.life)
            world.tick(1)


@dataclass(frozen=True)
class Tick:
    """Time passes, and the controller is away."""

    seconds: int

    def __call__(self, world: ClusterWorld) -> None:
        world.tick(self.seconds)


@dataclass(frozen=True)
class Happens:
    """Something goes wrong, or is right again."""

    what: str

    def __call__(self, world: ClusterWorld) -> None:
        happens: dict[str, Callable[[], None]] = {
            "kill": world.kill_driver,
            "kill older": world.kill_older_driver,
            "linger": world.linger,
            "evict": world.evict_driver,
            "lose node": world.lose_node,
            "give node up": world.give_node_up,
            "delete": world.delete,
            "delete preflights": world.preflights.pods.clear,
        }
        if self.what in happens:
            happens[self.what]()
        elif self.what.startswith("preflights"):
            world.preflights.exit_code = 5 if self.what.endswith("fail") else None
        elif self.what.startswith("store"):
            world.store_up = self.what.endswith("up")
        elif self.what.startswith("pods"):
            world.rejects = self.what.endswith("rejected")
        elif self.what.startswith("api"):
            world.api_up = self.what.endswith("up")
        else:
            world.next_fault = self.what


edits = st.one_of(
    st.builds(Edit, st.just("job.behaviour"), st.sampled_from(BEHAVIOURS)),
    st.builds(Edit, st.just("image"), st.sampled_from(["a", "b", "c"])),
    st.builds(Edit, st.just("parallelism"), st.integers(1, 3)),
    st.builds(Edit, st.just("checkpointing.interval"), st.sampled_from(["5s", "10s", "20s"])),
    st.builds(Edit, st.just("upgradeMode"), st.sampled_from(["savepoint", "last-state", "stateless"])),
    st.builds(Edit, st.just("suspend"), st.booleans()),
    st.builds(Edit, st.just("upgrade.lastStateFallback"), st.booleans()),
    st.builds(Edit, st.just("upgrade.maxAllowedCheckpointAge"), st.sampled_from(["5s", "1h"])),
    st.builds(Edit, st.just("upgrade.rollback.enabled"), st.booleans()),
    st.builds(Edit, st.just("upgrade.warmSuccessor"), st.booleans()),
    st.builds(Edit, st.just("upgrade.preflight"), st.booleans()),
    st.builds(Edit, st.just("savepointRedeployNonce"), st.integers(1, 3)),
    st.builds(Edit, st.just("savepointTriggerNonce"), st.integers(1, 3)),
    st.builds(Edit, st.just("savepoints.schedule"), st.sampled_from(["30s", "* * * * *"])),
    st.builds(Edit, st.just("savepoints.onDeletion"), st.booleans()),
    st.builds(Edit, st.just("schedule"), st.sampled_from([None, {"cron": "* * * * *"}, YEARLY])),
    st.builds(Edit, st.just("schedule"), st.builds(lambda nonce: {**YEARLY, "runNonce": nonce}, st.integers(1, 3))),
    st.builds(Edit, st.just("deletionPolicy"), st.sampled_from(["Retain", "Delete"])),
    st.builds(Valid, st.booleans()),
)
lives = st.builds(
    Mishap, stale=st.integers(0, 4), dies_at=st.none() | st.integers(0, 3), between=st.sampled_from([0, 0, 0, 1, 7, 50])
)
troubles = st.sampled_from(
    [
        "kill", "kill older", "linger", "evict", "lose node", "give node up", "store down", "store up", "api down",
        "api up", "savepoint fails", "crash behind savepoint", "pods are rejected", "pods are taken",
        "preflights fail", "preflights run", "delete preflights",
    ]
)  # fmt: skip
looks = st.one_of(
    st.builds(Reconcile, lives, st.sampled_from([1, 2, 5])),
    st.builds(Reconcile, st.just(Mishap()), st.sampled_from([1, 2, 3, 5, 10, 25])),
    st.builds(Tick, st.sampled_from([1, 5, 20, 90, 400])),
)
courses = st.lists(st.one_of(edits, edits, st.builds(Happens, troubles), looks, looks, looks), max_size=30)

SPEC: dict[str, Any] = {
    "job": {"behaviour": "good"},
    "checkpointing": {
        "location": "s3://bucket/snapshots",
        "interval": "10s",
        "timeout": "30s",
        "tolerableFailedCheckpoints": 0,
    },
    "initialSavepointPath": "s3://bucket/savepoints/first/manifest.json",
    "upgrade": {"rollback": {"enabled": True, "readinessTimeout": "2m"}},
    "restartPolicy": {"onFailureRetries": 3},
    "healthCheck": {"checkpointProgress": {"window": "1m"}},
    "savepoints": {"retention": {"maxCount": 2}},
}


def come_to_rest(world: ClusterWorld) -> None:
    """Let the world be fair until nothing changes any more."""
    world.store_up = world.api_up = True
    world.next_fault = None
    world.rejects = False
    world.preflights.exit_code = None
    world.give_node_up()
    quiet_since, last = world.now, None
    start = world.now
    while world.now < start + LONG and world.now < quiet_since + 200:
        decision = world.reconcile()
        if decision is None:
            return
        wait = decision.requeue if decision.requeue is not None else 5
        world.tick(max(1, min(wait, 20)))
        state = (world.status.lifecycle_state, world.status.job_status.attempt)
        if state != last:
            quiet_since, last = world.now, state


def behaviour_of(world: ClusterWorld, revision: str) -> str | None:
    """Return the behaviour of a revision's drivers, if it has one of its own."""
    return (world.revisions[revision].content.get("job") or {}).get("behaviour")


def at_rest_as_asked(world: ClusterWorld) -> bool:
    """Whether the world is as its user wants it, or the status says why it cannot be."""
    if world.stored.deleted:
        return world.gone and not [pod for pod in world.pods if pod.process is not None and pod.process.alive]
    state, conditions = world.status.lifecycle_state, world.status.conditions
    if is_true(conditions, ConditionType.READY, world.stored.generation):
        return True
    if is_true(conditions, ConditionType.STALLED, world.stored.generation):
        return True
    behaviour = behaviour_of(world, str(world.status.reconciliation.last_reconciled_revision))
    stop, successor = world.status.reconciliation.stop, world.status.reconciliation.successor
    if successor is not None and behaviour_of(world, successor.revision) == "no-image":
        return is_true(conditions, ConditionType.RUNNING, world.stored.generation)
    preflight = world.status.reconciliation.preflight
    if preflight is not None and preflight.state is PreflightState.PENDING:
        # A revision that never completes anything is restarted again and again.
        waits = behaviour_of(world, preflight.revision) == "no-image"
        return waits and state in (*RUNS, LifecycleState.DEPLOYING)
    if behaviour == "no-image":
        return state is LifecycleState.DEPLOYING
    # Its savepoints fail for ever, and its user allows nothing else.
    return behaviour in ("stubborn", "failing") and stop is not None and stop.next_try is not None


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([0, 30, 30, 30]),
    courses,
    st.sampled_from([False, False, False, True]),
    st.sampled_from([True, True, False]),
    st.booleans(),
)
def test_no_course_of_events_loses_state_or_keeps_the_job_from_what_is_asked(
    warm_up: int, course: list[Callable[[ClusterWorld], None]], deletes: bool, in_reach: bool, warm: bool
) -> None:
    world = ClusterWorld(in_reach=in_reach)
    spec = deepcopy(SPEC)
    spec["upgrade"]["warmSuccessor"] = warm
    world.apply(spec)
    Reconcile(Mishap(), warm_up)(world)
    for step in course:
        step(world)
        if world.gone:
            break
    if deletes:
        world.delete()
    elif not world.gone and world.stored.spec.get("schedule"):
        # A job that runs each minute never comes to rest.
        Edit("schedule.cron", YEARLY["cron"])(world)
    come_to_rest(world)
    check_starts(world)
    if world.status.lifecycle_state is LifecycleState.FINISHED:
        assert world.log.final_committed, "finished, and what the final checkpoint holds was never published"
    if in_reach:
        check_savepoints(world)
    waiting = [pod.name for pod in world.pods if pod.process is not None and pod.process.waits]
    assert world.gone or not waiting, "a successor is left that waits"
    assert world.gone or len(world.preflights.pods) <= 1, "pods of preflights are left"
    event(f"{min(len(world.preflights.made), 3)} preflights")
    event(f"{min(len(world.taken), 3)} savepoints of stops")
    event(f"{min(len(world.taken_over), 2)} successors took over")
    event(f"{min(len({each.last_run for each in world.memories}) - 1, 3)} runs")
    event(f"ends {'gone' if world.gone else world.status.lifecycle_state.value}")

    assert at_rest_as_asked(world), (world.status.to_dict(), world.stored)
