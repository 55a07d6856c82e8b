"""The Grafana dashboards of the chart, generated from the references of the metrics.

A panel names metrics. Its description comes from the references, so that no panel can name a metric that does not
exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REFERENCES = [Path(__file__).parents[1] / "docs" / "reference" / name for name in ("metrics.md", "controller.md")]
_ROW = re.compile(r"^\| `(streamjob_[a-z_]+)` \| \w+ \| .*? \| (.*?) \|$", re.MULTILINE)
_METRIC = re.compile(r"\b(streamjob_(?!io_)[a-z_]+)(?:\{([^}]*)\})?")
_OF_CONTROLLER = "streamjob_controller_"
_PARTS_OF_HISTOGRAM = re.compile(r"_(bucket|count|sum)$")
_UNITS = {
    "_timestamp_seconds": "dateTimeAsIso",
    "_seconds": "s",
    "_bytes": "bytes",
    "_ratio": "percentunit",
}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_RATE = "[$__rate_interval]"
_QUANTILE = "histogram_quantile(0.99, sum by ({by}) (rate({metric}_bucket[$__rate_interval])))"
_COLUMNS = 24


class UnknownMetric(LookupError):
    """A panel names a metric that the references do not have."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel.

    Args:
        title: its title.
        queries: expressions without the dashboard's selection, each with the legend of its series.
        kind: Grafana's type of panel.
        width: of 24 columns.
        unit: Grafana's unit; empty for that of the first metric.
    """

    title: str
    queries: Sequence[tuple[str, str]]
    kind: str = "timeseries"
    width: int = 8
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard.

    Args:
        uid: its id in Grafana.
        title: its title.
        one_job: whether it shows a single job.
        rows: panels by the title of their row.
    """

    uid: str
    title: str
    one_job: bool
    rows: Mapping[str, Sequence[Panel]]


_JOB = "{{namespace}}/{{streamjob_io_name}}"
_BY_JOB = "by (namespace, streamjob_io_name)"

