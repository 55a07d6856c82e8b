"""Where traces and metrics are sent, from the environment variables that OpenTelemetry defines.

The exporters themselves read headers, certificates and timeouts (`OTEL_EXPORTER_OTLP_HEADERS` and so on), so that no
object of ours has a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from streamjob.errors import InvalidInput

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACED_BATCHES = "STREAMJOB_TRACED_BATCHES"
METRIC_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_PROTOCOL = "http/protobuf"
_SHARE = 0.01
_INTERVAL = 60.0
_MS = 1000


class InvalidTelemetry(InvalidInput):
    """A variable for traces or metrics has no usable value."""


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """The telemetry that a process sends.

    Args:
        traces: whether it sends traces.
        metrics: whether it sends metrics.
        traced_batches: the share of batches with a trace, 0 to 1.
        metric_interval: seconds between two exports of the metrics.
    """

    traces: bool = False
    metrics: bool = False
    traced_batches: float = _SHARE
    metric_interval: float = _INTERVAL

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> TelemetrySettings:
        """Return the settings.

        Raises:
            InvalidTelemetry: a variable has no usable value.
        """
        if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return cls()
        most = 86_400_000.0
        return cls(
            traces=_sends(environment, "TRACES"),
            metrics=_sends(environment, "METRICS"),
            traced_batches=_number(environment, TRACED_BATCHES, _SHARE, least=0.0, most=1.0),
            metric_interval=_number(environment, METRIC_INTERVAL, _INTERVAL * _MS, least=100.0, most=most) / _MS,
        )


def _sends(environment: Mapping[str, str], signal: str) -> bool:
    """Return whether a signal is sent: it has an endpoint, and OpenTelemetry's variables do not turn it off."""
    own = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
    name = own if environment.get(own) else ENDPOINT
    endpoint = environment.get(name, "")
    if not endpoint or environment.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() == "none":
        return False
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidTelemetry(
            f"{name} is {_without_user(endpoint)!r}, which is no URL of a collector",
            "write the collector's address for OTLP over HTTP, such as http://collector:4318",
        )
    for variable in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := environment.get(variable):
            if protocol != _PROTOCOL:
                raise InvalidTelemetry(
                    f"{variable} is {protocol!r}, and streamjob sends OTLP as {_PROTOCOL} only",
                    f"set it to {_PROTOCOL} and {name} to the collector's port for HTTP, by default 4318",
                )
            break
    return True


def _without_user(endpoint: str) -> str:
    return endpoint.rpartition("@")[2]


def _number(environment: Mapping[str, str], name: str, default: float, *, least: float, most: float) -> float:
    text = environment.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise InvalidTelemetry(f"{name} is {text!r}", f"write a number from {least:g} to {most:g}")
    return value
