"""Tests of the settings that the environment has."""

from __future__ import annotations

import pytest

from streamjob.telemetry.settings import InvalidTelemetry, TelemetrySettings

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


def settings(**environment: str) -> TelemetrySettings:
    return TelemetrySettings.from_environment({**ENDPOINT, **environment})


def test_nothing_is_sent_without_an_endpoint() -> None:
    assert TelemetrySettings.from_environment({}) == TelemetrySettings(traces=False, metrics=False)


def test_an_endpoint_turns_on_traces_and_metrics() -> None:
    assert settings() == TelemetrySettings(traces=True, metrics=True, traced_batches=0.01, metric_interval=60.0)


def test_a_signal_may_have_an_endpoint_of_its_own() -> None:
    only = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://traces/v1/traces"}

    assert TelemetrySettings.from_environment(only) == TelemetrySettings(traces=True, metrics=False)


def test_opentelemetrys_variables_turn_signals_off() -> None:
    assert not settings(OTEL_TRACES_EXPORTER="none").traces
    assert not settings(OTEL_METRICS_EXPORTER="none").metrics
    assert settings(OTEL_SDK_DISABLED="true") == TelemetrySettings()


def test_interval_and_share_are_set_by_variables() -> None:
    found = settings(OTEL_METRIC_EXPORT_INTERVAL="5000", STREAMJOB_TRACED_BATCHES="0.5")

    assert (found.metric_interval, found.traced_batches) == (5.0, 0.5)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://collector"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
        ("STREAMJOB_TRACED_BATCHES", "1.5"),
        ("STREAMJOB_TRACED_BATCHES", "nan"),
    ],
)
def test_an_unusable_value_is_an_error_that_names_the_variable(variable: str, value: str) -> None:
    with pytest.raises(InvalidTelemetry, match=variable):
        settings(**{variable: value})


def test_a_password_in_an_unusable_endpoint_is_not_shown() -> None:
    with pytest.raises(InvalidTelemetry) as raised:
        settings(OTEL_EXPORTER_OTLP_ENDPOINT="ftp://user:secret@collector")

    assert "secret" not in str(raised.value)
