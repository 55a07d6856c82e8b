"""Decides about the next driver: its revision, its snapshot, and when its pod is created.

A driver continues from the newest completion in the log. The exception is a start from elsewhere on request (from
nothing, or from a named snapshot), until that driver has completed something of its own: if it dies before, the next
one starts from the same place, and so does a changed revision that replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamjob.protocol.log.restore import LATEST, NONE
from streamjob_operator.decisions.shared.pod_dry_run import hindered
from streamjob_operator.decisions.values.actions import CreateDriver, DeleteDriver, Emit, EnsureRevision
from streamjob_operator.decisions.values.observation import DriverPod
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.status import RESTING, LifecycleState, Nonces, Restore
from streamjob_operator.resources.streamjob import StreamJobSpec

_NO_LOG = "StoreUnreachable"
LOG_DAMAGED = "LogDamaged"


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason why the start of the next driver cannot be decided yet."""

    reason: str
    message: str
    failed: bool = False


def handled_nonces(spec: StreamJobSpec) -> Nonces:
    """Return the nonces of a spec as acted on: a first deployment takes no savepoint for them."""
    return Nonces(
        savepoint_trigger=spec.savepoint_trigger_nonce,
        checkpoint_trigger=spec.checkpoint_trigger_nonce,
        savepoint_redeploy=spec.savepoint_redeploy_nonce,
        run=None if spec.schedule is None else spec.schedule.run_nonce,
    )


def asks_for_redeployment(s: Situation) -> bool:
    """Return whether the spec asks for a new start from `initialSavepointPath`."""
    nonce = None if s.spec is None else s.spec.savepoint_redeploy_nonce
    return nonce is not None and s.memory.attempt > 0 and nonce != s.memory.nonces.savepoint_redeploy


def deploy_wanted(s: Situation, *, from_state: bool = True, event: Emit | None = None) -> Step:
    """Decide on a driver for the spec, or for the last decision if the spec cannot be acted on.

    Args:
        from_state: False to start from nothing, if the upgrade mode says so.
    """
    name = s.memory.revision
    if s.wanted is not None:
        name = s.wanted.name
    elif s.memory.stop is not None and s.memory.stop.revision is not None:
        name = s.memory.stop.revision
    assert name is not None
    source = _source(s, name, from_state=from_state)
    if isinstance(source, Missing):
        requeue = None if source.failed else s.limits.store
        return Step(memory=s.memory, requeue=requeue, reason=source.reason, message=source.message)
    return deploy(s, name, source, event=event)


def deploy(
    s: Situation,
    revision: str,
    restore: Restore,
    *,
    at: float | None = None,
    event: Emit | None = None,
    running: DriverPod | None = None,
) -> Step:
    """Decide on the next attempt.

    Args:
        revision: the revision to run.
        restore: the snapshot to start from; a `first_attempt` of 0 means the attempt itself.
        at: when its pod may be made; None for at once.
        running: the driver that is taken over; None for a new one.
    """
    if s.seen.revision(revision) is None:
        if s.wanted is None or s.wanted.name != revision:
            return Step(
                memory=replace(
                    s.memory,
                    lifecycle=LifecycleState.FAILED,
                    since=s.now,
                    stop=None,
                    failure=f"the ControllerRevision {revision} is gone, and the spec asks for another one",
                    failure_reason="RevisionMissing",
                ),
            )
        return Step(memory=s.memory, actions=(EnsureRevision(revision=s.wanted),), requeue=0)
    prepared = running or _prepared(s, revision, restore)
    attempt = next_attempt(s) if prepared is None else prepared.attempt
    memory = replace(
        s.memory,
        lifecycle=LifecycleState.DEPLOYING,
        since=s.now,
        in_run=s.memory.in_run if s.spec is None else s.spec.schedule is not None,
        attempt=attempt,
        decided=max(s.now, at or 0),
        driver=None if prepared is None else prepared.uid,
        revision=revision,
        restore=restore if restore.first_attempt else restore.model_copy(update={"first_attempt": attempt}),
        next_restart=at,
        stop=None,
        trials=(),
        successor=None,
    )
    if revision != s.memory.revision or not restore.first_attempt:
        memory = replace(memory, first_attempt=attempt)
    if memory.first_attempt == attempt or s.memory.lifecycle in RESTING:
        memory = replace(memory, revision_since=s.now)
    if revision != s.memory.revision:
        memory = replace(memory, failed_revision=None, failures=0, last_failure=None, failure=None, failure_reason=None)
    if s.spec is not None and not restore.first_attempt:
        nonces = handled_nonces(s.spec) if s.memory.attempt == 0 else s.memory.nonces
        memory = replace(
            memory, nonces=nonces.model_copy(update={"savepoint_redeploy": s.spec.savepoint_redeploy_nonce})
        )
    return Step(memory=memory, events=() if event is None else (event,), requeue=0)


