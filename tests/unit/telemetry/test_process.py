"""Tests of whether a process sends anything."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamjob.telemetry.process import open_telemetry
from streamjob.telemetry.settings import InvalidTelemetry

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


def test_without_an_endpoint_nothing_is_sent_and_opentelemetry_is_not_loaded() -> None:
    program = (
        "import sys; from streamjob.telemetry.process import open_telemetry; "
        "import streamjob_runtime.process.reporting, streamjob_operator.main; "
        "assert open_telemetry({}, {}) is None; "
        "sys.exit(any(name.partition('.')[0] == 'opentelemetry' for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_missing_extra_is_a_warning_that_names_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "streamjob.telemetry.otlp", None)

    assert open_telemetry(ENDPOINT, {}) is None
    assert "streamjob[otel]" in caplog.text


def test_an_unusable_setting_is_an_error_before_anything_starts() -> None:
    with pytest.raises(InvalidTelemetry):
        open_telemetry({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {})


def test_traces_without_metrics_send_no_metrics() -> None:
    telemetry = open_telemetry({**ENDPOINT, "OTEL_METRICS_EXPORTER": "none"}, {})
    assert telemetry is not None

    def never() -> list[object]:
        raise AssertionError("metrics are collected")

    telemetry.send_metrics(never, 0.0)  # type: ignore[arg-type]
    telemetry.put([])
    telemetry.close()
