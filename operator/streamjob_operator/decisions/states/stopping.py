"""Stopping the driver: for another revision, a suspension, a restart, a rollback or a deletion.

The stop is decided on and stored before the driver hears of it. The request has one trigger id, so repeating it is no
second stop. The stop is over when the process has ended, for any reason: the log shows the newest completion, and the
next driver continues from it. So a savepoint whose driver fails while it stops is used, and none can be lost.
"""

from __future__ import annotations

from dataclasses import replace

from streamjob.client.models import TriggerState
from streamjob.protocol.lifecycle import JobState
from streamjob_operator.decisions.values.actions import Action, DeleteDriver, Emit, StopJob
from streamjob_operator.decisions.values.memory import Stop
from streamjob_operator.decisions.values.situation import TAKES_REQUESTS, Situation, Step
from streamjob_operator.resources.parts import UpgradeMode
from streamjob_operator.resources.status import LifecycleState, TriggerPurpose

_LIFECYCLE = {
    TriggerPurpose.UPGRADE: LifecycleState.UPGRADING,
    TriggerPurpose.REDEPLOY: LifecycleState.UPGRADING,
    TriggerPurpose.RESTART: LifecycleState.DEPLOYING,
    TriggerPurpose.SUSPEND: LifecycleState.SUSPENDING,
    TriggerPurpose.ROLLBACK: LifecycleState.ROLLING_BACK,
    TriggerPurpose.DELETE: LifecycleState.DELETING,
}
_BETWEEN_TWO_LIVES = frozenset({JobState.RESTARTING, JobState.RESTORING})
_GRACE_OF_A_FAILED_REVISION = 1
_SAVEPOINTS_ON_DELETION = 3
"""Tries after which a deletion uses the last checkpoint: a failing savepoint must not block it for ever."""
_DIGITS = 10
_LONGEST = 1000
"""Most characters of a driver's message that the status keeps."""


def begin(s: Situation, purpose: TriggerPurpose, event: Emit, *, mode: UpgradeMode) -> Step:
    """Decide on a stop."""
    earlier = s.memory.stop
    failures = earlier.failures if earlier is not None and earlier.purpose is purpose else 0
    revision = s.memory.revision if s.wanted is None else s.wanted.name
    if purpose is TriggerPurpose.ROLLBACK:
        revision = s.memory.stable_revision
    stop = Stop(
        purpose=purpose,
        mode=mode,
        trigger_id=_trigger_id(purpose, revision, s.memory.attempt, failures),
        attempt=s.memory.attempt,
        since=s.now,
        revision=revision,
        failures=failures,
    )
    memory = replace(s.memory, lifecycle=_LIFECYCLE[purpose], since=s.now, stop=stop, trials=())
    return Step(memory=memory, events=(event,), requeue=0)


def is_due(s: Situation, purpose: TriggerPurpose) -> bool:
    """Return whether a stop may be tried: it was not, or the time to try it again has come, or it is another one.

    Without a driver, no savepoint can fail any more.
    """
    stop = s.memory.stop
    if stop is None or stop.next_try is None or stop.purpose is not purpose or not s.driver_is_live:
        return True
    other = s.wanted is not None and stop.revision != s.wanted.name
    return other or s.now >= stop.next_try


def under_way(s: Situation, stop: Stop) -> Step | None:
    """Return the next step of the stop; None once no process of the job is left that does anything."""
    live = s.live_pods
    if not live or s.has_handed_over:
        return None
    older: tuple[Action, ...] = tuple(
        DeleteDriver(name=pod.name) for pod in live if pod.attempt != stop.attempt and pod.deleting is None
    )
    if not s.driver_is_live:
        return _waiting(s, older)
    if stop.mode == "stateless":
        grace = _GRACE_OF_A_FAILED_REVISION if stop.purpose is TriggerPurpose.ROLLBACK else None
        return _waiting(s, (*older, *_delete(s, grace)))
    if stop.mode == "last-state":
        return _waiting(s, (*older, *_behind_a_checkpoint(s, stop)))
    return _behind_a_savepoint(s, stop, older)


def may_go_on(s: Situation, stop: Stop) -> bool | None:
    """Return whether the step after the stop may begin; None if the log has to be read first.

    It may not if a savepoint was insisted on and the process ended without one.
    """
    if stop.mode != "savepoint" or _may_fall_back(s, stop):
        return True
    view = s.seen.triggers.get(stop.trigger_id)
    if (view is not None and view.state is TriggerState.COMPLETED) or s.savepoint_is_newest:
        return True
    return None if s.log is None else False


def give_up(s: Situation, stop: Stop, failure: str) -> Step:
    """Continue the job after a stop that failed, and try again later."""
    event = Emit(
        type="Warning",
        reason="SavepointError",
        message=f"{stop.purpose} was postponed, and the job keeps running: {failure}",
    )
    # A successor would take room until the next try; one that was given up is not made again.
    successor = s.memory.successor
    kept = successor if successor is not None and successor.failure is not None else None
    memory = replace(s.memory, lifecycle=running_state(s), since=s.now, stop=put_off(s, stop, failure), successor=kept)
    return Step(memory=memory, events=(event,), requeue=0)


def put_off(s: Situation, stop: Stop, failure: str) -> Stop:
    """Return a stop that failed, and is to be tried again later."""
    failures = stop.failures + 1
    return replace(stop, failures=failures, next_try=s.now + s.limits.retry_delay(failures), failure=failure)


