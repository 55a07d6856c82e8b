"""The conditions of a StreamJob, by the rules of kstatus.

Ready means that the spec of the current generation is fulfilled: the job has completed a checkpoint since its last
start, restart or change, has finished, or rests as requested. So a job that crashes again and again before its next
checkpoint is not ready in between, nor is one that fails often behind its checkpoints. While Stalled is True,
Reconciling is not: kstatus would report the resource as in progress for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamjob.client.models import JobView
from streamjob.protocol.lifecycle import JobState
from streamjob_operator.decisions.shared import executors, pod_dry_run, runs
from streamjob_operator.decisions.states import compatibility, preflight, successors
from streamjob_operator.decisions.states.not_running import starts_again
from streamjob_operator.decisions.values import health
from streamjob_operator.decisions.values.actions import Emit, EventType
from streamjob_operator.decisions.values.memory import memory_of
from streamjob_operator.decisions.values.observation import Reach, StoreProblem
from streamjob_operator.decisions.values.situation import INCOMPATIBLE, TAKES_REQUESTS, Situation, Step
from streamjob_operator.resources.base import stamp_of, time_of
from streamjob_operator.resources.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    find_condition,
    with_condition,
)
from streamjob_operator.resources.effect_of_changes import Change
from streamjob_operator.resources.status import LifecycleState, PreflightState, StreamJobStatus
from streamjob_operator.resources.streamjob import StreamJobSpec

Verdict = tuple[ConditionStatus, str, str]

_AS_SAID = "the controller knows only the snapshots that the driver reports, and deletes none"
_REACH: Mapping[Reach, Verdict] = {
    Reach.STORE: ("True", "InReach", ""),
    Reach.VOLUME: ("False", "OnVolume", f"they are on a volume of the driver: {_AS_SAID}"),
    Reach.NO_CREDENTIALS: (
        "False",
        "NoCredentials",
        f"storage.credentialsSecretRef is not set, and the controller may not use its own credentials: {_AS_SAID}",
    ),
}

_RESTING = {
    LifecycleState.SUSPENDED: ("Suspended", "the job is suspended, as asked"),
    LifecycleState.SCHEDULED: ("Scheduled", "no run is under way"),
    LifecycleState.FINISHED: ("Finished", "all input has ended, and all of it is processed"),
}
_LET_GO = (
    "; to let the StreamJob go at once, take its finalizer streamjob.io/finalizer off: its snapshots stay in the store"
)
_NEXT_RUN = "; the next run does"
_NO_ANSWER = "NoAnswer"
_REWRITING = "RewritingState"
_MIGRATING = "MigratingState"
_NO_CHECKPOINT = "WaitingForCheckpoint"
_WORTH_AN_EVENT: Mapping[ConditionType, Mapping[str, EventType]] = {
    ConditionType.RUNNING: {_NO_ANSWER: "Warning"},
    ConditionType.CHECKPOINT_HEALTHY: {"CheckpointsFail": "Warning"},
    ConditionType.RECONCILING: {
        executors.LOST: "Warning",
        "JobFailed": "Warning",
        "FailedCreate": "Warning",
        "CrashLoopBackOff": "Warning",
        "CreateContainerConfigError": "Warning",
        "CreateContainerError": "Warning",
        "ErrImageNeverPull": "Warning",
        "ErrImagePull": "Warning",
        "FailedAttachVolume": "Warning",
        "FailedCreatePodSandBox": "Warning",
        "FailedMount": "Warning",
        "ImagePullBackOff": "Warning",
        "InvalidImageName": "Warning",
        "Unschedulable": "Warning",
        _REWRITING: "Normal",
        _MIGRATING: "Normal",
    },
    ConditionType.STORE_IN_REACH: dict.fromkeys(StoreProblem, "Warning"),
}
"""Reasons for which a condition records an event when it takes them on, and the type of the event.

