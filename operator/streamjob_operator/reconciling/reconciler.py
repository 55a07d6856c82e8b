"""One reconcile of a StreamJob: observe, decide, store the status, act.

The status is stored first, based on the version that was read: after a concurrent write nothing is done, and the next
reconciliation reads again. So no action is ever taken for an intent that is not stored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime

from streamjob.telemetry.logs import about
from streamjob_operator.cluster.api import Cluster, Conflict, NotFound
from streamjob_operator.cluster.events import EventRecorder
from streamjob_operator.cluster.kinds import POD, STREAM_JOB, Object
from streamjob_operator.decisions.values.actions import Action
from streamjob_operator.decisions.values.decision import Decision, Resource
from streamjob_operator.decisions.values.observation import Observation
from streamjob_operator.decisions.values.revision import Revision
from streamjob_operator.evaluation.cache import StillEvaluating
from streamjob_operator.evaluation.reading import Resources
from streamjob_operator.machinery.work_queue import WorkLoops
from streamjob_operator.metrics import JobSample, Metrics, ScalingSample
from streamjob_operator.objects.names import ATTEMPT_LABEL, UID_LABEL
from streamjob_operator.reconciling.acting import Actor
from streamjob_operator.reconciling.failing import Failures
from streamjob_operator.reconciling.observing import leaves_orphans
from streamjob_operator.reconciling.tracing import Moves
from streamjob_operator.resources.status import StreamJobStatus

_log = logging.getLogger(__name__)

Observe = Callable[[Object, Resource], Awaitable[Observation]]
"""Looks at all that concerns a StreamJob."""
Decide = Callable[[Resource, Observation], Decision]


@dataclass(slots=True)
class JobReconciler:
    """Reconciles StreamJobs.

    Args:
        wrote: called after each write of a status, with the object that the API returned.
    """

    cluster: Cluster
    resources: Resources
    observe: Observe
    decide: Decide
    act: Actor
    metrics: Metrics
    events: EventRecorder
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    wrote: Callable[[Object], None] = lambda _job: None
    moves: Moves | None = None
    _failures: Failures = field(init=False)
    _unserved: dict[tuple[str, str], tuple[Object, Object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._failures = Failures(STREAM_JOB, self.cluster, self.events, self._stop_drivers, self.now)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        """Reconcile once, and return the seconds until the next time, as `WorkLoops` wants it.

        Raises:
            Exception: it failed; a condition and an event of the StreamJob say why, unless the API server is silent.
        """
        started = time.monotonic()
        with self.metrics.reconciling.track_inprogress():
            try:
                with about(job=name, namespace=namespace):
                    return await self._once(namespace, name)
            except Conflict as error:
                _log.debug("%s/%s was written meanwhile: %s", namespace, name, error)
                return 0.0
            finally:
                self.metrics.reconcile_seconds.observe(time.monotonic() - started)

    async def _once(self, namespace: str, name: str) -> float | None:
        try:
            job = await self.cluster.get(STREAM_JOB, namespace, name)
        except NotFound:
            self.metrics.job(namespace, name, None)
            self._unserved.pop((namespace, name), None)
            self._failures.forget(namespace, name)
            if self.moves is not None:
                self.moves.forget(namespace, name)
            return WorkLoops.GONE
        try:
            requeue = await self._look(job)
        except StillEvaluating as waits:
            _log.debug("%s", waits)
            return None
        except Exception as error:
            await self._failures.note(job, error)
            raise
        if self._failures.text(job) is None:
            return requeue
        # The conditions still say that it failed.
        self._failures.forget(namespace, name)
        return 0.0

    async def _look(self, job: Object) -> float | None:
        resource = await self.resources.read(job)
        seen = await self.observe(job, resource)
        decision = self.decide(resource, seen)
        status = decision.status
        status = status.model_copy(update={"conditions": self._failures.shown(status.conditions, job)})
        job = await self._store(job, status)
        self._measure(resource, status)
        if self.moves is not None:
            self.moves.note(resource, status, self.now())
        for action in decision.actions:
            _log.info("%s/%s: %s", resource.namespace, resource.name, told(action))
            await self.act(job, resource, seen, action)
            self.metrics.actions.labels(type(action).__name__).inc()
        return decision.requeue

    async def _stop_drivers(self, job: Object) -> bool:
        """Have the driver pods of a StreamJob deleted, and return whether none is left that runs."""
        if leaves_orphans(job):
            return True
        meta = job["metadata"]
        pods = await self.cluster.list(POD, meta["namespace"], labels=f"{UID_LABEL}={meta['uid']}")
        drivers = [pod for pod in pods if ATTEMPT_LABEL in (pod["metadata"].get("labels") or {})]
        live = [pod for pod in drivers if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
        for pod in live:
            if not pod["metadata"].get("deletionTimestamp"):
                await self.cluster.delete(POD, meta["namespace"], pod["metadata"]["name"])
        return not live

    async def _store(self, job: Object, status: StreamJobStatus) -> Object:
        key = job["metadata"]["namespace"], job["metadata"]["name"]
        wanted, stored = status.to_dict(), job.get("status") or {}
        # An older definition of the resource lacks fields: values that it does not store are not written repeatedly.
        if wanted == stored or self._unserved.get(key) == (wanted, stored):
            return job
        # The whole status is replaced, so that omitted fields are removed.
        written = await self.cluster.replace(STREAM_JOB, job | {"status": wanted}, subresource="status")
        self.wrote(written)
        self._unserved.pop(key, None)
        if written.get("status") != wanted:
            self._unserved[key] = wanted, written.get("status") or {}
        return written

    def _measure(self, resource: Resource, status: StreamJobStatus) -> None:
        last = status.checkpoint.last_completed
        completed = None if last is None or last.completed is None else last.completed.timestamp()
        sample = JobSample(status.lifecycle_state.value, completed, _scaling(status))
        self.metrics.job(resource.namespace, resource.name, sample)


def _scaling(status: StreamJobStatus) -> ScalingSample | None:
    scaling = status.autoscaling
    if scaling is None:
        return None
    last = scaling.last_scaling
    return ScalingSample(
        slots=status.replicas,
        recommended=scaling.recommended,
        arrival_rate=scaling.arrival_rate,
        capacity=scaling.capacity,
        lag=scaling.lag_seconds,
        moved=None if last is None else (last.time.timestamp(), last.means.value),
    )


def told(action: Action) -> str:
    """Return the log text of an action, without a revision's content, because a spec may contain secrets."""
    values = {each.name: getattr(action, each.name) for each in fields(action)}
    shown = [f"{key}={value.name if isinstance(value, Revision) else value}" for key, value in values.items()]
    return f"{type(action).__name__}({', '.join(shown)})"
