"""A simulated driver: its job, its log, its checkpoints, and its responses."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from typing import Any, get_args

import yaml
from pydantic import BaseModel

from streamjob.client.models import (
    CheckpointingChanges,
    CheckpointingView,
    JobPart,
    JobReport,
    LastCheckpointView,
    RestoredFromView,
    StopRequest,
    TriggerState,
    TriggerView,
)
from streamjob.ids import Attempt, BatchId, CheckpointId, Key, OperatorUid, Owner, TriggerId
from streamjob.job.model.reading import read_spec
from streamjob.job.model.spec import CheckpointingPolicy, JobSpec
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import Plan, plan
from streamjob.protocol.coordination.statistics import StatisticsTracker
from streamjob.protocol.coordination.triggers import CheckpointProperties, SnapshotKind
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.log.ownership import Claim, Identity, claim_log, complete
from streamjob.protocol.log.records import JobId
from streamjob.protocol.manifests.stored_manifests import MANIFEST_NAME, NamedManifest, encode_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChainState, Manifest, OperatorState
from streamjob.snapshot.record import RecordKind
from streamjob.store.base import Store
from streamjob.store.effects import drive
from streamjob_operator.cluster.kinds import Object
from streamjob_operator.objects.names import ATTEMPT_LABEL

_PARTS: frozenset[str] = frozenset(get_args(JobPart))


class JobReader:
    """Reads job files; their common parts are planned once, since planning takes longest."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[JobSpec, Plan]] = {}

    def read(self, text: str) -> tuple[JobSpec, Plan, dict[str, Any]]:
        """Return a job, its plan and its content."""
        content = yaml.load(text, Loader=yaml.CSafeLoader)
        common = json.dumps({key: content[key] for key in ("sources", "operators", "sinks")})
        if common not in self._known:
            spec = read_spec(content).spec
            assert spec is not None
            self._known[common] = spec, plan(spec)
        return *self._known[common], content


