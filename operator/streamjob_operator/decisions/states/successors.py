"""A warm successor: a driver that is prepared in a pod of its own before the running one stops for an upgrade.

It is decided on and stored with its number before its pod is made, like any driver. It processes no record and
claims nothing before the controller starts it. If the controller gives it up, the upgrade continues without it.
"""

from __future__ import annotations

from dataclasses import replace

from streamjob.protocol.log.restore import LATEST
from streamjob_operator.decisions.shared import pod_dry_run
from streamjob_operator.decisions.states.starting import next_attempt, next_start
from streamjob_operator.decisions.values.actions import CreateDriver, DeleteDriver, Emit
from streamjob_operator.decisions.values.memory import Successor
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.status import StreamJobStatus

PREPARING = "PreparingSuccessor"
_NO_ROOM = "Unschedulable"
_CANNOT_START = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError"}
)
"""Reasons for which the pod would not start in the place of the running driver either."""
REASONS = _CANNOT_START | {PREPARING}
"""Reasons of the steps that prepare a successor."""
_LONGEST = 1000


def wanted_successor(status: StreamJobStatus) -> int | None:
    """Return the number of the driver whose report the next decision depends on, beside that of the running one."""
    successor = status.reconciliation.successor
    return None if successor is None or successor.failure is not None else successor.attempt


def decided(s: Situation) -> Step | None:
    """Decide on a successor for the wanted revision; None if the upgrade goes without."""
    if not s.upgrade.warm_successor or s.memory.successor is not None or not s.takes_requests:
        return None
    if s.wanted is None or s.deployed is None or s.pod is None or s.pod.deleting is not None:
        return None
    if any(each.spec().executor is not None for each in (s.deployed, s.wanted)):
        return None
    start = next_start(s)
    if start is None or start.source != LATEST or not start.required:
        return None
    attempt = next_attempt(s)
    successor = Successor(
        attempt=attempt,
        revision=s.wanted.name,
        since=s.now,
        allow_non_restored_state=start.allow_non_restored_state,
        strict_migration=start.strict_migration,
    )
    message = f"driver {attempt} is prepared for {s.wanted.name}, while the job runs on"
    return Step(
        memory=replace(s.memory, successor=successor, last_attempt=attempt, trials=()),
        events=(Emit(type="Normal", reason=PREPARING, message=message),),
        requeue=0,
    )


def prepare(s: Situation) -> Step | None:
    """Return the next step of the preparation; None if there is none to wait for."""
    successor = s.memory.successor
    if successor is None or not s.driver_is_live:
        return None
    pod = s.seen.pod(successor.attempt)
    if successor.failure is not None:
        # Its room is needed for the pod that comes in its place.
        return s.waits(PREPARING, f"driver {pod.name} has to go first") if pod is not None and s.is_live(pod) else None
    if pod is None:
        driver = CreateDriver(
            attempt=successor.attempt,
            revision=successor.revision,
            require_snapshot=True,
            allow_non_restored_state=successor.allow_non_restored_state,
            strict_migration=successor.strict_migration,
            waits=True,
        )
        return s.waits(PREPARING, f"driver {successor.attempt} is created", driver)
    if successor.driver is None:
        return Step(memory=replace(s.memory, successor=replace(successor, driver=pod.uid)), requeue=0)
    if pod.reason in _CANNOT_START:
        return s.waits(pod.reason, f"driver {pod.name} cannot start, and the job runs on: {pod.message}")
    return s.waits(PREPARING, f"driver {pod.name} is prepared, while the job runs on")


def given_up(s: Situation) -> Step | None:
    """Give up a successor that is not ready in time; None to keep waiting."""
    successor = s.memory.successor
    if successor is None or successor.failure is not None:
        return None
    why = _failure(s, successor)
    if why is None:
        return None
    event = Emit(type="Warning", reason="SuccessorFailed", message=f"the upgrade goes on without a successor: {why}")
    failed = replace(successor, failure=why[:_LONGEST])
    return Step(memory=replace(s.memory, successor=failed), events=(event,), requeue=0)


def abandoned(s: Situation) -> tuple[DeleteDriver, ...]:
    """Return the deletions of pods that are left of successors, and of the drivers that they have followed."""
    successor = s.memory.successor
    kept = {s.memory.attempt, None if successor is None or successor.failure is not None else successor.attempt}
    return tuple(
        DeleteDriver(name=pod.name)
        for pod in s.seen.pods
        if pod.attempt not in kept and pod.attempt <= s.memory.last_attempt and pod.deleting is None
    )


def _failure(s: Situation, successor: Successor) -> str | None:
    pod = s.seen.pod(successor.attempt)
    if pod is None and successor.driver is not None:
        return f"the pod of driver {successor.attempt} is gone"
    if pod is not None and s.successor_pod is None:
        return f"driver {pod.name} has ended before it was told to start: {pod.message or pod.reason}"
    if pod is not None and pod.reason == _NO_ROOM:
        return f"no node has room for driver {pod.name}: {pod.message}"
    rejection = pod_dry_run.rejected_since(s, successor.revision, successor.since) if pod is None else None
    if rejection is not None:
        return f"the API server rejects the pod of driver {successor.attempt}: {rejection}"
    if pod is not None and pod.reason in _CANNOT_START:
        return None
    since = successor.since if pod is None or pod.started is None else max(successor.since, pod.started)
    if s.now > since + s.limits.successor:
        seen = "" if pod is None or not pod.reason else f" ({pod.reason})"
        return f"driver {successor.attempt} did not take over within {s.limits.successor:.0f} s{seen}"
    return None
