"""The reports in a StreamJob's status: its process, its checkpoints, its starting point."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from streamjob.client.models import CheckpointDetail, LastCheckpointView
from streamjob.protocol.coordination.triggers import SnapshotKind
from streamjob_operator.decisions.shared import executors
from streamjob_operator.decisions.values import health
from streamjob_operator.decisions.values.memory import memory_of
from streamjob_operator.decisions.values.observation import Completion
from streamjob_operator.decisions.values.situation import Situation
from streamjob_operator.decisions.values.slots import slots_of, width_of
from streamjob_operator.resources.base import time_of
from streamjob_operator.resources.labels import COMPONENT_LABEL, EXECUTOR, UID_LABEL
from streamjob_operator.resources.status import (
    CheckpointCounts,
    CheckpointInProgress,
    CheckpointStatus,
    CompletedCheckpoint,
    CompletedSavepoint,
    FailedCheckpoint,
    JobStatus,
    PendingSavepoint,
    RestoredFrom,
    SavepointStatus,
    SnapshotReference,
    StreamJobStatus,
    TriggerPurpose,
)

_LONGEST = 1000
_PURPOSES = {"nonce": TriggerPurpose.NONCE, "schedule": TriggerPurpose.SCHEDULE}
_TAKEN = frozenset({"manual", *_PURPOSES})
"""Origins of StreamSnapshots that take their own snapshot; others represent the savepoint of a stop."""


SLOTS_LABEL = "streamjob.io/task-slots-of"
"""No pod has it: `/scale` counts task slots, and several of them are in one pod.

An autoscaler demands a selector. By one that selected the driver it would take eight slots for one pod.
"""


def report(s: Situation, status: StreamJobStatus) -> StreamJobStatus:
    """Return the status with the observed values; unobserved ones keep their values."""
    checkpoint = _checkpoint(s, status.checkpoint)
    parallelism = None if s.job is None else s.job.graph.get("parallelism")
    return status.model_copy(
        update={
            "observed_generation": s.resource.generation,
            "job_status": _job(s, status.job_status),
            # The look that adopts another number of executors must not call the old number complete.
            "executors": executors.reported(replace(s, memory=memory_of(status)), status.executors),
            "checkpoint": checkpoint,
            "savepoint": _savepoint(s, status, checkpoint.last_completed),
            "restored_from": _restored_from(s, status.restored_from),
            "replicas": _replicas(s, s.slots if _changes_its_slots(s) else parallelism),
            "selector": _selector(s),
        }
    )


def _selector(s: Situation) -> str:
    """Return what selects a pod for each task slot: executors with one slot each, or none."""
    executor = None if s.deployed is None else s.deployed.spec().executor
    if executor is None or executor.cores > 1:
        return f"{SLOTS_LABEL}={s.resource.uid}"
    return f"{UID_LABEL}={s.resource.uid},{COMPONENT_LABEL}={EXECUTOR}"


def _restored_from(s: Situation, before: RestoredFrom | None) -> RestoredFrom | None:
    """Return the job's starting point; a running driver that names none has started without state."""
    source = None if s.job is None else s.job.restored_from
    if source is None:
        return None if s.takes_requests else before
    return RestoredFrom(id=source.id, kind=source.kind, path=source.path)


def _job(s: Situation, before: JobStatus) -> JobStatus:
    state, epoch, restarts = before.state, before.epoch, before.restarts
    update: dict[str, Any] = {}
    if s.job is not None:
        state, epoch = s.job.state, s.job.epoch if s.job.epoch is not None else epoch
        restarts = s.job.restarts + s.memory.failures
    elif s.pod is not None and s.pod.ended and s.pod.outcome is not None:
        state = s.pod.outcome
    elif not s.driver_is_live and state is not None and not state.terminal:
        state = None
    if s.pod is not None and s.pod.started is not None:
        update["start_time"] = time_of(s.pod.started)
    if state != before.state:
        update["update_time"] = time_of(s.now)
    update["silent_since"] = _silent_since(s, before)
    return before.model_copy(update={**update, "state": state, "epoch": epoch, "restarts": restarts})


def _silent_since(s: Situation, before: JobStatus) -> datetime | None:
    if not health.should_answer(s) or s.job is not None:
        return None
    return before.silent_since or time_of(s.now)


