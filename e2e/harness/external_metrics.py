"""The metrics of drivers as external metrics, which autoscalers of Kubernetes ask for; this machine serves them."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from e2e.harness.cluster import Object, Where
from e2e.harness.namespace import Namespace
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.operator.webhook.reviews import write_certificate

from streamjob_operator.objects.names import COMPONENT_LABEL, DRIVER, METRICS_PORT, NAME_LABEL

JOB_LABEL = "streamjob_io_name"
"""The label by which a series names its StreamJob, as the chart's monitors set it."""

_GROUP, _VERSION = "external.metrics.k8s.io", "v1beta1"
_ROOT = f"/apis/{_GROUP}/{_VERSION}"
_SERVICE = "external-metrics"


@contextmanager
def served_external_metrics(namespace: Namespace, scratch: Path) -> Iterator[None]:
    """Serve all metrics of a namespace's drivers to autoscalers, until the end of the block.

    Args:
        namespace: of the drivers.
        scratch: a directory for the server's certificate.
    """
    host = namespace.cluster.way_back
    write_certificate(scratch, host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(scratch / "tls.crt", scratch / "tls.key")
    server = _Server(namespace, host)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, name="external metrics", daemon=True)
    thread.start()
    try:
        with _registered(namespace, host, server.server_port):
            yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _registered(namespace: Namespace, host: str, port: int) -> Iterator[None]:
    """Let the API server pass requests for the group on to a port of this machine."""
    namespace.create("v1", "Service", _SERVICE, spec={"ports": [{"port": 443, "targetPort": port}]})
    namespace.cluster.create(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": _SERVICE,
                "namespace": namespace.name,
                "labels": {"kubernetes.io/service-name": _SERVICE},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
            "ports": [{"name": "", "port": port, "protocol": "TCP"}],
        }
    )
    where = Where("APIService", f"{_VERSION}.{_GROUP}")
    spec = {
        "group": _GROUP,
        "version": _VERSION,
        "service": {"namespace": namespace.name, "name": _SERVICE},
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    namespace.cluster.create(
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": where.kind, "metadata": {"name": where.name}, "spec": spec}
    )
    try:
        namespace.cluster.wait(where, _is_available, within=60, what="answer of the server")
        yield
    finally:
        # Kubernetes deletes no namespace while a group does not answer.
        namespace.cluster.delete(where)
        namespace.cluster.wait(where, lambda thing: thing is None, within=60, what="end of it")


def _is_available(thing: Object | None) -> bool:
    conditions = ((thing or {}).get("status") or {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Available", "True") for each in conditions)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, namespace: Namespace, host: str) -> None:
        super().__init__((host, 0), _Handler)
        self._namespace = namespace

    def answer(self, target: str) -> Object | None:
        """Return the answer to a request; None if there is nothing at its path."""
        parts = urlsplit(target)
        if parts.path == _ROOT:
            resource = {"name": "*", "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList"}
            resources = [{**resource, "verbs": ["get"]}]
            return {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{_GROUP}/{_VERSION}",
                "resources": resources,
            }
        prefix = f"{_ROOT}/namespaces/{self._namespace.name}/"
        if not parts.path.startswith(prefix):
            return None
        (selector,) = parse_qs(parts.query).get("labelSelector", [""])
        wanted = dict(each.split("=", 1) for each in selector.split(",") if each)
        items = list(self._values(parts.path.removeprefix(prefix), wanted))
        return {"kind": "ExternalMetricValueList", "apiVersion": f"{_GROUP}/{_VERSION}", "metadata": {}, "items": items}

    def _values(self, metric: str, wanted: Mapping[str, str]) -> Iterator[Object]:
        """Yield the series of a metric that have some labels."""
        for pod in self._namespace.all("Pod", f"{COMPONENT_LABEL}={DRIVER}"):
            own = {JOB_LABEL: pod["metadata"]["labels"][NAME_LABEL], "pod": pod["metadata"]["name"]}
            for family in text_string_to_metric_families(_metrics_of(pod)):
                for sample in family.samples:
                    labels = {**sample.labels, **own}
                    if sample.name == metric and wanted.items() <= labels.items():
                        yield {
                            "metricName": metric,
                            "metricLabels": labels,
                            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                            "value": f"{round(sample.value * 1000)}m",
                        }


def _metrics_of(pod: Object) -> str:
    """Return the metrics of a driver; nothing if it does not answer."""
    try:
        return httpx.get(f"http://{pod['status']['podIP']}:{METRICS_PORT}/metrics", timeout=5).text
    except (KeyError, httpx.HTTPError):
        return ""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """Answer a request of the API server."""
        answer = self.server.answer(self.path)
        body = json.dumps(answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the API server asks every few seconds."""
