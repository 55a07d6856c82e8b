"""The traces and metrics that a process sends, from its start to its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from streamjob.telemetry.prometheus import families
from streamjob.telemetry.sending import Outbox, Repeated
from streamjob.telemetry.settings import TelemetrySettings
from streamjob.telemetry.spans import Attribute, Span

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from streamjob.telemetry.otlp import Otlp

_CLOSE = 3.0

log = logging.getLogger("streamjob")


class Telemetry:
    """Sends what a process reports about itself.

    Args:
        settings: what is sent.
        otlp: sends it.
    """

    def __init__(self, settings: TelemetrySettings, otlp: Otlp) -> None:
        self.settings = settings
        self._otlp = otlp
        self._spans: Outbox[Span] | None = Outbox("spans", otlp.send_spans) if settings.traces else None
        self._metrics: Repeated | None = None

    def put(self, spans: Sequence[Span]) -> None:
        """Queue spans; never waits. They are dropped if traces are off or the queue is full."""
        if self._spans is not None:
            self._spans.put(spans)

    def send_metrics(self, collect: Callable[[], Iterable[Metric]], started: float) -> None:
        """Send the metrics of a Prometheus registry from now on, if metrics are on.

        Args:
            collect: returns the metrics with their current values.
            started: when the process began, in seconds since 1970.
        """
        if self.settings.metrics:

            def send() -> None:
                self._otlp.send_metrics(families(collect()), started, time.time())

            self._metrics = Repeated("metrics", send, self.settings.metric_interval)

    def close(self) -> None:
        """Send the rest, within seconds."""
        senders = [each for each in (self._metrics, self._spans) if each is not None]
        until = time.monotonic() + _CLOSE
        for each in senders:
            each.closing()
        for each in senders:
            each.close(max(0.0, until - time.monotonic()))
        self._otlp.close()


def open_telemetry(environment: Mapping[str, str], about: Mapping[str, Attribute]) -> Telemetry | None:
    """Return what sends traces and metrics; None if the environment names no receiver, or the extra is missing.

    A missing extra is no error: platforms set OpenTelemetry's variables in all pods.

    Args:
        environment: the environment of the process.
        about: attributes of the process.

    Raises:
        InvalidTelemetry: a variable has no usable value.
    """
    settings = TelemetrySettings.from_environment(environment)
    if not (settings.traces or settings.metrics):
        return None
    try:
        from streamjob.telemetry.otlp import Otlp
    except ImportError as error:
        log.warning(
            "No traces or metrics are sent by OTLP, although the environment names a receiver: %s. "
            "Install the extra: pip install 'streamjob[otel]'",
            error,
        )
        return None
    return Telemetry(settings, Otlp(about))
