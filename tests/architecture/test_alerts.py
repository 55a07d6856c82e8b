"""The alert rules of the chart name metrics that exist, and each has a runbook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
_METRIC = re.compile(r"\bstreamjob_[a-z_]+")
_SELECTED = re.compile(r"(streamjob_[a-z_]+)\{([a-z_]+)=")
_BY = re.compile(r"\bby \(([a-z_, ]+)\)")
_ROW = re.compile(r"^\| `(streamjob_[a-z_]+)` \| (\w+) \| (.*?) \|", re.MULTILINE)
_OF_PROMETHEUS = {"namespace", "pod", "streamjob_io_name"}
"""The labels that the chart's monitors add to each series."""


def _rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((ROOT / "charts" / "streamjob" / "files" / "alerts.yaml").read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def _metrics() -> dict[str, set[str]]:
    """Return the labels of each documented metric."""
    texts = [(ROOT / "docs" / "reference" / name).read_text() for name in ("metrics.md", "controller.md")]
    return {name: set(re.findall(r"`(\w+)`", labels)) for text in texts for name, _, labels in _ROW.findall(text)}


RULES = _rules()
METRICS = _metrics()


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_names_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    named = set(_METRIC.findall(rule["expr"]))
    labels = set().union(*(METRICS[name] for name in named)) | _OF_PROMETHEUS
    used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))

    assert named
    assert named <= METRICS.keys()
    assert used <= labels
    assert all(label in METRICS[metric] for metric, label in _SELECTED.findall(rule["expr"]))
    # An aggregation leaves only the labels that it names.
    for kept in _BY.findall(rule["expr"]):
        assert used <= {label.strip() for label in kept.split(",")}


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_has_a_runbook_with_its_expression(rule: dict[str, Any]) -> None:
    page = (ROOT / rule["annotations"]["runbook_url"]).read_text()

    assert page.startswith(f"# {rule['alert']}\n")
    assert f"```promql\n{rule['expr']}\n```" in page
    assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_every_runbook_belongs_to_an_alert_and_is_in_the_index() -> None:
    pages = {Path(rule["annotations"]["runbook_url"]).name for rule in RULES}
    index = (RUNBOOKS / "README.md").read_text()

    assert {file.name for file in RUNBOOKS.glob("*.md")} == pages | {"README.md"}
    assert set(re.findall(r"\]\(([a-z-]+\.md)\)", index)) == pages
    assert len(RULES) == 12


def test_metrics_named_in_a_runbook_exist() -> None:
    for file in RUNBOOKS.glob("*.md"):
        # A histogram is named by itself, and in expressions by its parts.
        assert set(_METRIC.findall(file.read_text())) <= METRICS.keys(), file.name
