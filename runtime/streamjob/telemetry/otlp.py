"""Sends spans and metrics by OTLP over HTTP with OpenTelemetry's exporters; needs the extra `otel`.

The exporters read `OTEL_EXPORTER_OTLP_*` themselves: endpoints, headers, certificates, compression and timeouts.
`OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override what a process says about itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext as OtelContext
from opentelemetry.trace import Status, StatusCode, TraceFlags

from streamjob.telemetry.prometheus import Family, HistogramPoint, Kind, Point
from streamjob.telemetry.spans import Attribute, Span, SpanContext

_SCOPE = "streamjob"
_EXPORTERS = "opentelemetry.exporter.otlp"
"""The exporters' logger; others are those of a job that uses OpenTelemetry itself."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class _LastMessage(logging.Handler):
    """Keeps the last message of the exporters, which would log one for each failed request."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class NotTaken(Exception):
    """The receiver did not take what was sent."""


class Otlp:
    """Sends the spans and metrics of one process.

    Args:
        about: attributes of the process.
    """

    def __init__(self, about: Mapping[str, Attribute]) -> None:
        self._said = _LastMessage()
        logger = logging.getLogger(_EXPORTERS)
        logger.propagate = False
        logger.addHandler(self._said)
        self._resource = Resource.create(dict(about)).merge(OTELResourceDetector().detect())
        self._scope = InstrumentationScope(_SCOPE, version("streamjob"))
        self._spans = OTLPSpanExporter()
        self._metrics = OTLPMetricExporter()

    def send_spans(self, spans: Sequence[Span]) -> None:
        """Send spans. Raises NotTaken, or an error of the network."""
        if self._spans.export([self._span(each) for each in spans]) is not SpanExportResult.SUCCESS:
            raise NotTaken(self._said.text or "no reason is known")

    def send_metrics(self, families: Iterable[Family], started: float, now: float) -> None:
        """Send all metrics.

        Args:
            families: the metrics.
            started: when their counters began, in seconds since 1970.
            now: the time of their values, in seconds since 1970.

        Raises:
            NotTaken: the receiver did not take them.
        """
        metrics = [_metric(each, _ns(started), _ns(now)) for each in families if each.points or each.histograms]
        scope = ScopeMetrics(self._scope, metrics, "")
        data = MetricsData([ResourceMetrics(self._resource, [scope], "")])
        if self._metrics.export(data) is not MetricExportResult.SUCCESS:
            raise NotTaken(self._said.text or "no reason is known")

    def close(self) -> None:
        """End requests that are tried again, and close the connections."""
        self._spans.shutdown()  # type: ignore[no-untyped-call]
        self._metrics.shutdown()

    def _span(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=_context(span.context),
            parent=None if span.parent is None else _context(span.parent),
            resource=self._resource,
            attributes=dict(span.attributes),
            status=Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, span.error),
            start_time=_ns(span.start),
            end_time=_ns(span.end),
            instrumentation_scope=self._scope,
        )


def _context(context: SpanContext) -> OtelContext:
    return OtelContext(context.trace_id, context.span_id, is_remote=False, trace_flags=_SAMPLED)


def _ns(seconds: float) -> int:
    # Microseconds: a float of seconds since 1970 has no more.
    return round(seconds * 1_000_000) * 1000


def _metric(family: Family, started: int, now: int) -> Metric:
    data: Gauge | Sum | Histogram
    match family.kind:
        case Kind.HISTOGRAM:
            points = [_histogram(each, started, now) for each in family.histograms]
            data = Histogram(points, AggregationTemporality.CUMULATIVE)
        case Kind.COUNTER:
            numbers = [_number(each, started, now) for each in family.points]
            data = Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        case Kind.GAUGE:
            data = Gauge([_number(each, 0, now) for each in family.points])
    return Metric(family.name, family.description, family.unit, data)


def _number(point: Point, started: int, now: int) -> NumberDataPoint:
    return NumberDataPoint(dict(point.labels), started, now, point.value)


def _histogram(point: HistogramPoint, started: int, now: int) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes=dict(point.labels),
        start_time_unix_nano=started,
        time_unix_nano=now,
        count=sum(point.counts),
        sum=point.sum,
        bucket_counts=point.counts,
        explicit_bounds=point.bounds,
        # Prometheus' histograms do not know them, and the protocol does not require them.
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )
