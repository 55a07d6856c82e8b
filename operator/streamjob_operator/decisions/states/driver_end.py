"""Decides how to react to the unexpected end of a driver, from its exit code and the log.

A failed driver is replaced after an exponential delay, as long as the restart policy allows. The attempts end at once
for a cause that a restart cannot remove: an invalid job, a state that does not fit, another owner of the log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from streamjob.errors import ExitCode
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.restarts import GiveUp, Restarts
from streamjob.protocol.restarts import RestartPolicy as Delays
from streamjob_operator.decisions.shared import runs
from streamjob_operator.decisions.states.rollback import can_roll_back, is_enabled, roll_back
from streamjob_operator.decisions.states.starting import deploy, go_on
from streamjob_operator.decisions.values.actions import Emit, EventType
from streamjob_operator.decisions.values.observation import DriverPod, StoreProblem
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.conditions import ConditionType, find_condition
from streamjob_operator.resources.parts import RestartPolicy
from streamjob_operator.resources.status import LifecycleState

EVICTED = "Evicted"
"""Reason of a pod that the cluster has no place for any longer: its node is drained, or lacks something."""
_OUT_OF_MEMORY = "OOMKilled"
_ANY_FAILURE = "Error"
_STOPPED = "DriverStopped"
"""Kubernetes' reason for an exit code without further information."""
_LAST_WORDS = 300


class End(Enum):
    """The end of a driver, as far as the reaction depends on it."""

    UNKNOWN = auto()
    """It ended well, but only the log, which cannot be read, shows whether the job is done."""
    FINISHED = auto()
    """All work of the job is done."""
    READ = auto()
    """A run has read all that was there."""
    FAILED = auto()
    """Another one may fare better."""
    HOPELESS = auto()
    """Another one of the same revision would fare the same."""
    SUPERSEDED = auto()
    """Another owner has claimed the job's log."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a driver ended: its meaning, the reason as a word and as text, and whether the cause was outside the job."""

    end: End
    reason: str
    message: str
    from_outside: bool = False


_BY_EXIT_CODE = {
    ExitCode.INVALID_INPUT: (End.HOPELESS, "InvalidJob"),
    ExitCode.CANNOT_RESTORE: (End.HOPELESS, "CannotRestore"),
    ExitCode.SUPERSEDED: (End.SUPERSEDED, "Superseded"),
    ExitCode.FAILED: (End.FAILED, "JobFailed"),
}


def ending(s: Situation) -> Ending:
    """Return how the driver of the newest attempt, which has ended or is gone, came to its end."""
    pod = s.pod
    if pod is None:
        return _gone(s)
    found = _ended_by_itself(s, pod)
    if found.end is not End.FAILED:
        return found
    if pod.reason == EVICTED:
        return Ending(End.FAILED, EVICTED, evicted(pod), from_outside=True)
    # The reason stays on a container that has only lost a worker process to the kernel and ends normally later.
    if pod.reason == _OUT_OF_MEMORY and pod.exited_as is not ExitCode.OK:
        message = f"driver {pod.name} took more memory than it may, and ended {_how(pod)}{_last_words(pod)}"
        return Ending(End.FAILED, _OUT_OF_MEMORY, message)
    return found


def evicted(pod: DriverPod) -> str:
    """Return a message that explains why a driver has to go."""
    return f"driver {pod.name} is evicted" + (f": {pod.message}" if pod.message else "")


def recover(s: Situation) -> Step:
    """Decide on the reaction to the end of the driver."""
    how = ending(s)
    if how.end is End.UNKNOWN:
        return s.waits(how.reason, how.message, requeue=s.limits.store)
    if how.end is End.FINISHED:
        memory = replace(
            s.memory, lifecycle=LifecycleState.FINISHED, since=s.now, stop=None, failures=0, failure=None,
            failure_reason=None, stable_revision=s.memory.revision,
        )  # fmt: skip
        return Step(memory=memory, events=(Emit(type="Normal", reason="Finished", message=how.message),), requeue=0)
    if how.end is End.READ:
        return runs.completed(s, how.message)
    if how.end is End.SUPERSEDED:
        return fail(s, how.reason, how.message)
    if how.end is End.HOPELESS:
        return _give_up(s, how.reason, how.message)
    return restart(s, how.reason, how.message, from_outside=how.from_outside)


