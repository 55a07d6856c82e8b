"""The invariants of the small cluster, after any events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamjob_operator.decisions import Decision, Resource
from streamjob_operator.decisions.values.memory import Memory, memory_of
from streamjob_operator.resources.conditions import ConditionType, find_condition
from streamjob_operator.resources.status import LifecycleState, PreflightState, TriggerPurpose

if TYPE_CHECKING:
    from tests.simulation.operator.world import ClusterWorld

FOR_ANOTHER_POD = {
    TriggerPurpose.UPGRADE, TriggerPurpose.REDEPLOY, TriggerPurpose.RESTART, TriggerPurpose.ROLLBACK
}  # fmt: skip


def check_drivers(world: ClusterWorld) -> None:
    attempts = [process.attempt for process in world.processes if process.alive]
    assert len(attempts) == len(set(attempts)), "two live drivers have the same attempt"


def check_status(world: ClusterWorld) -> None:
    after = world.stored
    old, new = world.memories[-2:]
    assert new.attempt >= old.attempt, "an attempt was taken back"
    assert new.failure_reason != "Superseded", "the controller superseded itself"
    if new.revision is not None:
        assert new.revision in world.revisions, "the status names a revision that is not stored"
    if not after.valid and new.stop != old.stop and new.stop is not None:
        purposes = {"Restart", "Rollback", "Delete"}
        assert new.stop.purpose in purposes or old.stop is not None, "an invalid spec stopped the job"
    check_run(world, old, new)
    conditions = world.status.conditions
    assert all(each.observed_generation == after.generation for each in conditions)
    ready = find_condition(conditions, ConditionType.READY)
    stalled = find_condition(conditions, ConditionType.STALLED)
    reconciling = find_condition(conditions, ConditionType.RECONCILING)
    assert ready is not None
    assert stalled is not None
    assert reconciling is not None
    assert not (stalled.status == "True" and reconciling.status == "True"), "kstatus would never call it failed"
    assert "True" in (ready.status, stalled.status, reconciling.status), "kstatus would call it current"
    if ready.status == "True":
        assert (stalled.status, reconciling.status) == ("False", "False")
        assert after.valid, "an invalid spec is not ready"
        wanted = world.resource(after).wanted
        assert wanted is not None
        resting = new.lifecycle in (LifecycleState.FINISHED, LifecycleState.SUSPENDED, LifecycleState.SCHEDULED)
        assert resting or new.revision == wanted.name, "ready, though another revision runs"
        if not resting:
            own = [each for each in world.log.completions if each.attempt == new.attempt]
            assert any(each.time > new.revision_since for each in own), "ready before this driver's checkpoint"
        assert (new.lifecycle is LifecycleState.SUSPENDED) == after.spec.get("suspend", False) or (
            new.lifecycle is LifecycleState.FINISHED
        )


def check_run(world: ClusterWorld, old: Memory, new: Memory) -> None:
    """A run begins when the one before has ended, and is asked for; each of the schedule's times is for one run."""
    if new.last_run != old.last_run:
        assert old.lifecycle in (LifecycleState.SCHEDULED, LifecycleState.FAILED), "two runs are under way"
        is_due = old.next_run is not None and new.last_run is not None and new.last_run >= old.next_run
        assert is_due or new.nonces.run != old.nonces.run, "a run begins that nobody asked for"
        assert new.next_run is not None
        assert new.last_run is not None
        assert new.next_run > new.last_run, "the time of a run that has begun counts again"
    if new.lifecycle is LifecycleState.SCHEDULED and old.lifecycle is not LifecycleState.SCHEDULED:
        alive = [each.name for each in world.pods if not each.node_lost and each.process and each.process.alive]
        assert not alive, f"a run is over while {alive} run"


def check_starts(world: ClusterWorld) -> None:
    """No completion is passed over, unless a user asked for a start from elsewhere, and once for each time.

    A start from elsewhere may be repeated until something is completed after it.
    """
    resets, since = list(world.resets), 0
    for start in world.starts:
        if start.restore_from == "latest" or start.newest is None:
            continue
        memory = next(each for each in world.memories if each.attempt == start.attempt)
        first = memory.restore.first_attempt
        assert start.newest.attempt < first, f"attempt {start.attempt} passed {start.newest} over, made since {first}"
        if start.newest.attempt < since:
            continue
        decided = world.times[next(i for i, each in enumerate(world.memories) if each.attempt >= first)]
        served = [time for time in resets if time <= decided]
        assert served, f"attempt {start.attempt} passed {start.newest} over, and nobody asked for it"
        resets, since = [time for time in resets if time > decided], first


def check_savepoints(world: ClusterWorld) -> None:
    """Every savepoint that ended a stop has its StreamSnapshot.

    One may lack it: the store was down when the stop ended, and the next driver finished before anybody saw it.
    Then neither that driver nor the end of the log shows the savepoint.
    """
    finished = world.status.lifecycle_state is LifecycleState.FINISHED
    missing = world.taken - set(world.recorded.values()) - (world.taken_unseen if finished else set())
    assert not missing, f"savepoints without a StreamSnapshot: {missing}"


def check_preflight(world: ClusterWorld, old: Memory, new: Memory) -> None:
    """A driver that has come to run is not stopped for a revision whose preflight is pending or has failed."""
    known = old.preflight
    if new.stop is None or new.stop.purpose not in (TriggerPurpose.UPGRADE, TriggerPurpose.REDEPLOY):
        return
    if known is not None and (known.revision, known.generation) == (new.stop.revision, world.stored.generation):
        done = (PreflightState.PASSED, PreflightState.SKIPPED, PreflightState.WITHDRAWN)
        assert known.state in done, f"stopped for {known.revision}, whose preflight is {known.state}"


def check_stop(world: ClusterWorld, resource: Resource, decision: Decision) -> None:
    """A driver that runs is stopped only for a pod that the API server takes, or has taken."""
    old, new = memory_of(resource.status), memory_of(decision.status)
    begins = new.stop is not None and new.stop.next_try is None and (
        old.stop is None or old.stop.next_try is not None
    )  # fmt: skip
    pod = next((pod for pod in world.pods if pod.attempt == new.attempt), None)
    runs = pod is not None and not pod.node_lost and pod.process is not None and pod.process.alive
    if not begins or new.stop is None or new.stop.purpose not in FOR_ANOTHER_POD or not runs:
        return
    check_preflight(world, old, new)
    comes = {
        TriggerPurpose.RESTART: new.revision, TriggerPurpose.ROLLBACK: new.stable_revision
    }.get(new.stop.purpose, new.stop.revision)  # fmt: skip
    assert comes is not None
    has_taken = any(pod.revision == comes and pod.process is not None and pod.process.waits for pod in world.pods)
    assert has_taken or world.takes(comes), f"the driver is stopped for a pod of {comes}, which is rejected"
