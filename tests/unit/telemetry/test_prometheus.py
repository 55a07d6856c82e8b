"""Tests of the metrics as values, and of their form in OTLP."""

from __future__ import annotations

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from streamjob.telemetry.otlp import NotTaken, Otlp
from streamjob.telemetry.prometheus import Family, HistogramPoint, Kind, Point, families


def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge("lag_seconds", "How late.", ["chain"], registry=made).labels("a").set(2.5)
    counter = Counter("sent_bytes", "How much.", registry=made)
    counter.inc(7)
    histogram = Histogram("took_seconds", "How long.", ["verb"], buckets=(1, 2), registry=made)
    for value in (0.5, 1.5, 1.6, 9):
        histogram.labels("get").observe(value)
    return made


def test_every_value_of_the_text_form_is_there() -> None:
    assert list(families(registry().collect())) == [
        Family("lag_seconds", "How late.", "s", Kind.GAUGE, (Point({"chain": "a"}, 2.5),)),
        Family("sent_bytes_total", "How much.", "By", Kind.COUNTER, (Point({}, 7.0),)),
        Family(
            "took_seconds",
            "How long.",
            "s",
            Kind.HISTOGRAM,
            histograms=(HistogramPoint({"verb": "get"}, (1.0, 2.0), (1, 2, 1), 12.6),),
        ),
    ]


def test_names_are_those_of_the_text_form() -> None:
    made = registry()
    text = generate_latest(made).decode()

    for family in families(made.collect()):
        assert f"\n{family.name}" in text


def test_a_histogram_without_labels_or_values_has_empty_buckets() -> None:
    made = CollectorRegistry()
    Histogram("took", "How long.", buckets=(1,), registry=made)

    (family,) = families(made.collect())

    assert family.histograms == (HistogramPoint({}, (1.0,), (0, 0), 0.0),)


def test_a_bool_is_a_number() -> None:
    (family,) = families([GaugeMetricFamily("flag", "Whether.", value=True)])

    assert [(type(each.value), each.value) for each in family.points] == [(float, 1.0)]


class Exporter:
    """Keeps what is exported."""

    def __init__(self, result: MetricExportResult) -> None:
        self.result = result
        self.sent: list[MetricsData] = []

    def export(self, data: MetricsData) -> MetricExportResult:
        self.sent.append(data)
        return self.result


def otlp(monkeypatch: pytest.MonkeyPatch, result: MetricExportResult) -> tuple[Otlp, Exporter]:
    exporter = Exporter(result)
    made = Otlp({"service.name": "flights", "streamjob.attempt": 3})
    monkeypatch.setattr(made, "_metrics", exporter)
    return made, exporter


def test_metrics_keep_their_values_in_otlp(monkeypatch: pytest.MonkeyPatch) -> None:
    made, exporter = otlp(monkeypatch, MetricExportResult.SUCCESS)

    made.send_metrics(families(registry().collect()), 100.0, 160.5)

    (resource,) = encode_metrics(exporter.sent[0]).resource_metrics
    about = {each.key: each.value for each in resource.resource.attributes}
    assert (about["service.name"].string_value, about["streamjob.attempt"].int_value) == ("flights", 3)
    lag, sent, took = resource.scope_metrics[0].metrics
    assert (lag.name, lag.unit, lag.gauge.data_points[0].as_double) == ("lag_seconds", "s", 2.5)
    assert (sent.name, sent.sum.is_monotonic, sent.sum.data_points[0].as_double) == ("sent_bytes_total", True, 7)
    assert sent.sum.data_points[0].start_time_unix_nano == 100_000_000_000
    point = took.histogram.data_points[0]
    assert (list(point.bucket_counts), list(point.explicit_bounds)) == ([1, 2, 1], [1, 2])
    assert (point.count, point.sum, point.time_unix_nano) == (4, 12.6, 160_500_000_000)
    assert not point.HasField("min")


def test_the_environment_overrides_what_a_process_says_about_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "other")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=shop")
    made, exporter = otlp(monkeypatch, MetricExportResult.SUCCESS)

    made.send_metrics(families(registry().collect()), 100.0, 160.5)

    about = exporter.sent[0].resource_metrics[0].resource.attributes
    assert (about["service.name"], about["team"], about["streamjob.attempt"]) == ("other", "shop", 3)


def test_metrics_that_are_not_taken_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = otlp(monkeypatch, MetricExportResult.FAILURE)

    with pytest.raises(NotTaken):
        made.send_metrics(families(registry().collect()), 100.0, 160.5)