No other event reports these. Kubernetes alternates between several reasons for a pod that does not start.
"""
_DRIVER_IS_WELL = frozenset({"", "Starting"})
"""Reasons of a step that say nothing about the driver's pod, which may be waiting for executors."""
_WAITING = {
    LifecycleState.CREATED: ("Created", "nothing was deployed yet"),
    LifecycleState.DEPLOYING: ("Deploying", "a driver is being started"),
    LifecycleState.DEPLOYED: (_NO_CHECKPOINT, "the job runs, and has not completed a checkpoint"),
    LifecycleState.UPGRADING: ("Upgrading", "the driver stops for another revision"),
    LifecycleState.SUSPENDING: ("Suspending", "the driver stops for a suspension"),
    LifecycleState.ROLLING_BACK: ("RollingBack", "the driver stops for the last stable revision"),
    LifecycleState.DELETING: ("Deleting", "the job is being deleted"),
}


def conditions(s: Situation, step: Step, status: StreamJobStatus) -> StreamJobStatus:
    """Return the status with its conditions."""
    after = Situation(resource=s.resource, memory=memory_of(status), seen=s.seen, limits=s.limits)
    stalled = _stalled(after, step)
    silent = health.silent(after, status.job_status.silent_since)
    readiness = executors.readiness(after, status.executors)
    reconciling: Verdict = ("False", stalled[1], "")
    if stalled[0] == "False":
        reconciling = _reconciling(after, step, silent, readiness, _unchanged_since(after, status, readiness))
    verdicts: dict[ConditionType, Verdict] = {
        ConditionType.READY: _ready(after, stalled, reconciling),
        ConditionType.RECONCILING: reconciling,
        ConditionType.STALLED: stalled,
        ConditionType.RUNNING: _running(after, silent),
        ConditionType.CHECKPOINT_HEALTHY: _checkpoint_healthy(after, status),
        ConditionType.STATE_COMPATIBLE: _state_compatible(after),
        ConditionType.PREFLIGHT_PASSED: _preflight_passed(after),
        ConditionType.ROLLED_BACK: _rolled_back(after),
        ConditionType.STORE_IN_REACH: _store_in_reach(after),
    }
    if readiness is not None:
        verdicts[ConditionType.EXECUTORS_READY] = readiness
    found: tuple[Condition, ...] = tuple(
        each for each in status.conditions if each.type != ConditionType.EXECUTORS_READY or readiness is not None
    )
    now = time_of(s.now)
    for kind, (value, reason, message) in verdicts.items():
        found = with_condition(found, kind, value, reason, message[:4096], generation=s.resource.generation, now=now)
    return status.model_copy(update={"conditions": found})


def _stalled(s: Situation, step: Step) -> Verdict:
    if s.memory.lifecycle is LifecycleState.DELETING:
        return "False", "Deleting", ""
    checks: tuple[Callable[[], Verdict | None], ...] = (
        lambda: _invalid(s),
        lambda: _failed(s),
        lambda: _is_incompatible(s),
        lambda: _has_failed_its_preflight(s),
        lambda: ("True", step.reason, step.message) if step.reason == "SnapshotUnusable" else None,
        lambda: _pod_rejected(s) if pod_dry_run.lasts(s) else None,
        lambda: _rolled_back(s) if s.rolled_back and not _stops(s) else None,
    )
    for check in checks:
        verdict = check()
        if verdict is not None:
            return verdict
    return "False", "Progressing", ""


def _invalid(s: Situation) -> Verdict | None:
    if s.spec is not None:
        return None
    return "True", "InvalidSpec", "\n".join(s.resource.problems) or "the spec cannot be read"


def _failed(s: Situation) -> Verdict | None:
    if s.memory.lifecycle is not LifecycleState.FAILED or starts_again(s):
        return None
    return "True", s.memory.failure_reason or "Failed", s.memory.failure or ""


def _is_incompatible(s: Situation) -> Verdict | None:
    found = compatibility.incompatible(s)
    if found is None or s.difference in (Change.IGNORE, Change.PATCH):
        return None
    return "True", "StateIncompatible", "\n".join(found.problems)