DASHBOARDS = (
    Dashboard(
        "streamjobs",
        "StreamJobs",
        one_job=False,
        rows={
            "Jobs": (
                Panel(
                    "Jobs by state",
                    [("sum by (state) (streamjob_controller_jobs)", "{{state}}")],
                    "stat",
                ),
                Panel(
                    "State of the drivers",
                    [("max by (namespace, streamjob_io_name, state) (streamjob_state) == 1", _JOB + " {{state}}")],
                ),
                Panel("Restarts in an hour", [(f"sum {_BY_JOB} (increase(streamjob_restarts_total[1h]))", _JOB)]),
            ),
            "Load": (
                Panel("Lag", [(f"max {_BY_JOB} (streamjob_source_lag_seconds)", _JOB)]),
                Panel(
                    "Records in",
                    [(f"sum {_BY_JOB} (rate(streamjob_records_in_total{_RATE}))", _JOB)],
                    unit="reqps",
                ),
                Panel("Busiest chain", [(f"max {_BY_JOB} (streamjob_busy_ratio)", _JOB)]),
            ),
            "Checkpoints": (
                Panel("Age of the last checkpoint", [("streamjob_last_checkpoint_age_seconds", _JOB)]),
                Panel("Duration of the last checkpoint", [("streamjob_last_checkpoint_duration_seconds", _JOB)]),
                Panel(
                    "Failed checkpoints in an hour",
                    [('increase(streamjob_checkpoints_total{outcome="failed"}[1h])', _JOB)],
                ),
                Panel("Size of the snapshots", [("streamjob_last_checkpoint_state_size_bytes", _JOB)]),
                Panel(
                    "Failures of the store in an hour",
                    [(f"sum {_BY_JOB} (increase(streamjob_store_failures_total[1h]))", _JOB)],
                ),
                Panel(
                    "Time since the last publication",
                    [
                        (
                            f"time() - min {_BY_JOB} (streamjob_sink_last_published_timestamp_seconds)",
                            _JOB,
                        )
                    ],
                    unit="s",
                ),
            ),
            "Automatic scaling": (
                Panel("Task slots", [("streamjob_controller_autoscaling_slots", "{{exported_namespace}}/{{name}}")]),
                Panel(
                    "Task slots that fit the load",
                    [("streamjob_controller_autoscaling_recommended_slots", "{{exported_namespace}}/{{name}}")],
                ),
                Panel(
                    "Moves in a day",
                    [
                        (
                            "sum without (pod, instance) (increase(streamjob_controller_autoscaling_moves_total[1d]))",
                            "{{exported_namespace}}/{{name}} {{means}}",
                        )
                    ],
                ),
            ),
            "Controller": (
                Panel("Leaders", [("streamjob_controller_leader", "{{pod}}")]),
                Panel(
                    "Errors of reconciliations",
                    [(f"sum by (error) (rate(streamjob_controller_reconcile_errors_total{_RATE}))", "{{error}}")],
                ),
                Panel(
                    "Duration of reconciliations, 99 %",
                    [
                        (
                            _QUANTILE.format(by="le", metric="streamjob_controller_reconcile_seconds"),
                            "99 %",
                        )
                    ],
                ),
                Panel("Lag of the watch", [("streamjob_controller_watch_lag_seconds", "{{pod}}")]),
                Panel(
                    "Requests to Kubernetes, 99 %",
                    [
                        (
                            _QUANTILE.format(by="le, verb", metric="streamjob_controller_kubernetes_request_seconds"),
                            "{{verb}}",
                        )
                    ],
                ),
                Panel(
                    "Requests to drivers, 99 %",
                    [
                        (
                            _QUANTILE.format(by="le, call", metric="streamjob_controller_control_request_seconds"),
                            "{{call}}",
                        )
                    ],
                ),
            ),
        },
    ),
    Dashboard(
        "streamjob",
        "StreamJob",
        one_job=True,
        rows={
            "Now": (
                Panel("State", [("streamjob_state == 1", "{{state}}")], "stat", 4),
                Panel("Lag", [("max(streamjob_source_lag_seconds)", "lag")], "stat", 4),
                Panel("Records in", [(f"sum(rate(streamjob_records_in_total{_RATE}))", "in")], "stat", 4, "reqps"),
                Panel("Last checkpoint", [("streamjob_last_checkpoint_age_seconds", "age")], "stat", 4),
                Panel("Snapshot", [("streamjob_last_checkpoint_state_size_bytes", "size")], "stat", 4),
                Panel("Restarts", [("streamjob_restarts_total", "restarts")], "stat", 4),
            ),
            "Rows": (
                Panel(
                    "Records in and out",
                    [
                        (f"rate(streamjob_records_in_total{_RATE})", "{{chain}} in"),
                        (f"rate(streamjob_records_out_total{_RATE})", "{{chain}} out"),
                    ],
                    unit="reqps",
                ),
                Panel("Lag of the sources", [("streamjob_source_lag_seconds", "{{source}}")]),
                Panel("Unread records", [("sum by (source) (streamjob_source_lag_records)", "{{source}}")]),
                Panel("Lag of the watermarks", [("streamjob_watermark_lag_seconds", "{{chain}} {{input}}")]),
                Panel(
                    "Dropped as late",
                    [(f"rate(streamjob_records_dropped_late_total{_RATE})", "{{chain}} {{operator}}")],
                ),
                Panel(
                    "Dropped because they cannot be decoded",
                    [(f"rate(streamjob_source_records_not_decoded_total{_RATE})", "{{source}}")],
                ),
            ),
            "Work": (
                Panel("Busy", [("streamjob_busy_ratio", "{{chain}}")]),
                Panel("Backpressured", [("streamjob_backpressured_ratio", "{{chain}}")]),
                Panel("Channels", [("streamjob_channel_fill_ratio", "{{from}} to {{to}}")]),
                Panel("Phases of a batch", [("streamjob_batch_phase_seconds", "{{chain}} {{phase}}")]),
                Panel("Time in the sinks", [("streamjob_batch_sink_seconds", "{{chain}} {{sink}}")]),
                Panel("State in rows", [("streamjob_state_rows", "{{chain}} {{operator}}")]),
            ),
            "Checkpoints": (
                Panel(
                    "Duration, by chain",
                    [
                        ("streamjob_last_checkpoint_chain_alignment_seconds", "{{chain}} alignment"),
                        ("streamjob_last_checkpoint_chain_sync_seconds", "{{chain}} sync"),
                        ("streamjob_last_checkpoint_chain_async_seconds", "{{chain}} upload"),
                    ],
                ),
                Panel(
                    "Size",
                    [
                        ("streamjob_last_checkpoint_size_bytes", "written"),
                        ("streamjob_last_checkpoint_state_size_bytes", "in all"),
                    ],
                ),
                Panel("Outcomes", [("increase(streamjob_checkpoints_total[5m])", "{{outcome}}")]),
            ),
            "Sinks": (
                Panel(
                    "Records written",
                    [(f"rate(streamjob_sink_records_total{_RATE})", "{{sink}}")],
                    unit="reqps",
                ),
                Panel("Waiting batches", [("streamjob_sink_waiting_batches", "{{sink}}")]),
                Panel(
                    "Time since the last publication",
                    [("time() - streamjob_sink_last_published_timestamp_seconds", "{{sink}}")],
                    unit="s",
                ),
            ),
            "Executors": (
                Panel(
                    "Executors",
                    [("streamjob_executors", "there"), ("streamjob_executors_wanted", "wanted")],
                ),
                Panel("Busy", [("streamjob_executor_busy_ratio", "{{executor}}")]),
                Panel("Skew", [("streamjob_executors_skew_ratio", "{{of}}")], unit="short"),
            ),
            "Store": (
                Panel(
                    "Requests",
                    [(f"sum by (verb) (rate(streamjob_store_requests_total{_RATE}))", "{{verb}}")],
                    unit="reqps",
                ),
                Panel(
                    "Failures",
                    [(f"sum by (verb) (rate(streamjob_store_failures_total{_RATE}))", "{{verb}}")],
                    unit="reqps",
                ),
            ),
        },
    ),
)


