"""The generated files of the chart are up to date, and its dashboards show metrics that exist."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

CHARTS = Path(__file__).resolve().parents[2] / "charts"
FILES = CHARTS / "streamjob" / "files"
PROMTOOL = shutil.which("promtool")


def _generated(monkeypatch: pytest.MonkeyPatch) -> dict[Path, str]:
    monkeypatch.syspath_prepend(str(CHARTS))
    files: dict[Path, str] = runpy.run_path(str(CHARTS / "generate.py"))["files"]()
    return files


def _panels(file: Path) -> list[dict[str, Any]]:
    return [each for each in json.loads(file.read_text())["panels"] if each["type"] != "row"]


DASHBOARDS = sorted((FILES / "dashboards").glob("*.json"))


def test_its_generated_files_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    generated = _generated(monkeypatch)

    assert {path: path.read_text() for path in generated} == generated, "run python charts/generate.py"
    for directory in ("crds", "dashboards"):
        assert set((FILES / directory).iterdir()) == {path for path in generated if path.parent.name == directory}


def test_a_panel_with_a_metric_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CHARTS))
    definitions = runpy.run_path(str(CHARTS / "dashboards.py"))
    panel = definitions["Panel"]("Lag", [("max(streamjob_source_lag_minutes)", "lag")])

    with pytest.raises(definitions["UnknownMetric"], match=r"'Lag'.*streamjob_source_lag_minutes"):
        definitions["_panel"](panel, {"streamjob_source_lag_seconds": "Lag."})


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_panels_neither_overlap_nor_leave_the_page(file: Path) -> None:
    places = [each["gridPos"] for each in json.loads(file.read_text())["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_each_panel_selects_the_jobs_of_the_dashboard_and_explains_itself(file: Path) -> None:
    for panel in _panels(file):
        assert panel["description"].endswith(".")
        for target in panel["targets"]:
            assert target["legendFormat"]
            if "streamjob_controller_" not in target["expr"]:
                assert 'namespace=~"$namespace", streamjob_io_name=~"$job"' in target["expr"]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on the PATH; Debian has it in `prometheus`")
@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_prometheus_reads_the_expressions(file: Path, tmp_path: Path) -> None:
    expressions = [target["expr"] for panel in _panels(file) for target in panel["targets"]]
    # Grafana replaces its variables before it asks.
    asked = [re.sub(r"\$__rate_interval", "5m", each) for each in expressions]
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(asked)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, "check", "rules", tmp_path / "rules.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