def restart(s: Situation, reason: str, message: str, *, from_outside: bool = False) -> Step:
    """Decide on another driver of the same revision, after the delay that is due, or give up.

    Args:
        reason: why, in a word.
        message: why, for people.
        from_outside: whether the job itself did nothing wrong; for the first such end it does not wait.
    """
    memory = s.memory
    policy = RestartPolicy() if s.spec is None else s.spec.restart_policy
    restarts, then = _restarts(s, policy).after_failure(s.now, lambda: 0.5)
    if isinstance(then, GiveUp):
        if not then.attempts:
            return _give_up(s, reason, message)
        return _give_up(s, "RestartsExhausted", f"after {then.attempts} restarts: {message}")
    failed = replace(
        memory, failures=restarts.attempt, last_failure=s.now, failure=message[:1000], failure_reason=reason
    )
    at = s.now if from_outside and restarts.attempt == 1 else then.time
    # The driver was stopped in order: it left a last checkpoint.
    kind: EventType = "Normal" if reason == _STOPPED else "Warning"
    event = Emit(type=kind, reason=reason, message=f"{message}; restart {then.attempt} in {at - s.now:.0f} s")
    assert memory.revision is not None
    situation = replace(s, memory=failed)
    return deploy(situation, memory.revision, go_on(situation), at=at, event=event)


def fail(s: Situation, reason: str, message: str) -> Step:
    """Decide that the job has failed, until its spec changes."""
    memory = replace(
        s.memory,
        lifecycle=LifecycleState.FAILED,
        since=s.now,
        stop=None,
        next_restart=None,
        last_failure=s.now,
        failure=message[:1000],
        failure_reason=reason,
    )
    return Step(memory=memory, events=(Emit(type="Warning", reason=reason, message=message),), requeue=0)


def _give_up(s: Situation, reason: str, message: str) -> Step:
    if can_roll_back(s):
        return roll_back(s, f"{reason}: {message}")
    if is_enabled(s) and s.log is None:
        return s.waits("StoreUnreachable", message, requeue=s.limits.store)
    return fail(s, reason, message)


def _gone(s: Situation) -> Ending:
    """A pod that is evicted may be gone before its end is seen; the last look said that it has to go."""
    known = find_condition(s.resource.status.conditions, ConditionType.RECONCILING)
    if known is not None and known.reason == EVICTED:
        return Ending(End.FAILED, EVICTED, known.message, from_outside=True)
    message = f"the pod of attempt {s.memory.attempt} is gone"
    return Ending(End.FAILED, "DriverLost", message, from_outside=True)


def _ended_by_itself(s: Situation, pod: DriverPod) -> Ending:
    if pod.exited_as is ExitCode.OK:
        return _ended_well(s, pod)
    if pod.exited_as is ExitCode.INTERRUPTED:
        message = f"driver {pod.name} was stopped before it had read all that was there"
        return Ending(End.FAILED, _STOPPED, message, from_outside=True)
    if pod.exited_as in _BY_EXIT_CODE:
        end, reason = _BY_EXIT_CODE[pod.exited_as]
        if end is End.FAILED and pod.error in frozenset(StoreProblem):
            reason = pod.error
        return Ending(end, reason, pod.message or f"driver {pod.name} ended {_how(pod)}")
    reason = pod.reason if pod.reason.isidentifier() and pod.reason != _ANY_FAILURE else "DriverFailed"
    message = f"driver {pod.name} ended {_how(pod)}{_last_words(pod)}"
    return Ending(End.FAILED, reason, message, from_outside=True)


def _how(pod: DriverPod) -> str:
    return "without an exit code" if pod.exit_code is None else f"with exit code {pod.exit_code}"


def _last_words(pod: DriverPod) -> str:
    """A killed driver leaves no message, so its last log lines are used."""
    return f": …{pod.message[-_LAST_WORDS:]}" if len(pod.message) > _LAST_WORDS else pod.message and f": {pod.message}"


def _ended_well(s: Situation, pod: DriverPod) -> Ending:
    """A driver that ends otherwise after the final record may not have committed its output; the next one does."""
    if pod.outcome is JobState.FINISHED or (pod.outcome is None and s.finished):
        return Ending(End.FINISHED, "Finished", "all input has ended, and all of it is processed")
    if s.memory.in_run:
        # One that was stopped before ends with another exit code.
        return Ending(End.READ, "RunCompleted", "the run has read all that was there")
    if pod.outcome is None and s.log is None:
        return Ending(End.UNKNOWN, "StoreUnreachable", f"driver {pod.name} ended well, and the log cannot be read")
    message = f"driver {pod.name} was stopped, though not by the controller"
    return Ending(End.FAILED, _STOPPED, message, from_outside=True)


def _restarts(s: Situation, policy: RestartPolicy) -> Restarts:
    memory = s.memory
    longest = max(policy.max_retry_interval, policy.on_failure_retry_interval)
    delays = Delays(
        initial_delay=policy.on_failure_retry_interval,
        max_delay=longest,
        jitter=0,
        reset_after=policy.reset_after,
        attempts=0 if policy.type == "Never" else policy.on_failure_retries,
    )
    if memory.last_failure is None or not memory.failures:
        return Restarts(delays)
    delay = min(policy.on_failure_retry_interval * delays.multiplier ** min(memory.failures - 1, 30), longest)
    return Restarts(delays, memory.failures, delay, min(memory.last_failure + delay, s.now))