class Driver:
    """A driver: its log, its checkpoints, and its responses.

    Args:
        pod: its pod.
        token: of its control API.
        job: its job, from a `JobReader`.
        store: the job's root.
    """

    def __init__(self, pod: Object, token: str, job: tuple[JobSpec, Plan, dict[str, Any]], store: Store) -> None:
        self.pod = pod
        self.token = f"Bearer {token}".encode()
        self.attempt = int(pod["metadata"]["labels"][ATTEMPT_LABEL])
        spec, self._plan, content = job
        self.id = JobId(pod["metadata"]["namespace"], str(content["name"]))
        self.policy = CheckpointingPolicy.model_validate(content.get("checkpointing") or {})
        same = {"name": self.id.name, "parallelism": content.get("parallelism"), "maxParallelism": spec.max_parallelism}
        self._graph = {**graph_of(spec), **same}
        self._store = store
        self._started = time.time()
        self._state = JobState.CREATED
        self._claim: Claim | None = None
        self._restored: RestoredFromView | None = None
        self._last: LastCheckpointView | None = None
        self._statistics = StatisticsTracker()
        self.turn = asyncio.Lock()
        self.triggers: dict[TriggerId, TriggerView] = {}
        self._answers: dict[tuple[str, str], bytes | None] = {}
        self._change(JobState.CREATED)

    @property
    def claim(self) -> Claim:
        """The log, once it is claimed."""
        assert self._claim is not None
        return self._claim

    @property
    def runs(self) -> bool:
        """Whether it takes checkpoints."""
        return self._state is JobState.RUNNING

    def begin(self) -> None:
        """Claim the log, and continue from its content."""
        identity = Identity(job=self.id, owner=Owner(uuid.uuid4().hex), attempt=Attempt(self.attempt))
        self._claim = drive(self._store, claim_log(identity, time.time()))
        newest = self._claim.newest
        if newest is not None and newest.id is not None and newest.manifest is not None:
            self._claim.committed(newest.id)
            path = newest.manifest if "://" in newest.manifest else self._store.uri + newest.manifest
            self._restored = RestoredFromView(id=newest.id, kind=SnapshotKind(newest.kind.value), path=path)
        self._change(JobState.RUNNING)

    def checkpoint(self, kind: RecordKind) -> str:
        """Complete a snapshot, and return the URI of its manifest."""
        claim, begun = self.claim, time.time()
        number = CheckpointId(claim.last_id + 1)
        chains = tuple(chain.uid for chain in self._plan.chains)
        self._statistics.started(number, CheckpointProperties(kind=SnapshotKind(kind.value)), begun, chains)
        if kind is RecordKind.SAVEPOINT:
            directory = keys.SAVEPOINTS_PREFIX + keys.savepoint_prefix(self.id.name, number, uuid.uuid4().hex[:8])
            name = f"{directory}{MANIFEST_NAME}"
            reference = self._store.uri + name
        else:
            name = reference = keys.manifest(claim.epoch, number)
        content = encode_manifest(self._manifest(kind, number, begun))
        self._store.put(Key(name), content)
        drive(self._store, complete(claim, kind, number, NamedManifest.of(reference, content), time.time()))
        claim.committed(number)
        path = reference if "://" in reference else self._store.uri + reference
        self._statistics.completed(number, path)
        now = time.time()
        self._last = LastCheckpointView(
            id=number,
            kind=SnapshotKind(kind.value),
            triggered=begun,
            completed=now,
            duration_ms=round((now - begun) * 1000),
            checkpointed_size=0,
            state_size=0,
            path=path,
        )
        self._change(self._state)
        return path

    def stop(self, request: StopRequest) -> None:
        """Note that a stop was asked for."""
        trigger = request.trigger_id or TriggerId(uuid.uuid4().hex)
        self.triggers[trigger] = TriggerView(trigger_id=trigger, kind="stop", state=TriggerState.IN_PROGRESS)
        self._change(JobState.STOPPING)

    def stopped(self, trigger: TriggerId, path: str) -> None:
        """Note that it took place."""
        done = {"state": TriggerState.COMPLETED, "result": path, "checkpoint": self.claim.last_id}
        self.triggers[trigger] = self.triggers[trigger].model_copy(update=done)
        self._change(JobState.STOPPED)

    def change_policy(self, changes: CheckpointingChanges) -> None:
        """Take over another checkpointing policy."""
        self.policy = CheckpointingPolicy.model_validate({**self.policy.model_dump(), **changes.changed()})
        self._change(self._state)

    def _manifest(self, kind: RecordKind, number: CheckpointId, begun: float) -> Manifest:
        chains = tuple(
            ChainState(
                uid=chain.uid, operators=tuple(OperatorUid(each.uid) for each in chain.operators), batch=BatchId(number)
            )
            for chain in self._plan.chains
        )
        operators = tuple(
            OperatorState(uid=each.uid, chain=chain.uid) for chain in self._plan.chains for each in chain.operators
        )
        return Manifest(
            job=self.id.name,
            namespace=self.id.namespace,
            id=number,
            epoch=self.claim.epoch,
            kind="savepoint" if kind is RecordKind.SAVEPOINT else "checkpoint",
            triggered=begun,
            completed=time.time(),
            graph=self._graph,
            chains=chains,
            operators=operators,
        )

    def _change(self, state: JobState) -> None:
        self._state = state
        self._report = JobReport(
            state=state,
            name=self.id.name,
            namespace=self.id.namespace,
            graph=self._graph,
            attempt=self.attempt,
            epoch=None if self._claim is None else self._claim.epoch,
            start_time=self._started,
            uptime=time.time() - self._started,
            location=self._store.uri,
            last_checkpoint=self._last,
            restored_from=self._restored,
            checkpoints=self._statistics.overview(),
            checkpointing=CheckpointingView.model_validate(
                self.policy.model_dump(include=set(CheckpointingView.model_fields))
            ),
        )
        self._answers.clear()

    def answer(self, path: str, include: str, triggers: Sequence[str]) -> bytes | None:
        """Return the response at a path, or None."""
        if path == "/v1/job" and triggers:
            outcomes = {TriggerId(each): self.triggers[TriggerId(each)] for each in triggers if each in self.triggers}
            return _json(self._job(include).model_copy(update={"triggers": outcomes}))
        if (path, include) not in self._answers:
            views: dict[str, BaseModel | None] = {
                "/v1/job": self._job(include),
                "/v1/checkpoints": self._report.checkpoints,
                "/v1/checkpointing": self._report.checkpointing,
            }
            self._answers[path, include] = _json(views.get(path))
        return self._answers[path, include]

    def _job(self, include: str) -> JobReport:
        return self._report.model_copy(update=dict.fromkeys(_PARTS - {*include.split(",")}))


def _json(view: BaseModel | None) -> bytes | None:
    return None if view is None else view.model_dump_json().encode()
