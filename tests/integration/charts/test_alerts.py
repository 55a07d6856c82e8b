"""The alert rules of the chart fire when they should, by the judgement of Prometheus' own `promtool`."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.charts.rendered import CHART

ALERTS = CHART / "files" / "alerts.yaml"
JOB = 'namespace="orders", pod="views-1", streamjob_io_name="views"'
PROMTOOL = shutil.which("promtool")

pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on the PATH; Debian has it in `prometheus`")

Series = dict[str, str]
"""Values by series, a minute apart, in promtool's notation: `1+2x3` is 1, 3, 5, 7."""


@dataclass(frozen=True)
class Case:
    """An alert, series that fire it after some minutes, and series that leave it silent."""

    alert: str
    fires: Series
    silent: Series
    minutes: int = 30
    others: Series = field(default_factory=dict)


def of(metric: str, **labels: str) -> str:
    """Return a series of a driver."""
    return f"{metric}{{{', '.join([JOB, *(f'{name}={json}' for name, json in _quoted(labels))])}}}"


def _quoted(labels: dict[str, str]) -> list[tuple[str, str]]:
    return [(name.rstrip("_"), f'"{value}"') for name, value in labels.items()]


AGE, INTERVAL, DURATION = (
    of(f"streamjob_{name}_seconds")
    for name in ("last_checkpoint_age", "checkpoint_interval", "last_checkpoint_duration")
)
FAILED = of("streamjob_checkpoints_total", outcome="failed")
STATE = of("streamjob_state", state="RESTORING")
LAG = of("streamjob_source_lag_seconds", source="orders")
WAITING = of("streamjob_sink_waiting_batches", sink="report")
PUBLISHED = of("streamjob_sink_last_published_timestamp_seconds", sink="report")
STORE = of("streamjob_store_failures_total", verb="put")
LEADER = 'streamjob_controller_leader{pod="controller-1"}'
ERRORS = 'streamjob_controller_reconcile_errors_total{error="ApiError"}'
JOBS = 'streamjob_controller_jobs{exported_namespace="orders", state="FAILED"}'

CASES = [
    Case("CheckpointTooOld", {AGE: "0+60x30"}, {AGE: "100x30"}, others={INTERVAL: "10x30", DURATION: "1x30"}),
    Case("CheckpointTooOld", {AGE: "2000x30"}, {AGE: "700x30"}, others={INTERVAL: "300x30", DURATION: "1x30"}),
    Case("CheckpointTooOld", {AGE: "500x30"}, {AGE: "390x30"}, others={INTERVAL: "10x30", DURATION: "100x30"}),
    Case("CheckpointsFailing", {FAILED: "0+1x30"}, {FAILED: "0x15 1x15"}),
    Case("Failed", {JOBS: "0x10 1x20"}, {JOBS: "0x30"}),
    Case("RestartLoop", {of("streamjob_restarts_total"): "0+1x30"}, {of("streamjob_restarts_total"): "0x20 1x5 2x5"}),
    Case("NotRunning", {STATE: "1x30"}, {STATE: "0x20 1x9"}),
    Case("FallingBehind", {LAG: "0+30x60"}, {LAG: "3600-30x60"}, minutes=50),
    Case(
        "Saturated",
        {of("streamjob_busy_ratio", chain="views"): "0.99x60"},
        {of("streamjob_busy_ratio", chain="views"): "0.9x60"},
        minutes=50,
    ),
    Case(
        "WatermarkHeldBack",
        {of("streamjob_watermark_held_back", chain="views", input="clicks"): "1x30"},
        {of("streamjob_watermark_held_back", chain="views", input="clicks"): "1x20 0x10"},
    ),
    Case("SinkNotPublishing", {WAITING: "3x30"}, {WAITING: "0x30"}, others={PUBLISHED: "0x30"}),
    Case("SinkNotPublishing", {PUBLISHED: "0x30"}, {PUBLISHED: "0+60x30"}, others={WAITING: "3x30"}),
    Case("StoreErrors", {STORE: "0+2x30"}, {STORE: "0x25 2x5"}),
    Case("ControllerAbsent", {LEADER: "0x30"}, {LEADER: "1x30"}),
    Case("ControllerErrors", {ERRORS: "0+1x60"}, {ERRORS: "0+1x5 5x55"}, minutes=50),
]


def _test(case: Case, series: Series, firing: int) -> dict[str, Any]:
    alerts = f'ALERTS{{alertname="StreamJob{case.alert}", alertstate="firing"}}'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in {**series, **case.others}.items()],
        "promql_expr_test": [
            {
                "expr": f"count({alerts}) or vector(0)",
                "eval_time": f"{case.minutes}m",
                "exp_samples": [{"labels": "{}", "value": firing}],
            }
        ],
    }


def _promtool(*arguments: str | Path) -> None:
    assert PROMTOOL is not None
    result = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_prometheus_reads_the_rules() -> None:
    _promtool("check", "rules", ALERTS)


@pytest.mark.parametrize("case", CASES, ids=[f"{number} {case.alert}" for number, case in enumerate(CASES)])
def test_an_alert_fires_and_is_silent_otherwise(case: Case, tmp_path: Path) -> None:
    tests = [_test(case, case.fires, 1), _test(case, case.silent, 0)]
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))

    _promtool("test", "rules", file)


def test_every_alert_has_a_case() -> None:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]

    assert {f"StreamJob{case.alert}" for case in CASES} == {rule["alert"] for rule in group["rules"]}