def _pod_rejected(s: Situation) -> Verdict | None:
    trial = pod_dry_run.rejected(s)
    if trial is None:
        return None
    runs = "; the job keeps running in its current pod" if s.driver_is_live else ""
    return "True", pod_dry_run.POD_REJECTED, pod_dry_run.rejection(trial) + runs


def events(before: StreamJobStatus, after: StreamJobStatus) -> tuple[Emit, ...]:
    """Return the events for changed conditions."""
    told = []
    for kind, types in _WORTH_AN_EVENT.items():
        old, new = (find_condition(each.conditions, kind) for each in (before, after))
        # One refusal of a store after another is news, as opposed to Kubernetes' changing words for one pod.
        same = frozenset(types) if kind is not ConditionType.STORE_IN_REACH or new is None else {new.reason}
        if new is not None and new.reason in types and (old is None or old.reason not in same):
            told.append(Emit(type=types[new.reason], reason=new.reason, message=new.message))
    return tuple(told)


def _unchanged_since(s: Situation, status: StreamJobStatus, readiness: Verdict | None) -> float:
    """Return since when the job has its revision and all of its executors; only a later checkpoint is of all that."""
    known = find_condition(status.conditions, ConditionType.EXECUTORS_READY)
    if readiness is None:
        return s.memory.revision_since
    complete = s.now if known is None or known.status != "True" else known.last_transition_time.timestamp()
    return max(s.memory.revision_since, complete)


def _reconciling(
    s: Situation, step: Step, silent: str | None, readiness: Verdict | None, unchanged_since: float
) -> Verdict:
    lifecycle = s.memory.lifecycle
    if lifecycle in _RESTING:
        return _resting_differs(s, step) or ("False", _RESTING[lifecycle][0], "")
    if lifecycle is LifecycleState.FAILED:
        return _starts_again(step)
    if s.job is not None and s.job.rewriting is not None:
        told = s.job.rewriting
        counts = f"from {told.partitions} partitions to {told.max_parallelism}"
        return "True", _REWRITING, f"the state is rewritten {counts}, which takes a while if there is much of it"
    if s.job is not None and s.job.migrating is not None:
        whose, how_far = ", ".join(s.job.migrating.operators), s.job.migrating.told
        return "True", _MIGRATING, f"the state of {whose} is changed to the form that the job needs: {how_far}"
    rejected = _pod_rejected(s)
    if rejected is not None:
        return rejected
    unready = readiness if readiness is not None and readiness[0] == "False" else None
    if unready is not None and lifecycle is LifecycleState.DEPLOYING and step.reason in _DRIVER_IS_WELL:
        return "True", *unready[1:]
    if lifecycle in _WAITING:
        reason, message = _WAITING[lifecycle]
        ending = _LET_GO if lifecycle is LifecycleState.DELETING else ""
        return "True", step.reason or reason, f"{step.message or message}{ending}"
    stop = s.memory.stop
    if stop is not None and stop.failure is not None:
        return "True", f"{stop.purpose}PutOff", stop.failure
    if step.reason in successors.REASONS:
        return "True", step.reason, step.message
    if preflight.is_open(s):
        return "True", *_preflight_passed(s)[1:]
    if s.rescales:
        return "True", "Rescaling", "automatic scaling changes the number of task slots"
    if s.resource.deleted or s.difference is not Change.IGNORE or (s.spec is not None and s.spec.suspend):
        # A run that goes on comes to its end by itself.
        waits = s.memory.in_run and not s.resource.deleted and s.spec is not None and not s.spec.suspend
        return "True", "SpecChanged", f"the running job does not match the spec yet{_NEXT_RUN if waits else ''}"
    if step.reason:
        return "True", step.reason, step.message
    if silent is not None:
        return "True", _NO_ANSWER, silent
    if unready is not None:
        return "True", *unready[1:]
    if s.job is not None and s.job.state not in TAKES_REQUESTS:
        return "True", _word(s.job.state), _state(s.job)
    if readiness is not None and executors.leaving(s):
        return "True", executors.LEAVING, "the job is to go on without executors that have not ended yet"
    if s.driver_is_live and not _has_completed(s, unchanged_since):
        return "True", _NO_CHECKPOINT, _no_checkpoint(s)
    loop = health.restart_loop(s)
    if loop is not None:
        return "True", "RestartLoop", loop
    return "False", "UpToDate", ""


