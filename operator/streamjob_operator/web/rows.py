"""Makes the row of a StreamJob out of its status and of what its driver said last; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from streamjob.client.jobs_models import ConditionView, DriverPresence, JobRow, ResourceView, Tone
from streamjob.client.page_models import Diagnosis, HistoryPoint
from streamjob.durations import parse_duration
from streamjob.protocol.lifecycle import JobState
from streamjob_operator.cluster.kinds import Object
from streamjob_operator.evaluation.reading import read_status
from streamjob_operator.resources.conditions import Condition, ConditionType, find_condition
from streamjob_operator.resources.parts import ScalingMode
from streamjob_operator.resources.status import MEANINGS, LifecycleState, StreamJobStatus

FRESH_SECONDS = 60.0
"""How long a driver's diagnosis counts; its figures stay, with their age."""

_URGENCY: tuple[Tone, ...] = ("critical", "attention", "underway", "ok", "still")
_UNDER_WAY = frozenset(
    {
        LifecycleState.CREATED,
        LifecycleState.DEPLOYING,
        LifecycleState.DEPLOYED,
        LifecycleState.UPGRADING,
        LifecycleState.SUSPENDING,
        LifecycleState.ROLLING_BACK,
        LifecycleState.DELETING,
    }
)
_STILL = frozenset({LifecycleState.SUSPENDED, LifecycleState.SCHEDULED, LifecycleState.FINISHED})
_CHANGES = frozenset({LifecycleState.UPGRADING, LifecycleState.SUSPENDING, LifecycleState.ROLLING_BACK})
_WRONG: dict[ConditionType, tuple[str, Tone]] = {
    ConditionType.STALLED: ("True", "critical"),
    ConditionType.STATE_COMPATIBLE: ("False", "critical"),
    ConditionType.CHECKPOINT_HEALTHY: ("False", "critical"),
    ConditionType.EXECUTORS_READY: ("False", "attention"),
    ConditionType.ROLLED_BACK: ("True", "attention"),
}
"""Conditions that mean trouble with one of their statuses, and how urgent it is; the others follow from these, from the
lifecycle, or from a choice of the user's, such as a store that the controller cannot reach."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The answer of a driver at a moment, in seconds since 1970."""

    at: float
    diagnosis: Diagnosis
    point: HistoryPoint | None = None


def row_of(job: Object, figures: Figures | None, now: float) -> JobRow:
    """Return the row of a StreamJob.

    Args:
        job: the StreamJob, as the API server has it.
        figures: what its driver said last; None if that is not known.
        now: seconds since 1970.
    """
    meta, spec, status = job["metadata"], job.get("spec") or {}, read_status(job)
    process, planned = status.job_status, status.reconciliation
    point = figures.point if figures is not None else None
    completed = status.checkpoint.last_completed
    tone, sentence = min(_findings(status, figures, now), key=lambda each: _URGENCY.index(each[0]))
    return JobRow(
        namespace=meta["namespace"],
        name=meta["name"],
        tone=tone,
        sentence=sentence,
        lifecycle=status.lifecycle_state,
        since=_seconds(planned.since),
        state=process.state,
        driver=_presence(status),
        away_since=_seconds(process.silent_since),
        troubles=tuple(each.type for each in status.conditions if _trouble(each) is not None),
        lag_seconds=point.lag_seconds if point else None,
        lag_records=point.lag_records if point else None,
        rows_per_second=point.rows_per_second if point else None,
        figures_at=figures.at if figures is not None and point is not None else None,
        checkpoint_at=_seconds(completed.completed) if completed is not None else None,
        checkpoint_interval=_interval(spec),
        restarts=process.restarts,
        upgrade=_upgrade(status),
        revision=planned.last_reconciled_revision,
        parallelism=status.replicas or None,
        recommended=status.autoscaling.recommended if status.autoscaling is not None else None,
        suspended=bool(spec.get("suspend")),
    )