def dashboards() -> dict[str, str]:
    """Return the dashboards as JSON, by the name of their file.

    Raises:
        UnknownMetric: a panel names a metric that the references do not have.
    """
    meanings = {name: text for file in REFERENCES for name, text in _ROW.findall(file.read_text())}
    return {f"{each.uid}.json": json.dumps(_document(each, meanings), indent=1) + "\n" for each in DASHBOARDS}


def metrics_of(expression: str) -> list[str]:
    """Return the metrics that an expression names, a histogram for its parts."""
    return [_PARTS_OF_HISTOGRAM.sub("", name) for name, _ in _METRIC.findall(expression)]


def _document(dashboard: Dashboard, meanings: Mapping[str, str]) -> dict[str, Any]:
    job = {"query": 'label_values(streamjob_info{namespace=~"$namespace"}, streamjob_io_name)', "name": "job"}
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["streamjob"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "graphTooltip": 1,
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                _variable("namespace", "label_values(streamjob_info, namespace)", several=not dashboard.one_job),
                _variable(job["name"], job["query"], several=not dashboard.one_job),
            ]
        },
        "panels": list(_panels(dashboard, meanings)),
    }


def _variable(name: str, query: str, *, several: bool) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": several,
        "includeAll": several,
        **({"allValue": ".*", "current": {"text": "All", "value": "$__all"}} if several else {}),
    }


def _panels(dashboard: Dashboard, meanings: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    number = top = 0
    for title, panels in dashboard.rows.items():
        number += 1
        yield {"id": number, "type": "row", "title": title, "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": 1}}
        top, left = top + 1, 0
        height = 4 if panels[0].kind == "stat" and len(panels) > 3 else 8
        for panel in panels:
            if left + panel.width > _COLUMNS:
                top, left = top + height, 0
            number += 1
            place = {"x": left, "y": top, "w": panel.width, "h": height}
            yield {"id": number, "gridPos": place, **_panel(panel, meanings)}
            left += panel.width
        top += height


def _panel(panel: Panel, meanings: Mapping[str, str]) -> dict[str, Any]:
    named = [metric for expression, _ in panel.queries for metric in metrics_of(expression)]
    if unknown := [metric for metric in named if metric not in meanings]:
        raise UnknownMetric(f"panel {panel.title!r}: the references do not have {', '.join(unknown)}")
    defaults = {"unit": panel.unit or _unit(named[0]), "min": 0}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": " ".join(dict.fromkeys(meanings[metric] for metric in named)),
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": selected(expression),
                "legendFormat": legend,
            }
            for number, (expression, legend) in enumerate(panel.queries)
        ],
        **({"options": {"textMode": "value_and_name"}} if panel.kind == "stat" else {}),
    }


def _unit(metric: str) -> str:
    return next((unit for ending, unit in _UNITS.items() if metric.endswith(ending)), "short")


def selected(expression: str) -> str:
    """Return an expression that selects the series of the dashboard's namespaces and jobs."""
    return _METRIC.sub(lambda found: f"{found[1]}{{{', '.join(_selection(found[1], found[2]))}}}", expression)


def _selection(metric: str, given: str | None) -> Iterator[str]:
    if given:
        yield given
    if not metric.startswith(_OF_CONTROLLER):
        yield from ('namespace=~"$namespace"', 'streamjob_io_name=~"$job"')
    elif metric.removeprefix(_OF_CONTROLLER).startswith("autoscaling_"):
        # Prometheus renames a label of the controller that the labels of its pod hide.
        yield from ('exported_namespace=~"$namespace"', 'name=~"$job"')
    elif metric == "streamjob_controller_jobs":
        yield 'exported_namespace=~"$namespace"'