def _checkpoint(s: Situation, before: CheckpointStatus) -> CheckpointStatus:
    last = _newest(s, before.last_completed)
    seen = s.seen.checkpoints if s.job is not None else None
    if seen is None:
        gone = not s.driver_is_live
        return before.model_copy(update={"last_completed": last, "in_progress": None if gone else before.in_progress})
    under_way = next((each for each in seen.history if each.class_name == "in_progress"), None)
    failed = seen.latest.failed
    return CheckpointStatus(
        last_completed=last,
        in_progress=None
        if under_way is None
        else CheckpointInProgress(id=under_way.id, triggered=time_of(under_way.trigger_timestamp / 1000)),
        last_failed=before.last_failed
        if failed is None
        else FailedCheckpoint(
            id=failed.id,
            time=None if failed.failure_timestamp is None else time_of(failed.failure_timestamp / 1000),
            message=(failed.failure_message or "")[:_LONGEST],
        ),
        counts=CheckpointCounts(
            completed=seen.counts.completed,
            failed=seen.counts.failed,
            in_progress=seen.counts.in_progress,
            consecutive_failures=_consecutive_failures(seen.history),
        ),
    )


def _savepoint(s: Situation, status: StreamJobStatus, last: CompletedCheckpoint | None) -> SavepointStatus:
    completed = status.savepoint.last_completed
    if last is not None and last.kind is SnapshotKind.SAVEPOINT and (completed is None or completed.path != last.path):
        completed = CompletedSavepoint(id=last.id, path=last.path, completed=last.completed)
    if completed is not None:
        # The driver that took a savepoint to stop is gone; the StreamSnapshot has its data.
        resource = next((each for each in s.seen.snapshots if each.path == completed.path), None)
        sizes = [
            None if resource is None else resource.size,
            last.state_size if last is not None and last.path == completed.path else None,
            completed.size_bytes,
        ]
        completed = completed.model_copy(
            update={
                "snapshot": completed.snapshot if resource is None else resource.name,
                "size_bytes": next((each for each in sizes if each is not None), None),
            }
        )
    pending = _pending(s, status)
    reference = status.savepoint.upgrade_snapshot_reference
    for taken in status.reconciliation.recordings:
        if taken.path is not None:
            reference = SnapshotReference(name=taken.name, path=taken.path)
    return status.savepoint.model_copy(
        update={"last_completed": completed, "pending": pending, "upgrade_snapshot_reference": reference}
    )


def _pending(s: Situation, status: StreamJobStatus) -> PendingSavepoint | None:
    """Return the next savepoint: that of a stop under way, or else of the oldest StreamSnapshot."""
    stop = status.reconciliation.stop
    if stop is not None and stop.savepoint and stop.next_try is None:
        return PendingSavepoint(started=stop.started, purpose=stop.purpose)
    open_ = [
        each
        for each in s.seen.snapshots
        if each.kind == "savepoint" and each.origin in _TAKEN and not (each.state.terminal or each.deleting)
    ]
    first = min(open_, key=lambda each: (each.created, each.name), default=None)
    if first is None:
        return None
    return PendingSavepoint(started=time_of(first.created), purpose=_PURPOSES.get(first.origin), snapshot=first.name)


def _newest(s: Situation, known: CompletedCheckpoint | None) -> CompletedCheckpoint | None:
    """Return the newest completion, with the driver's data if it reports the same one."""
    candidates = [] if known is None else [known]
    log = s.seen.log
    if log is not None and log.newest is not None:
        candidates.append(_from_log(log.newest))
    if s.job is not None and s.job.last_checkpoint is not None:
        candidates.append(_from_driver(s.job.last_checkpoint, s.job.attempt, s.job.epoch))
    # Attempts grow with time. Ids begin at 1 again when the checkpoints get another location.
    return max(candidates, key=lambda each: (each.attempt or 0, each.id, each.duration_ms is not None), default=None)


def _from_log(completion: Completion) -> CompletedCheckpoint:
    return CompletedCheckpoint(
        id=completion.id,
        kind=SnapshotKind(completion.kind.value),
        path=completion.path,
        epoch=completion.epoch,
        attempt=completion.attempt,
        completed=time_of(completion.time),
    )


def _from_driver(last: LastCheckpointView, attempt: int, epoch: int | None) -> CompletedCheckpoint:
    return CompletedCheckpoint(
        id=last.id,
        kind=last.kind,
        path=last.path,
        epoch=epoch,
        attempt=attempt,
        triggered=time_of(last.triggered),
        completed=time_of(last.completed),
        duration_ms=last.duration_ms,
        checkpointed_size=last.checkpointed_size,
        state_size=last.state_size,
    )


def _changes_its_slots(s: Situation) -> bool:
    """Return whether the job's graph does not have the task slots, because they change while its driver runs."""
    return bool(s.instances) or (s.spec is not None and width_of(s.spec) is not None)


def _replicas(s: Situation, parallelism: object) -> int:
    if not s.driver_is_live:
        return 0
    if isinstance(parallelism, int):
        return parallelism
    spec = s.deployed.spec() if s.deployed is not None else s.spec
    return 1 if spec is None else slots_of(spec)


def _consecutive_failures(history: list[CheckpointDetail]) -> int:
    count = 0
    for each in history:
        if each.class_name == "failed":
            count += 1
        elif each.class_name == "completed":
            break
    return count