def _has_completed(s: Situation, since: float) -> bool:
    """Return whether the job has completed a checkpoint since its last start or restart, triggered after a time."""
    if s.job is None:
        # A single request without an answer changes nothing.
        return _known(s, ConditionType.READY) is not None and memory_of(s.resource.status).attempt == s.memory.attempt
    last = s.job.last_checkpoint
    # Conditions and memory have whole seconds.
    return last is not None and s.driver_completed and last.triggered >= since + 1


def _no_checkpoint(s: Situation) -> str:
    restarts = s.memory.failures + (0 if s.job is None else s.job.restarts)
    failure = (None if s.job is None else s.job.failure) or s.memory.failure
    after = f" after restart {restarts}: {failure}" if restarts and failure else ""
    return f"the job runs, and has not completed a checkpoint{after}"


def _resting_differs(s: Situation, step: Step) -> Verdict | None:
    if s.memory.lifecycle is LifecycleState.FINISHED:
        return _starts_again(step) if starts_again(s) else None
    if s.spec is not None and s.memory.lifecycle is LifecycleState.SCHEDULED:
        return _between_runs_differs(s, s.spec, step)
    if s.spec is None or s.spec.suspend:
        return None
    return "True", step.reason or "Resuming", step.message or "the job is to be resumed"


def _between_runs_differs(s: Situation, spec: StreamJobSpec, step: Step) -> Verdict | None:
    if spec.suspend:
        return "True", "Suspending", "the job is to be suspended"
    if spec.schedule is None:
        return "True", step.reason or "Resuming", step.message or "the job is to run all the time"
    if s.memory.times is not None and runs.due(s) is None:
        return None
    return "True", step.reason or "Scheduled", step.message or "a run is about to begin"


def _starts_again(step: Step) -> Verdict:
    return "True", step.reason or "SpecChanged", step.message or "the job is to be started for a changed spec"


def _ready(s: Situation, stalled: Verdict, reconciling: Verdict) -> Verdict:
    if stalled[0] == "True":
        return "False", stalled[1], stalled[2]
    if reconciling[0] == "True":
        return "False", reconciling[1], reconciling[2]
    if s.memory.lifecycle is LifecycleState.SCHEDULED and s.memory.next_run is not None:
        return "True", "Scheduled", f"no run is under way; the next one begins at {stamp_of(s.memory.next_run)}"
    if s.memory.lifecycle in _RESTING:
        return "True", *_RESTING[s.memory.lifecycle]
    if s.memory.lifecycle is LifecycleState.STABLE and s.driver_is_live:
        return "True", "Stable", "the job runs, and completes checkpoints"
    return "False", "NotRunning", "the driver is not there"


def _running(s: Situation, silent: str | None) -> Verdict:
    if s.job is not None:
        return ("True" if s.job.state in TAKES_REQUESTS else "False"), _word(s.job.state), _state(s.job)
    if s.driver_is_live and s.memory.lifecycle is not LifecycleState.DEPLOYING:
        if not health.should_answer(s):
            return "Unknown", "Stopping", "the driver stops, and does not answer any more"
        known = _known(s, ConditionType.RUNNING) if silent is None else None
        return known or ("Unknown", _NO_ANSWER, silent or "the driver does not answer")
    return "False", "NoDriver" if s.pod is None else "DriverNotRunning", s.memory.failure or ""


def _checkpoint_healthy(s: Situation, status: StreamJobStatus) -> Verdict:
    lifecycle = s.memory.lifecycle
    if lifecycle is LifecycleState.DEPLOYING and s.memory.failure_reason == "RestartUnhealthyJob":
        return "False", "CheckpointOverdue", s.memory.failure or ""
    if lifecycle in _RESTING or not s.driver_is_live:
        return "Unknown", "NotRunning", ""
    why = health.overdue(s) if lifecycle in health.RUNS else None
    if why is not None:
        return "False", "CheckpointOverdue", why
    failures = status.checkpoint.counts.consecutive_failures
    if failures:
        last = status.checkpoint.last_failed
        return "False", "CheckpointsFail", f"{failures} in a row: {last.message if last is not None else ''}"
    if not (s.completed_since(s.memory.attempt) if s.job is None else s.driver_completed):
        # While the job does not run, Running says why.
        runs = s.job is not None and s.job.state in TAKES_REQUESTS
        return "Unknown", "NoCheckpointYet", _no_checkpoint(s) if runs else ""
    return "True", "CheckpointsComplete", ""


