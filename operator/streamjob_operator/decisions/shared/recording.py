"""Creates StreamSnapshots for the savepoints of stops, so that they stay visible after an upgrade or suspension.

The intent to record a savepoint is stored in the same write that ends its stop, under a name derived from the driver
that took it, so a repeated creation finds the same object. The log has the savepoint's location. If only drivers can
read the log, the next driver reports the snapshot that it was restored from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from streamjob.protocol.coordination.triggers import SnapshotKind
from streamjob.snapshot.record import RecordKind
from streamjob_operator.decisions.shared.requests import snapshot_name
from streamjob_operator.decisions.values.actions import CreateSnapshot
from streamjob_operator.decisions.values.memory import Stop
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.status import TakenSavepoint, TriggerPurpose

Origin = Literal["upgrade", "suspend", "delete"]
ORIGINS: Mapping[TriggerPurpose, Origin] = {
    TriggerPurpose.UPGRADE: "upgrade",
    TriggerPurpose.SUSPEND: "suspend",
    TriggerPurpose.DELETE: "delete",
}


def noted(s: Situation, step: Step) -> Step:
    """Return the step, with the savepoint to be recorded if it ends a stop that has taken one."""
    stop = s.memory.stop
    if stop is None or not _took(s, stop) or not _ends(step, stop):
        return step
    path = _newest_savepoint(s, stop.attempt)
    if path is None and _log_is_true(s):
        return step
    origin = ORIGINS[stop.purpose]
    taken = TakenSavepoint(
        name=snapshot_name(s.resource, f"{origin}-{stop.attempt}"),
        origin=origin,
        attempt=stop.attempt,
        path=path,
    )
    # The next driver can report only the last savepoint.
    known = tuple(each for each in step.memory.recordings if each.path is not None)
    return replace(step, memory=replace(step.memory, recordings=(*known, taken)))


def settled(s: Situation) -> Step | None:
    """Return the memory after recordings are done or their locations are known; None if nothing changes."""
    kept = []
    for each in s.memory.recordings:
        if each.path is None:
            found = _found(s, each)
            if found is not None:
                kept.append(found)
        elif s.seen.snapshot(each.name) is None and not any(known.path == each.path for known in s.seen.snapshots):
            kept.append(each)
    recordings = tuple(kept)
    return (
        None if recordings == s.memory.recordings else Step(memory=replace(s.memory, recordings=recordings), requeue=0)
    )


def recordings(s: Situation) -> tuple[CreateSnapshot, ...]:
    """Return the StreamSnapshots to be made."""
    return tuple(
        CreateSnapshot(name=each.name, kind="savepoint", origin=each.origin, path=each.path)
        for each in s.memory.recordings
        if each.path is not None
    )


def _took(s: Situation, stop: Stop) -> bool:
    """A stop that fell back to the last checkpoint may have taken its savepoint all the same."""
    asked = stop.mode == "savepoint" or stop.failure is not None
    return asked and stop.purpose in ORIGINS and (s.has_handed_over or not s.driver_is_live)


def _ends(step: Step, stop: Stop) -> bool:
    return step.memory.stop is None or step.memory.attempt > stop.attempt


def _log_is_true(s: Situation) -> bool:
    return s.log is not None and not s.log.remembered


def _newest_savepoint(s: Situation, attempt: int) -> str | None:
    newest = None if s.log is None else s.log.newest
    if newest is None or newest.kind is not RecordKind.SAVEPOINT or newest.attempt != attempt:
        return None
    return newest.path


def _found(s: Situation, taken: TakenSavepoint) -> TakenSavepoint | None:
    """Return the data of a savepoint whose location was unknown; None if there was none."""
    path = _newest_savepoint(s, taken.attempt)
    if path is not None:
        return taken.model_copy(update={"path": path})
    if s.job is not None and s.job.attempt > taken.attempt and s.takes_requests:
        source = s.job.restored_from
        if source is None or source.kind is not SnapshotKind.SAVEPOINT:
            return None
        return taken.model_copy(update={"path": source.path})
    newest = s.log.newest if s.log is not None and _log_is_true(s) else None
    return None if newest is not None and newest.attempt == taken.attempt else taken
