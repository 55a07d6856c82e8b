"""The world with StreamSnapshots as separate resources, which the controller reconciles in addition to the job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tests.simulation.operator.world import NAME, ClusterWorld, Mishap

from streamjob.snapshot.record import RecordKind
from streamjob_operator.decisions.snapshots import SnapshotSituation, decide_snapshot
from streamjob_operator.decisions.values.actions import (
    Action,
    AddFinalizer,
    CreateSnapshot,
    DeleteSnapshot,
    DeleteSnapshotData,
    RemoveFinalizer,
    TriggerCheckpoint,
    TriggerSavepoint,
)
from streamjob_operator.decisions.values.observation import KnownSnapshot, SnapshotOrigin
from streamjob_operator.resources.snapshot import SnapshotState, StreamSnapshot


@dataclass(frozen=True)
class StoredSnapshot:
    """A version of a StreamSnapshot."""

    uid: str
    created: float
    spec: dict[str, Any]
    status: dict[str, Any] = field(default_factory=dict)
    origin: SnapshotOrigin = "manual"
    deleted: bool = False
    finalizer: bool = False


class SnapshotWorld(ClusterWorld):
    """A world in which people and the controller make StreamSnapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.resources: dict[str, StoredSnapshot] = {}
        self.asked: dict[str, list[str]] = {}
        self.removed: list[str] = []
        self._made = 0

    def request(self, name: str, spec: dict[str, Any], origin: SnapshotOrigin = "manual") -> None:
        """Create a StreamSnapshot, unless there is one of that name."""
        if name not in self.resources:
            self._made += 1
            spec = {"jobRef": {"name": NAME}, **spec}
            self.resources[name] = StoredSnapshot(str(self._made), self.now, spec, origin=origin)
            self._know()

    def remove(self, name: str) -> None:
        """Delete a StreamSnapshot."""
        if name in self.resources:
            self._put(name, replace(self.resources[name], deleted=True))

    def state_of(self, name: str) -> SnapshotState:
        """Return how far a StreamSnapshot has come."""
        return self._model(name, self.resources[name]).status.state

    def reconcile_snapshots(self, life: Mishap | None = None) -> None:
        """Look at each of them once."""
        for name in list(self.resources):
            self._reconcile(name, life or Mishap())

    def _reconcile(self, name: str, life: Mishap) -> None:
        read = self.resources[name]
        snapshot = self._model(name, read)
        job = None if self.gone else self.resource(self.stored)
        seen = None if self.gone else self.observe(self.stored)
        if seen is not None and seen.job is not None and snapshot.status.trigger_id is not None:
            process = self._reach(seen.job.attempt)
            known = None if process is None else process.triggers.get(snapshot.status.trigger_id)
            if known is not None:
                seen = replace(seen, triggers={**seen.triggers, snapshot.status.trigger_id: known})
        now = datetime.fromtimestamp(self.now, UTC)
        decision = decide_snapshot(
            SnapshotSituation(snapshot=snapshot, job=job, seen=seen, finalizer=read.finalizer, now=now)
        )
        self.tick(life.between)
        if life.dies_at == 0 or self.resources.get(name) != read:
            return
        before, after = snapshot.status.state, decision.status.state
        assert not before.terminal or after is before, f"{name} was {before}, and became {after}"
        self._put(name, replace(read, status=decision.status.to_dict()))
        if life.dies_at == 1:
            return
        for action in decision.actions:
            self._do(name, action)

    def _do(self, name: str, action: Action) -> None:
        snapshot = self.resources.get(name)
        if snapshot is None:
            return
        match action:
            case AddFinalizer():
                if not snapshot.deleted:
                    self._put(name, replace(snapshot, finalizer=True))
            case RemoveFinalizer():
                self._put(name, replace(snapshot, finalizer=False))
            case TriggerSavepoint() | TriggerCheckpoint():
                status = self._model(name, snapshot).status
                assert status.trigger_id == action.trigger_id, "a snapshot was asked for that was not stored"
                process = self._reach(action.attempt)
                if process is not None:
                    process.savepoint_fails = self.next_fault == "savepoint fails"
                    self.next_fault = None
                    savepoint = isinstance(action, TriggerSavepoint)
                    kind = RecordKind.SAVEPOINT if savepoint else RecordKind.CHECKPOINT
                    process.request(action.trigger_id, kind, self.now)
                    self.asked.setdefault(name, []).append(action.trigger_id)
            case DeleteSnapshotData():
                assert snapshot.spec["savepoint"]["disposeOnDelete"], "files were deleted that were to be kept"
                newest = self.log.newest
                assert self.gone or newest is None or newest.path != action.path, "the next start needs it"
                self.removed.append(action.path)
            case _:
                super()._act(action)

    def _act(self, action: Action) -> bool:
        match action:
            case CreateSnapshot():
                self.actions.append(action)
                self._note_recording(action)
                self.request(
                    action.name, {action.kind: {} if action.path is None else {"path": action.path}}, action.origin
                )
                return True
            case DeleteSnapshot():
                self.actions.append(action)
                assert self.state_of(action.name).terminal, "a snapshot under way was deleted"
                self.remove(action.name)
                return True
        return super()._act(action)

    def _put(self, name: str, snapshot: StoredSnapshot) -> None:
        if snapshot.deleted and not snapshot.finalizer:
            self.resources.pop(name, None)
        else:
            self.resources[name] = snapshot
        self._know()

    def _know(self) -> None:
        self.snapshots = {name: self._known(name, each) for name, each in self.resources.items()}

    def _known(self, name: str, stored: StoredSnapshot) -> KnownSnapshot:
        status = self._model(name, stored).status
        return KnownSnapshot(
            name=name,
            kind="checkpoint" if "checkpoint" in stored.spec else "savepoint",
            origin=stored.origin,
            created=stored.created,
            state=status.state,
            path=status.path,
            completed=None if status.result_timestamp is None else status.result_timestamp.timestamp(),
            deleting=stored.deleted,
        )

    def _model(self, name: str, stored: StoredSnapshot) -> StreamSnapshot:
        metadata = {
            "name": name,
            "uid": stored.uid,
            "generation": 1,
            "creationTimestamp": datetime.fromtimestamp(stored.created, UTC),
            "deletionTimestamp": datetime.fromtimestamp(self.now, UTC) if stored.deleted else None,
        }
        return StreamSnapshot.model_validate({"metadata": metadata, "spec": stored.spec, "status": stored.status})