def _state_compatible(s: Situation) -> Verdict:
    found = s.compatibility
    if found is not None:
        return ("True", "Compatible", "") if found.compatible else ("False", INCOMPATIBLE, "\n".join(found.problems))
    if s.memory.lifecycle is LifecycleState.FAILED and s.memory.failure_reason == "CannotRestore":
        return "False", "CannotRestore", s.memory.failure or ""
    if s.job is not None and s.job.state is JobState.RUNNING and s.difference is Change.IGNORE:
        return "True", "Restored" if s.job.restored_from is not None else "NoState", ""
    known = _known(s, ConditionType.STATE_COMPATIBLE) if health.should_answer(s) and s.job is None else None
    return known if known is not None and s.difference is Change.IGNORE else ("Unknown", "NotChecked", "")


def _known(s: Situation, kind: ConditionType) -> Verdict | None:
    """Return a condition's previous value: a single request without an answer does not change it."""
    found = find_condition(s.resource.status.conditions, kind)
    if found is None or found.status != "True":
        return None
    return found.status, found.reason, found.message


def _preflight_passed(s: Situation) -> Verdict:
    known = s.memory.preflight
    names = (s.memory.revision, None if s.wanted is None else s.wanted.name)
    if known is None or known.state is PreflightState.WITHDRAWN or known.revision not in names:
        return "Unknown", "NoPreflight", ""
    if known.state is PreflightState.PASSED:
        return "True", "PreflightPassed", known.message
    if known.state is PreflightState.SKIPPED:
        return "Unknown", "PreflightSkipped", known.message
    if known.state is PreflightState.FAILED:
        return "False", preflight.PREFLIGHT_FAILED, known.message
    hindered = preflight.hindrance(s)
    if hindered is not None:
        return "False", *hindered
    return "Unknown", "PreflightRunning", f"a pod checks whether {known.revision} can start, while the job runs on"


def _has_failed_its_preflight(s: Situation) -> Verdict | None:
    if s.memory.preflight is None or not preflight.blocks(s):
        return None
    return (
        "True",
        preflight.PREFLIGHT_FAILED,
        f"{s.memory.preflight.message}\nThe revision that was deployed before is kept",
    )


def _rolled_back(s: Situation) -> Verdict:
    if s.memory.failed_revision is None:
        return "False", "NotRolledBack", ""
    known = _known(s, ConditionType.ROLLED_BACK)
    if known is not None and s.memory.failed_revision in known[2]:
        # The revision that runs instead may have failed since.
        return known
    if s.memory.failure_reason == "RolledBack" and s.memory.failure:
        return "True", "RolledBack", s.memory.failure
    return "True", "RolledBack", f"{s.memory.failed_revision} did not get going; {s.memory.revision} runs in its place"


def _store_in_reach(s: Situation) -> Verdict:
    if s.location is None:
        return "Unknown", "NoLocation", "the spec names no place for snapshots"
    if s.seen.trouble is not None:
        return "False", s.seen.trouble.reason, s.seen.trouble.message
    return _REACH[s.seen.reach]


def _stops(s: Situation) -> bool:
    return s.memory.stop is not None and s.memory.stop.next_try is None


def _state(job: JobView) -> str:
    """Return a job's state for people, with its last failure where it has not recovered from that."""
    failed = job.failure is not None and job.state not in TAKES_REQUESTS
    return f"the job is {job.state}: {job.failure}" if failed else f"the job is {job.state}"


def _word(state: JobState) -> str:
    return state.value.capitalize()
