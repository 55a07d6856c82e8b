"""A preflight: before a driver is stopped for another revision, a pod of that revision checks whether it could start.

The pod has the revision's image, code, Secrets and node, runs `streamjob check` against the newest checkpoint, and
changes nothing. It is decided on and stored with its number before it is made. Until it has passed, the running driver
does all its duties. A warm successor makes the same check, and takes its place.
"""

from __future__ import annotations

from dataclasses import replace

from streamjob.errors import ExitCode
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.log.restore import LATEST
from streamjob_operator.decisions.shared import pod_dry_run
from streamjob_operator.decisions.states.compatibility import incompatible
from streamjob_operator.decisions.states.starting import asks_for_redeployment, latest, next_start
from streamjob_operator.decisions.values import health
from streamjob_operator.decisions.values.actions import Action, CreatePreflight, DeletePreflight, Emit
from streamjob_operator.decisions.values.memory import Preflight
from streamjob_operator.decisions.values.observation import DriverPod
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.effect_of_changes import Change
from streamjob_operator.resources.status import RESTING, LifecycleState, PreflightState

PREFLIGHT_FAILED = "PreflightFailed"
_LASTING = frozenset({ExitCode.INVALID_INPUT, ExitCode.CANNOT_RESTORE})
"""Exit codes that another pod of the same revision would end with, too."""
_OPEN = frozenset({PreflightState.PENDING, PreflightState.FAILED})
_NOTHING_TO_STOP = RESTING | {LifecycleState.DELETING}
_PREPARED = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of a pod that comes on."""
_NO_ROOM = "Unschedulable"
_NOWHERE = ("didn't match Pod's node affinity/selector", "untolerated taint", "not found")
_ATTACHED_ELSEWHERE = "FailedAttachVolume"
_LONGEST = 4000
_LAST_WORDS = 1000


def blocks(s: Situation) -> bool:
    """Return whether the wanted revision has failed its preflight for good: only another spec is tried."""
    known = _current(s)
    return known is not None and known.state is PreflightState.FAILED and known.next_try is None


def is_open(s: Situation) -> bool:
    """Return whether the driver must not be stopped yet for the wanted revision."""
    return _open(s) is not None


def let_go(s: Situation) -> Step | None:
    """Withdraw a preflight of a revision that nothing asks for any more, or not in this way."""
    known = s.memory.preflight
    if known is None or known.state not in _OPEN or _is_meant(s, known):
        return None
    return _with(s, replace(known, state=PreflightState.WITHDRAWN, next_try=None, message=""))


def decided(s: Situation) -> Step | None:
    """Decide on a preflight of the wanted revision; None if the driver may be stopped without."""
    if not s.upgrade.preflight or _current(s) is not None or s.wanted is None:
        return None
    if s.memory.lifecycle not in health.RUNS or not s.driver_is_live or s.rescales:
        return None
    if s.difference is not Change.UPGRADE and not asks_for_redeployment(s):
        return None
    step = _with(s, _next(s, s.wanted.name, failures=0))
    # The API server is asked again when the preflight has passed.
    return replace(step, memory=replace(step.memory, trials=()))


def looked_at(s: Situation) -> Step | None:
    """Return what the present look at an open preflight changes; None for nothing."""
    known = _open(s)
    if known is None:
        return None
    if known.state is PreflightState.FAILED:
        due = known.next_try is not None and s.now >= known.next_try
        return _with(s, _next(s, known.revision, failures=known.failures)) if due else None
    pod = _pod(s, known)
    if pod is None:
        return _without_pod(s, known)
    if known.pod is None:
        return _with(s, replace(known, pod=pod.uid))
    if pod.ended:
        return _ended(s, known, pod)
    if pod.reason == _NO_ROOM and not _fits_nowhere(pod):
        return _skipped(s, known, f"no node has room for pod {pod.name} beside the running driver: {pod.message}")
    if pod.started is None:
        # The driver that runs may be the one that holds the volume.
        late = pod.reason == _ATTACHED_ELSEWHERE and s.now > known.since + s.limits.successor
        return _skipped(s, known, f"pod {pod.name} cannot have its volume: {pod.message}") if late else None
    if s.now > pod.started + s.limits.preflight:
        return _failed(s, known, f"pod {pod.name} did not end within {s.limits.preflight:.0f} s", lasting=False)
    return None


def by_successor(s: Situation, step: Step) -> Step:
    """Return a step that stops the driver for a prepared successor, which has checked the start itself."""
    if not s.upgrade.preflight or s.wanted is None or s.successor_pod is None:
        return step
    message = f"driver {s.successor_pod.name} has checked it"
    passed = replace(_next(s, s.wanted.name, failures=0), state=PreflightState.PASSED, message=message)
    return replace(step, memory=replace(step.memory, preflight=passed))


def failed_successor(s: Situation) -> Step | None:
    """Return the failure of a preflight by a successor that has ended because the revision cannot start."""
    successor = s.memory.successor
    if successor is None or successor.failure is not None or not s.upgrade.preflight or s.wanted is None:
        return None
    pod = s.seen.pod(successor.attempt)
    if pod is None or not pod.ended or pod.outcome is not JobState.FAILED or pod.exited_as not in _LASTING:
        return None
    known = _next(s, s.wanted.name, failures=0)
    why = pod.message or f"driver {pod.name} ended with exit code {pod.exit_code}"
    return _failed(replace(s, memory=replace(s.memory, successor=None)), known, why, lasting=True)


def upkeep(s: Situation) -> tuple[Action, ...]:
    """Return the creation of the pod of a pending preflight, and the deletions of pods that are not needed any more.

    The pod of a failed one is kept for its log.
    """
    known = s.memory.preflight
    kept = None if known is None or known.state not in _OPEN else _pod(s, known)
    is_pending = known is not None and known.state is PreflightState.PENDING
    found: list[Action] = [
        DeletePreflight(name=pod.name)
        for pod in s.seen.preflights
        if pod.deleting is None and (pod is not kept or not (is_pending or pod.ended))
    ]
    if known is None or not is_pending or known.pod is not None or s.seen.revision(known.revision) is None:
        return tuple(found)
    if all(pod.attempt != known.number for pod in s.seen.preflights):
        found.append(_creation(s, known))
    return tuple(found)


def next_look(s: Situation) -> float | None:
    """Return the seconds until the next look at an open preflight at the latest; None if there is none."""
    known = _open(s)
    if known is None:
        return None
    if known.next_try is not None:
        return max(known.next_try - s.now, 0)
    if known.state is PreflightState.FAILED:
        return None
    return s.limits.poll if hindrance(s) is None else s.limits.store


def hindrance(s: Situation) -> tuple[str, str] | None:
    """Return why the pod of the pending preflight does not start, as a word and for people; None if nothing is wrong.

    It would not start in the place of the running driver either.
    """
    known = _current(s)
    pod = None if known is None or known.state is not PreflightState.PENDING else _pod(s, known)
    if pod is None or pod.started is not None or pod.ended or pod.reason in _PREPARED or not pod.reason.isidentifier():
        return None
    if pod.reason == _NO_ROOM and not _fits_nowhere(pod):
        return None
    return pod.reason, f"pod {pod.name} cannot start, and the job runs on: {pod.message or pod.reason}"


def _current(s: Situation) -> Preflight | None:
    """Return the preflight of the wanted revision and of this generation of the spec, if it counts."""
    known = s.memory.preflight
    if known is None or s.wanted is None or not s.upgrade.preflight or known.state is PreflightState.WITHDRAWN:
        return None
    is_it = (known.revision, known.generation) == (s.wanted.name, s.resource.generation)
    return known if is_it else None


def _open(s: Situation) -> Preflight | None:
    known = _current(s)
    return known if known is not None and known.state in _OPEN else None


def _is_meant(s: Situation, known: Preflight) -> bool:
    if _current(s) is not known or s.resource.deleted or s.spec is None or s.spec.suspend:
        return False
    if s.memory.lifecycle in _NOTHING_TO_STOP and not blocks(s):
        return False
    another = s.difference is Change.UPGRADE and not s.rolled_back and incompatible(s) is None
    return another or asks_for_redeployment(s)


def _next(s: Situation, revision: str, *, failures: int) -> Preflight:
    earlier = 0 if s.memory.preflight is None else s.memory.preflight.number
    return Preflight(
        number=earlier + 1, revision=revision, generation=s.resource.generation, since=s.now, failures=failures
    )


def _pod(s: Situation, known: Preflight) -> DriverPod | None:
    """Return the pod of a preflight; a name that was used before may still belong to an older one."""
    pod = next((each for each in s.seen.preflights if each.attempt == known.number), None)
    if pod is None or pod.revision != known.revision or known.pod not in (None, pod.uid):
        return None
    return pod if pod.ended or pod.deleting is None else None


def _without_pod(s: Situation, known: Preflight) -> Step | None:
    if known.pod is not None:
        return _failed(s, known, f"the pod of preflight {known.number} is gone", lasting=False)
    rejection = pod_dry_run.rejected_since(s, known.revision, known.since)
    if rejection is not None:
        # A dry run has taken it in the place of the driver, so what is full is the quota.
        return _skipped(s, known, f"the API server does not take its pod beside the running driver: {rejection}")
    if s.now > known.since + s.limits.creation:
        # Another pod has its name, such as one that an earlier StreamJob has left.
        return _with(s, _next(s, known.revision, failures=known.failures))
    return None


def _ended(s: Situation, known: Preflight, pod: DriverPod) -> Step:
    if pod.exited_as is ExitCode.OK:
        # If the start is possible, the check reports only how it changes state.
        told = pod.message[:_LONGEST] if pod.outcome is JobState.FINISHED else ""
        message = f"{known.revision} can start{f', and {told}' if told else ''}"
        event = Emit(type="Normal", reason="PreflightPassed", message=message)
        return _with(s, replace(known, state=PreflightState.PASSED, failures=0, message=told), event)
    if pod.exited_as in _LASTING and pod.message:
        # An older runtime leaves no state, and may have missed a checkpoint that the job deleted meanwhile.
        is_sure = pod.exited_as is ExitCode.INVALID_INPUT or pod.outcome is JobState.FAILED
        return _failed(s, known, pod.message, lasting=is_sure)
    if pod.exited_as is ExitCode.FAILED and pod.outcome is JobState.FAILED and pod.message:
        return _failed(s, known, pod.message, lasting=False)
    how = pod.reason if pod.exit_code is None or pod.reason not in ("", "Error") else f"exit code {pod.exit_code}"
    # These are the last lines of its log.
    words = f": {pod.message[-_LAST_WORDS:]}" if pod.message else ""
    return _failed(s, known, f"pod {pod.name} ended with {how}{words}", lasting=False)


def _failed(s: Situation, known: Preflight, why: str, *, lasting: bool) -> Step:
    failures = known.failures + 1
    next_try = None if lasting else s.now + s.limits.retry_delay(failures)
    message = why[:_LONGEST]
    event = Emit(type="Warning", reason=PREFLIGHT_FAILED, message=f"{known.revision} is not deployed: {message}")
    failed = replace(known, state=PreflightState.FAILED, failures=failures, next_try=next_try, message=message)
    return _with(s, failed, event)


def _skipped(s: Situation, known: Preflight, why: str) -> Step:
    message = why[:_LONGEST]
    event = Emit(
        type="Normal", reason="PreflightSkipped", message=f"the upgrade goes on without a preflight: {message}"
    )
    return _with(s, replace(known, state=PreflightState.SKIPPED, message=message), event)


def _with(s: Situation, known: Preflight, *events: Emit) -> Step:
    return Step(memory=replace(s.memory, preflight=known), events=events, requeue=0)


def _fits_nowhere(pod: DriverPod) -> bool:
    """Whether a pod would find no node in the place of the running driver either."""
    return "Insufficient " not in pod.message and any(words in pod.message for words in _NOWHERE)


def _creation(s: Situation, known: Preflight) -> CreatePreflight:
    newest = latest(s)
    start = next_start(s) or newest
    old, new = s.deployed, s.wanted
    # A job that moves continues from the newest completion of the place that it leaves.
    left = None if old is None or new is None or old.location == new.location else old.location
    return CreatePreflight(
        number=known.number,
        revision=known.revision,
        restore_from=start.source,
        # Another Secret or endpoint may lead to a store without the job's log.
        require_snapshot=start.source == LATEST and start.required,
        location=left if start.source == LATEST else None,
        allow_non_restored_state=newest.allow_non_restored_state,
        strict_migration=newest.strict_migration,
    )