def next_attempt(s: Situation) -> int:
    """Return a number above every one that was ever used, as far as anybody remembers.

    The log remembers it also when the status was lost.
    """
    pods = (*s.seen.pods, *s.seen.unowned)
    used = [s.memory.attempt, s.memory.last_attempt, *(pod.attempt for pod in pods)]
    if s.seen.log is not None and s.seen.log.attempt is not None:
        used.append(s.seen.log.attempt)
    return max(used) + 1


def _prepared(s: Situation, revision: str, restore: Restore) -> DriverPod | None:
    """Return the pod of the successor, if it was prepared for exactly this start; None for another pod."""
    successor, pod = s.memory.successor, s.successor_pod
    if successor is None or pod is None or successor.revision != revision:
        return None
    claimed = None if s.seen.log is None else s.seen.log.attempt
    if successor.attempt <= max(s.memory.attempt, claimed or 0):
        return None
    asked = restore.source == LATEST and restore.required
    prepared = (successor.allow_non_restored_state, successor.strict_migration)
    return pod if asked and prepared == (restore.allow_non_restored_state, restore.strict_migration) else None


def next_start(s: Situation) -> Restore | None:
    """Return the snapshot that an upgrade to the wanted revision would start from now; None if it is not known."""
    source = None if s.wanted is None else _source(s, s.wanted.name, from_state=False)
    return source if isinstance(source, Restore) else None


def go_on(s: Situation) -> Restore:
    """Return the snapshot for another driver of the same revision."""
    return _settled(s, s.memory.restore)


def create(s: Situation) -> Step:
    """Create the pod of the newest attempt, which was never observed, once nothing prevents it."""
    memory = s.memory
    older = tuple(pod for pod in s.live_pods if pod.attempt != memory.attempt)
    if older:
        asked = (DeleteDriver(name=pod.name) for pod in older if pod.deleting is None)
        return s.waits("WaitingForOldDriver", f"driver {older[0].name} has to go first", *asked)
    if memory.next_restart is not None and s.now < memory.next_restart:
        message = f"restart {memory.failures} after: {memory.failure}"
        return s.waits("WaitingToRestart", message, requeue=memory.next_restart - s.now)
    restore = go_on(s)
    if restore.source != LATEST and memory.attempt > restore.first_attempt and s.log is None:
        missing = _store_unreachable("whether the start from elsewhere has completed anything")
        return s.waits(missing.reason, missing.message, requeue=s.limits.store)
    if restore != memory.restore:
        return Step(memory=replace(memory, restore=restore), requeue=0)
    if s.seen.log_damage:
        # A driver would end at once: it claims no damaged log.
        return s.waits(LOG_DAMAGED, s.seen.log_damage, requeue=s.limits.store)
    rejected = hindered(s)
    if rejected is not None:
        return rejected
    if s.now > memory.decided + s.limits.creation:
        return Step(memory=replace(memory, attempt=next_attempt(s), decided=s.now), requeue=0)
    assert memory.revision is not None
    if s.deployed is None:
        return deploy(s, memory.revision, restore)
    ended = tuple(DeleteDriver(name=pod.name) for pod in s.seen.pods if pod.attempt != memory.attempt)
    driver = CreateDriver(
        attempt=memory.attempt,
        revision=memory.revision,
        restore_from=restore.source,
        require_snapshot=restore.source == LATEST and restore.required,
        allow_non_restored_state=restore.allow_non_restored_state,
        strict_migration=restore.strict_migration,
        available_now=memory.in_run,
    )
    return s.waits("CreatingDriver", "", *ended, driver)