def running_state(s: Situation) -> LifecycleState:
    """Return the lifecycle state of a job that runs."""
    if s.memory.failed_revision is not None:
        return LifecycleState.ROLLED_BACK
    return LifecycleState.STABLE if s.revision_completed else LifecycleState.DEPLOYED


def _behind_a_savepoint(s: Situation, stop: Stop, older: tuple[Action, ...]) -> Step:
    view = s.seen.triggers.get(stop.trigger_id)
    if s.job is None or view is None:
        return _hindered(s, stop, older)
    if stop.silent_since is not None:
        return Step(memory=replace(s.memory, stop=replace(stop, silent_since=None)), requeue=0)
    if view.state is TriggerState.COMPLETED:
        return _waiting(s, (*older, *_delete(s)))
    if view.state is TriggerState.FAILED:
        failure = (view.failure or "the savepoint failed")[:_LONGEST]
        return _fall_back(s, stop, f"the job failed: {failure}") if _job_failed(s) else _failed(s, stop, failure)
    if s.now >= stop.since + _longest(s):
        return _fall_back(s, stop, "the savepoint takes too long")
    return _waiting(s, older)


def _job_failed(s: Situation) -> bool:
    """Return whether not only the savepoint failed: the job has, since the last look.

    It goes back to its last checkpoint anyway, and may fail again before the next savepoint.
    """
    if s.job is None or s.job.state in _BETWEEN_TWO_LIVES:
        return True
    return s.job.restarts + s.memory.failures > s.resource.status.job_status.restarts


def _hindered(s: Situation, stop: Stop, older: tuple[Action, ...]) -> Step:
    """The driver does not answer, or has not taken the request yet."""
    if stop.silent_since is None:
        return Step(memory=replace(s.memory, stop=replace(stop, silent_since=s.now)), requeue=0)
    if s.now >= stop.silent_since + (s.limits.refusal if s.takes_requests else s.limits.patience):
        state = "does not answer" if s.job is None else f"is {s.job.state} and takes no savepoint"
        return _fall_back(s, stop, f"the driver {state}")
    return _waiting(s, (*older, *_ask(s, stop)))


def _behind_a_checkpoint(s: Situation, stop: Stop) -> tuple[Action, ...]:
    """SIGTERM takes a last checkpoint too, but only as long as the pod's grace period lasts."""
    view = s.seen.triggers.get(stop.trigger_id)
    if s.job is None or s.now >= stop.since + _longest(s):
        return _delete(s)
    if view is None:
        asked = s.job.state in TAKES_REQUESTS and s.now < stop.since + s.limits.patience
        return _ask(s, stop) if asked else _delete(s)
    return () if view.state in (TriggerState.QUEUED, TriggerState.IN_PROGRESS) else _delete(s)


def _longest(s: Situation) -> float:
    return max(s.limits.stop, s.checkpointing.timeout + s.limits.patience)


def _failed(s: Situation, stop: Stop, failure: str) -> Step:
    if stop.purpose is TriggerPurpose.DELETE and stop.failures + 1 >= _SAVEPOINTS_ON_DELETION:
        return _fall_back(s, stop, failure)
    return give_up(s, stop, failure)


def _fall_back(s: Situation, stop: Stop, why: str) -> Step:
    if not _may_fall_back(s, stop):
        return give_up(s, stop, why)
    mode: UpgradeMode = "last-state"
    fallen = replace(stop, mode=mode, trigger_id=f"{stop.trigger_id}-last", since=s.now, silent_since=None, failure=why)
    event = Emit(type="Warning", reason="LastStateFallback", message=f"stops without a savepoint: {why}")
    return Step(memory=replace(s.memory, stop=fallen), events=(event,), requeue=0)


def _may_fall_back(s: Situation, stop: Stop) -> bool:
    allowed = s.upgrade.last_state_fallback or not s.revision_completed
    return allowed or stop.purpose is TriggerPurpose.DELETE


def _ask(s: Situation, stop: Stop) -> tuple[Action, ...]:
    if s.job is None or s.job.state not in TAKES_REQUESTS:
        return ()
    savepoint = stop.mode == "savepoint"
    savepoints = None if s.spec is None else s.spec.savepoints
    return (
        StopJob(
            attempt=stop.attempt,
            trigger_id=stop.trigger_id,
            savepoint=savepoint,
            location=savepoints.location if savepoint and savepoints is not None else None,
            drain=savepoint and stop.purpose is TriggerPurpose.DELETE and savepoints is not None and savepoints.drain,
        ),
    )


def _delete(s: Situation, grace: int | None = None) -> tuple[Action, ...]:
    return () if s.pod is None or s.pod.deleting is not None else (DeleteDriver(name=s.pod.name, grace=grace),)


def _waiting(s: Situation, actions: tuple[Action, ...]) -> Step:
    stop = s.memory.stop
    how = (
        "" if stop is None else {"savepoint": " with a savepoint", "last-state": "", "stateless": " at once"}[stop.mode]
    )
    requeue = s.limits.poll if s.successor_pod is None else s.limits.handover
    return s.waits("Stopping", f"the driver stops{how}", *actions, requeue=requeue)


def _trigger_id(purpose: TriggerPurpose, revision: str | None, attempt: int, failures: int) -> str:
    return f"{purpose.lower()}-{(revision or '')[-_DIGITS:]}-{attempt}-{failures}"
