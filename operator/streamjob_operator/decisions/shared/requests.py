"""StreamSnapshots that the controller makes for a job: for a changed nonce and by the schedule; and which are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from streamjob.schedules import next_time
from streamjob_operator.decisions.values.actions import CreateSnapshot, DeleteSnapshot
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.decisions.values.observation import KnownSnapshot
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.snapshot import SnapshotState
from streamjob_operator.resources.status import RequestedSnapshot
from streamjob_operator.resources.streamjob import StreamJobSpec

_LONGEST_JOB = 200
_UID_DIGITS = 8


def request(s: Situation) -> Step | None:
    """Return the actions for snapshots of a running job; None if there are none."""
    if s.spec is None or not s.takes_requests:
        return None
    return _make(s) or _for_nonces(s, s.spec) or _by_schedule(s, s.spec)


def snapshot_name(job: Resource, what: str) -> str:
    """Return the name of a StreamSnapshot; snapshots outlive their job, and the next job of its name makes others."""
    return f"{job.name[:_LONGEST_JOB]}-{what}" + (f"-{job.uid[:_UID_DIGITS]}" if job.uid else "")


def superfluous(s: Situation) -> tuple[DeleteSnapshot, ...]:
    """Return the deletions of snapshots that need not be kept any longer, whether the job runs or not.

    Only those that the controller made; never one that is under way, the newest one, or one that a start needs.
    """
    if s.spec is None:
        return ()
    retention = s.spec.savepoints.retention
    own = [each for each in s.seen.snapshots if each.origin != "manual" and each.kind == "savepoint"]
    completed = sorted((each for each in own if each.state is SnapshotState.COMPLETED), key=_age, reverse=True)
    failed = sorted((each for each in own if _has_failed(each)), key=_age, reverse=True)
    too_many = [*completed[retention.max_count :], *failed[retention.max_count :]]
    too_old = []
    if retention.max_age is not None:
        too_old = [each for each in completed[1:] if s.now - _age(each)[0] > retention.max_age]
    needed = _needed(s)
    doomed = {each.name for each in (*too_many, *too_old) if each.path is None or each.path not in needed}
    # Its files are deleted with it, so it stays while another retained one represents the same files.
    needed |= {each.path for each in s.seen.snapshots if each.path is not None and each.name not in doomed}
    return tuple(
        DeleteSnapshot(name=each.name)
        for each in completed + failed
        if each.name in doomed and not each.deleting and (each.path is None or each.path not in needed)
    )


def _make(s: Situation) -> Step | None:
    if not s.memory.requests:
        return None
    missing = tuple(each for each in s.memory.requests if s.seen.snapshot(each.name) is None)
    if len(missing) < len(s.memory.requests):
        return Step(memory=replace(s.memory, requests=missing), requeue=0)
    return Step(
        memory=s.memory,
        actions=tuple(CreateSnapshot(name=each.name, kind=each.kind, origin=each.origin) for each in missing),
        requeue=s.limits.poll,
    )


def _for_nonces(s: Situation, spec: StreamJobSpec) -> Step | None:
    done, wanted = s.memory.nonces, []
    kinds: tuple[tuple[Literal["savepoint", "checkpoint"], int | None, int | None], ...] = (
        ("savepoint", spec.savepoint_trigger_nonce, done.savepoint_trigger),
        ("checkpoint", spec.checkpoint_trigger_nonce, done.checkpoint_trigger),
    )
    for kind, asked, answered in kinds:
        if asked is not None and asked != answered:
            # The generation tells apart two uses of the same number.
            name = snapshot_name(s.resource, f"{kind}-nonce-{abs(asked)}-{s.resource.generation}")
            wanted.append(RequestedSnapshot(name=name, kind=kind, origin="nonce"))
    if not wanted:
        return None
    nonces = done.model_copy(
        update={"savepoint_trigger": spec.savepoint_trigger_nonce, "checkpoint_trigger": spec.checkpoint_trigger_nonce}
    )
    return Step(memory=replace(s.memory, nonces=nonces, requests=(*s.memory.requests, *wanted)), requeue=0)


def _by_schedule(s: Situation, spec: StreamJobSpec) -> Step | None:
    schedule = spec.savepoints.schedule
    if schedule is None:
        return None
    if s.memory.last_scheduled is None:
        return Step(memory=replace(s.memory, last_scheduled=s.now), requeue=0)
    under_way = any(each.origin == "schedule" and not each.state.terminal for each in s.seen.snapshots)
    due = next_time(schedule, s.memory.last_scheduled)
    if under_way or s.now < due:
        return None
    stamp = datetime.fromtimestamp(s.now, UTC).strftime("%Y%m%d%H%M%S")
    asked = RequestedSnapshot(name=snapshot_name(s.resource, f"scheduled-{stamp}"), kind="savepoint", origin="schedule")
    return Step(memory=replace(s.memory, last_scheduled=s.now, requests=(*s.memory.requests, asked)), requeue=0)


def _age(snapshot: KnownSnapshot) -> tuple[float, str]:
    return (snapshot.created if snapshot.completed is None else snapshot.completed, snapshot.name)


def _has_failed(snapshot: KnownSnapshot) -> bool:
    return snapshot.state in (SnapshotState.FAILED, SnapshotState.ABANDONED)


def _needed(s: Situation) -> set[str]:
    """Return the manifests that a driver may have to start from."""
    restore = s.memory.restore
    needed = set() if s.completed_since(restore.first_attempt) else {restore.source}
    if s.log is not None and s.log.newest is not None:
        needed.add(s.log.newest.path)
    return needed