def latest(s: Situation) -> Restore:
    """Return a start from the newest completion, whatever it is."""
    return Restore(
        source=LATEST,
        required=s.completed_attempt is not None,
        allow_non_restored_state=s.spec is not None and s.spec.allow_non_restored_state,
        strict_migration=s.spec is not None and s.spec.strict_migration,
    )


def _source(s: Situation, revision: str, *, from_state: bool) -> Restore | Missing:
    spec, memory = s.spec, s.memory
    if spec is not None and (memory.attempt == 0 or asks_for_redeployment(s)):
        named = _named_snapshot(s, spec)
        if named is not None:
            return named
    if spec is not None and spec.upgrade_mode == "stateless" and not from_state:
        return Restore(source=NONE)
    if memory.attempt == 0:
        return _first(s)
    if revision == memory.revision:
        return go_on(s)
    moved = _from_another_place(s, revision)
    if moved is not None:
        return moved
    inherited = go_on(s)
    # The new revision's own completions are its own; only a start from elsewhere is inherited with its beginning.
    return latest(s) if inherited.source == LATEST else inherited


def _first(s: Situation) -> Restore | Missing:
    if s.log is None and s.now < s.memory.since + s.limits.patience:
        return _store_unreachable("whether the job has stored a snapshot there before")
    return latest(s)


def _named_snapshot(s: Situation, spec: StreamJobSpec) -> Restore | Missing | None:
    if spec.initial_savepoint_path is not None:
        return _named(spec.initial_savepoint_path, spec)
    if spec.initial_snapshot_ref is None:
        return None
    name, found = spec.initial_snapshot_ref.name, s.seen.initial
    if found is not None and found.path is not None:
        return _named(found.path, spec)
    if found is not None and found.state.terminal:
        return Missing("SnapshotUnusable", f"StreamSnapshot {name} is {found.state}, and has no path", failed=True)
    return Missing("WaitingForSnapshot", f"StreamSnapshot {name} is not complete")


def _named(snapshot: str, spec: StreamJobSpec) -> Restore:
    return Restore(
        source=snapshot,
        allow_non_restored_state=spec.allow_non_restored_state,
        strict_migration=spec.strict_migration,
    )


def _from_another_place(s: Situation, revision: str) -> Restore | Missing | None:
    """A log begins empty in a new place: the first start there is from the newest completion of the old place."""
    old, new = s.deployed, s.seen.revision(revision) or s.wanted
    if old is None or new is None or old.location == new.location:
        return None
    lost = next((pod for pod in s.seen.pods if not pod.ended), None)
    if lost is not None:
        # No claim in the new place fences off a process that writes to the old one.
        return Missing("WaitingForOldDriver", f"driver {lost.name} has to be gone before the job moves elsewhere")
    if s.log is None:
        return _store_unreachable("the last snapshot in the place that the job leaves")
    newest = s.log.newest
    return None if newest is None else latest(s).model_copy(update={"source": newest.path, "required": True})


def _settled(s: Situation, restore: Restore) -> Restore:
    if restore.source == LATEST or s.completed_since(restore.first_attempt):
        settled = latest(s)
        return settled.model_copy(
            update={
                "required": settled.required or (restore.required and restore.source == LATEST),
                "first_attempt": restore.first_attempt,
            }
        )
    return restore


def _store_unreachable(what: str) -> Missing:
    return Missing(_NO_LOG, f"it is not known {what}")
