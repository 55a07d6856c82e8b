"""Whether a job that runs makes progress: its checkpoints keep coming."""

from __future__ import annotations

from datetime import UTC, datetime

from streamjob.client.diagnosing import LOOP_RESTARTS, LOOP_STARTS
from streamjob_operator.decisions.values.actions import Emit
from streamjob_operator.decisions.values.situation import Situation
from streamjob_operator.resources.parts import HealthCheck, RestartPolicy
from streamjob_operator.resources.status import LifecycleState

RUNS = frozenset({LifecycleState.DEPLOYED, LifecycleState.STABLE, LifecycleState.ROLLED_BACK})
"""States in which the driver was seen to run, and is not about to stop."""

_LOOP_SECONDS = 600
_NO_CRASH = frozenset({"DriverLost", "DriverStopped", "Evicted"})
"""Reasons for the end of a driver whose job did nothing wrong."""


def window(s: Situation) -> float:
    """Return the seconds within which a checkpoint has to complete: Flink's operator's default, or the spec's.

    A driver that does not run yet may have much to restore; a short window is not for that.
    """
    policy = s.checkpointing
    usual = max(policy.interval or 0, policy.timeout) * (policy.tolerable_failed_checkpoints + 2)
    given = _check(s).checkpoint_progress.window
    if given is None:
        return usual
    return max(given, usual) if s.memory.lifecycle is LifecycleState.DEPLOYING else given


def last_progress(s: Situation) -> float:
    """Return when the job was last seen to make progress: its newest completion, its start, or when it came to run."""
    started = s.pod.started if s.pod is not None and s.pod.started is not None else 0
    return max(s.memory.since, started, s.completion_time or 0)


def overdue(s: Situation) -> str | None:
    """Return since when no checkpoint was completed, if that is too long; None if it is not, or is not known.

    Nothing is concluded from silence: either the driver or the log has to say that there was no completion.
    """
    if s.job is None and s.seen.log is None:
        return None
    if s.job is not None and s.job.state.terminal:
        return None
    since, limit = last_progress(s), window(s)
    if s.now - since <= limit:
        return None
    last = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"no checkpoint was completed since {last}, where {limit:.0f} s are allowed"


def unhealthy(s: Situation) -> str | None:
    """Return why the driver has to be replaced, or None."""
    return overdue(s) if _check(s).enabled else None


def restart_loop(s: Situation) -> str | None:
    """Return why the job is not well although it completes checkpoints: it fails again and again; None if it does not.

    The times of restarts in the driver's process are not known, but those of all starts in the last hour are.
    """
    memory, job = s.memory, s.job
    last = memory.last_failure
    if last is not None and memory.failures > LOOP_RESTARTS and memory.failure_reason not in _NO_CRASH:
        policy = RestartPolicy() if s.spec is None else s.spec.restart_policy
        if s.now < last + min(_LOOP_SECONDS, policy.reset_after):
            return f"{memory.failures} drivers have failed, one after another: {memory.failure}"
    if job is None or job.state_since is None or job.restarts <= LOOP_RESTARTS or (job.starts or 0) <= LOOP_STARTS:
        return None
    if s.now >= job.state_since + _LOOP_SECONDS:
        return None
    return f"the job has started {job.starts} times in the last hour: {job.failure}"


def restarted(s: Situation) -> bool:
    """Return whether the driver has restarted the job after a failure since the last look."""
    if s.job is None or not s.job.restarts:
        return False
    return s.job.restarts + s.memory.failures > s.resource.status.job_status.restarts


def restart_events(s: Situation) -> tuple[Emit, ...]:
    """Return an event about a failure that the driver has reacted to by itself."""
    if s.job is None or not restarted(s):
        return ()
    return (Emit(type="Warning", reason="JobRestarted", message=s.job.failure or "the job has failed"),)


def should_answer(s: Situation) -> bool:
    """Return whether the driver was seen to run, and nothing is known of an end."""
    return s.memory.lifecycle in RUNS and s.driver_is_live


def silent(s: Situation, since: datetime | None) -> str | None:
    """Return since when the driver does not answer, if that is more than a request that fails now and then.

    Args:
        since: when the first look found no answer, of those up to now; None if the last one did.
    """
    if since is None or s.now - since.timestamp() < s.limits.silence:
        return None
    return f"the driver does not answer since {since.strftime('%Y-%m-%dT%H:%M:%SZ')}"


def _check(s: Situation) -> HealthCheck:
    return HealthCheck() if s.spec is None else s.spec.health_check
