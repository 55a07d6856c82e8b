"""Sends a driver's telemetry by OTLP: the traces and metrics of its job."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from types import TracebackType
from typing import TYPE_CHECKING, Self

from streamjob.ids import Attempt, ChainUid, Owner, TriggerId
from streamjob.protocol.coordination.triggers import TriggerState
from streamjob.protocol.log.records import JobId
from streamjob.telemetry.process import open_telemetry
from streamjob.telemetry.spans import TRACEPARENT, Attribute, SpanContext
from streamjob_runtime.job.coordination import Coordination
from streamjob_runtime.monitoring.query_progress import BatchProgress
from streamjob_runtime.monitoring.traces.recorder import Traced, TraceRecorder

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class Reporting:
    """Sends traces and metrics of a job, if the environment names a receiver; a context manager ends it.

    Args:
        attempt: the controller's number for this pod.

    Raises:
        InvalidTelemetry: a variable of the environment has no usable value.
    """

    def __init__(self, job: JobId, attempt: Attempt, owner: Owner, environment: Mapping[str, str]) -> None:
        self._coordination: Coordination | None = None
        self._telemetry = open_telemetry(environment, _about_process(job, attempt, owner))
        self.recorder: TraceRecorder | None = None
        if self._telemetry is not None and self._telemetry.settings.traces:
            traced = Traced(
                about=_about(job, attempt),
                process=owner,
                parent=SpanContext.parse(environment.get(TRACEPARENT)),
                batches=self._telemetry.settings.traced_batches,
            )
            self.recorder = TraceRecorder(traced, self._telemetry.put, self._state_of, random.random)

    def begin(self, coordination: Coordination, collect: Callable[[], Iterable[Metric]], started: float) -> None:
        """Follow the job.

        Args:
            started: when the process began, in seconds since 1970.
        """
        self._coordination = coordination
        if self.recorder is not None:
            coordination.on_handled = self.recorder.handled
        if self._telemetry is not None:
            self._telemetry.send_metrics(collect, started)

    def emitted(self, chain: ChainUid, batch: BatchProgress) -> None:
        """Record a batch that has ended."""
        if self.recorder is not None:
            self.recorder.emitted(chain, batch)

    def expect(self, trigger_id: TriggerId, traceparent: str) -> None:
        """Make the span that a `traceparent` names the parent of the snapshot that answers a request."""
        parent = SpanContext.parse(traceparent)
        if self.recorder is not None and parent is not None:
            self.recorder.expect(trigger_id, parent)

    def _state_of(self, trigger_id: TriggerId) -> TriggerState | None:
        status = None if self._coordination is None else self._coordination.request(trigger_id)
        return None if status is None else status.state

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send the rest, within seconds."""
        if self._telemetry is not None:
            self._telemetry.close()


def _about(job: JobId, attempt: Attempt) -> dict[str, Attribute]:
    return {"streamjob.job": job.name, "streamjob.namespace": job.namespace, "streamjob.attempt": attempt}


def _about_process(job: JobId, attempt: Attempt, owner: Owner) -> dict[str, Attribute]:
    return {
        "service.name": job.name,
        "service.namespace": job.namespace,
        "service.instance.id": owner,
        "service.version": version("streamjob"),
        **_about(job, attempt),
    }
