"""OpenTelemetry's collector, and the spans and metrics that have passed through it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.servers.go_tools import COLLECTOR, ToolMissing
from tests.servers.process import LOOPBACK, ServerMissing, ServerProcess

_CONFIG = """
receivers:
  otlp:
    protocols:
      http: {{endpoint: "{host}:{port}"}}
exporters:
  otlp_http:
    endpoint: {target}
    encoding: json
    compression: none
    sending_queue: {{enabled: false}}
    retry_on_failure: {{enabled: false}}
service:
  telemetry:
    metrics: {{level: none}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [otlp_http]}}
    metrics: {{receivers: [otlp], exporters: [otlp_http]}}
"""


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span; `start` and `end` are in seconds since 1970, ids are hex digits, no parent is an empty text."""

    name: str
    trace: str
    id: str
    parent: str
    start: float
    end: float
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    failure: str | None


@dataclass(frozen=True, slots=True)
class ReceivedMetric:
    """A metric, as OTLP's JSON has it, and the attributes of its process."""

    name: str
    content: Mapping[str, Any]
    resource: Mapping[str, Any]


@dataclass
class Received:
    """The telemetry that has passed through a collector."""

    spans: list[ReceivedSpan] = field(default_factory=list)
    metrics: list[ReceivedMetric] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, condition: Callable[[Sequence[ReceivedSpan]], bool], seconds: float) -> Sequence[ReceivedSpan]:
        """Return the spans once they fulfil a condition."""
        with self.changed:
            met = self.changed.wait_for(lambda: condition(self.spans), seconds)
            assert met, f"the collector has received {sorted(each.name for each in self.spans)}"
            return list(self.spans)

    def take(self, path: str, document: Mapping[str, Any]) -> None:
        """Note a request of the collector."""
        with self.changed:
            for block in document.get("resourceSpans", ()):
                about = _attributes(block["resource"].get("attributes", ()))
                for scope in block["scopeSpans"]:
                    self.spans += [_span(each, about) for each in scope["spans"]]
            for block in document.get("resourceMetrics", ()):
                about = _attributes(block["resource"].get("attributes", ()))
                for scope in block["scopeMetrics"]:
                    self.metrics += [ReceivedMetric(each["name"], each, about) for each in scope["metrics"]]
            self.changed.notify_all()


def _span(span: Mapping[str, Any], about: Mapping[str, Any]) -> ReceivedSpan:
    status = span.get("status", {})
    return ReceivedSpan(
        name=span["name"],
        trace=span["traceId"],
        id=span["spanId"],
        parent=span.get("parentSpanId", ""),
        start=int(span["startTimeUnixNano"]) / 1e9,
        end=int(span["endTimeUnixNano"]) / 1e9,
        attributes=_attributes(span.get("attributes", ())),
        resource=about,
        failure=status.get("message", "") if status.get("code") == 2 else None,
    )


def _attributes(listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = {}
    for each in listed:
        ((kind, value),) = each["value"].items()
        found[each["key"]] = int(value) if kind == "intValue" else value
    return found


class _Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, received: Received, *arguments: Any) -> None:
        self._received = received
        super().__init__(*arguments)

    def do_POST(self) -> None:
        """Take a request of the collector."""
        self._received.take(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *arguments: Any) -> None:
        """Write nothing."""


class Collector(ServerProcess):
    """A collector for OTLP over HTTP; `received` has what has passed through it."""

    kind: ClassVar[str] = "collector"

    def __enter__(self) -> Self:
        self.received = Received()
        self._sink = ThreadingHTTPServer((LOOPBACK, 0), partial(_Sink, self.received))
        threading.Thread(target=self._sink.serve_forever, daemon=True).start()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._sink.shutdown()
        self._sink.server_close()

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://{self.host}:{self.port}"

    def make(self) -> None:
        """Write its configuration. Raises ServerMissing."""
        target = f"http://{LOOPBACK}:{self._sink.server_port}"
        config = _CONFIG.format(host=self.host, port=self.port, target=target)
        (self.directory / "config.yaml").write_text(config, encoding="utf-8")

    def command(self) -> list[str]:
        """Return the command that starts it."""
        try:
            return [str(COLLECTOR.find()), "--config", f"file:{self.directory / 'config.yaml'}"]
        except ToolMissing as error:
            raise ServerMissing(str(error)) from None

    def answers(self) -> bool:
        """Return whether it accepts connections."""
        with socket.socket() as client:
            client.settimeout(1.0)
            return client.connect_ex((self.host, self.port)) == 0