def resource_of(job: Object, figures: Figures | None, now: float) -> ResourceView:
    """Return a StreamJob as its page shows it while the driver is away, too; the arguments are those of `row_of`."""
    status = read_status(job)
    completed, savepoint = status.checkpoint.last_completed, status.savepoint.last_completed
    scaling = status.autoscaling
    return ResourceView(
        row=row_of(job, figures, now),
        now=now,
        conditions=tuple(
            ConditionView(
                type=each.type,
                status=each.status,
                reason=each.reason,
                message=each.message,
                since=_seconds(each.last_transition_time),
                wrong=_trouble(each) is not None,
            )
            for each in status.conditions
        ),
        attempt=status.job_status.attempt,
        failure=status.job_status.failure,
        next_restart_at=_seconds(status.job_status.next_restart_time),
        checkpoint_path=completed.path if completed is not None else None,
        savepoint_path=savepoint.path if savepoint is not None else None,
        savepoint_at=_seconds(savepoint.completed) if savepoint is not None else None,
        pending_revision=status.reconciliation.pending_revision,
        scaling=scaling.reason or None if scaling is not None else None,
        scaling_acts=scaling is not None and scaling.mode == ScalingMode.ACT,
    )


def _findings(status: StreamJobStatus, figures: Figures | None, now: float) -> Iterator[tuple[Tone, str]]:
    """Yield all findings; of equally urgent ones the first counts."""
    process = status.job_status
    runs = _presence(status) == "answers"
    ready = _reason(status, ConditionType.READY) or MEANINGS[status.lifecycle_state]
    if figures is not None and runs and now - figures.at < FRESH_SECONDS:
        yield figures.diagnosis.severity, figures.diagnosis.sentence
    for each in status.conditions:
        tone = _trouble(each)
        if tone is not None:
            yield tone, _said(each)
    if process.state in (JobState.RESTARTING, JobState.FAILED) and process.failure:
        yield "critical", _first_line(process.failure)
    if status.lifecycle_state is LifecycleState.FAILED:
        yield "critical", _first_line(process.failure) or "The job failed."
    if process.silent_since is not None:
        yield "attention", "The driver's pod runs, but does not answer."
    reconciling = find_condition(status.conditions, ConditionType.RECONCILING)
    if status.lifecycle_state in _UNDER_WAY or (reconciling is not None and reconciling.status == "True"):
        yield "underway", _reason(status, ConditionType.RECONCILING) or ready
    # The least urgent, so that there is a sentence for every status.
    yield "ok" if runs else "still", ready


def _trouble(condition: Condition) -> Tone | None:
    wrong = _WRONG.get(ConditionType(condition.type)) if condition.type in set(ConditionType) else None
    return wrong[1] if wrong is not None and wrong[0] == condition.status else None


def _presence(status: StreamJobStatus) -> DriverPresence:
    if status.job_status.silent_since is not None:
        return "away"
    state = status.job_status.state
    if status.lifecycle_state in _STILL or state is None or state.terminal:
        return "none" if status.lifecycle_state in _STILL | {LifecycleState.FAILED} else "away"
    return "answers"


def _upgrade(status: StreamJobStatus) -> str | None:
    if status.lifecycle_state not in _CHANGES and status.reconciliation.pending_revision is None:
        return None
    return _reason(status, ConditionType.RECONCILING) or status.lifecycle_state.replace("_", " ").capitalize()


def _reason(status: StreamJobStatus, kind: ConditionType) -> str:
    found = find_condition(status.conditions, kind)
    return _said(found) if found is not None else ""


def _said(condition: Condition) -> str:
    said = _first_line(condition.message) or condition.reason
    return said[:1].upper() + said[1:]


def _first_line(text: str | None) -> str:
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")


def _seconds(time: datetime | None) -> float | None:
    return time.timestamp() if time is not None else None


def _interval(spec: Object) -> float | None:
    written = (spec.get("checkpointing") or {}).get("interval")
    try:
        return float(written) if isinstance(written, (int, float)) else parse_duration(written) if written else None
    except ValueError:
        return None
