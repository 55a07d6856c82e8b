"""The environment variables that make the pods of a job report to other systems.

A pod's own `env` overrides them. Without settings there are none, so that the pods stay as they are.
"""

from __future__ import annotations

from streamjob.telemetry.logs import VARIABLE, LogFormat
from streamjob.telemetry.settings import ENDPOINT, METRIC_INTERVAL, TRACED_BATCHES
from streamjob_operator.objects.names import Object
from streamjob_operator.resources.parts import Observability


def of_driver(settings: Observability) -> list[Object]:
    """Return the variables of a driver's container."""
    otlp = settings.otlp
    if otlp.endpoint is None:
        return of_executor(settings)
    own = {
        ENDPOINT: otlp.endpoint,
        TRACED_BATCHES: f"{otlp.traced_batches:g}",
        METRIC_INTERVAL: f"{otlp.metrics_interval * 1000:.0f}",
    }
    return [*of_executor(settings), *({"name": name, "value": value} for name, value in own.items())]


def of_executor(settings: Observability) -> list[Object]:
    """Return the variables of an executor's container."""
    if settings.log_format is LogFormat.TEXT:
        return []
    return [{"name": VARIABLE, "value": settings.log_format.value}]
