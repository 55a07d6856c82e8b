"""A release installs and runs without a clone, and the workflow that publishes it is sound."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from release.artifacts import ROOT, build_packages, package_chart
from release.installation import Installation
from tests.servers.go_tools import ACTIONLINT, HELM, GoTool, ToolMissing

pytestmark = pytest.mark.slow

_JOB = """
SET 'name' = 'copies';
CREATE SOURCE numbers (n INT) WITH ('format' = 'csv', 'path' = 'in', 'bounded' = true);
CREATE SINK copies WITH ('format' = 'csv', 'path' = 'out');
INSERT INTO copies SELECT n + 1 AS n FROM numbers;
"""


def _program(tool: GoTool) -> Path:
    try:
        return tool.find()
    except ToolMissing as missing:
        if tool.required:
            raise
        pytest.skip(str(missing))


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_a_workflow_is_sound(name: str) -> None:
    checked = subprocess.run(
        [_program(ACTIONLINT), "-no-color", ROOT / ".github" / "workflows" / name],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.stdout == ""
    assert checked.returncode == 0


def test_helm_renders_the_packaged_chart_as_it_renders_the_directory(tmp_path: Path) -> None:
    helm = _program(HELM)

    def render(chart: Path) -> str:
        command = [str(helm), "template", "streamjob", str(chart), "--namespace", "system"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert render(package_chart(tmp_path, 0)) == render(ROOT / "charts" / "streamjob")


@pytest.mark.timeout(600)
def test_a_wheel_installed_without_a_clone_runs_a_job_and_lists_its_jars(tmp_path: Path) -> None:
    packages = build_packages(tmp_path / "dist", 1_700_000_000)
    wheel = next(each for each in packages if each.suffix == ".whl")
    installation = Installation.of(wheel, ["runtime"], tmp_path / "installed")
    (tmp_path / "home").mkdir()
    (tmp_path / "work" / "in").mkdir(parents=True)
    (tmp_path / "work" / "in" / "numbers.csv").write_text("1\n2\n")
    (tmp_path / "work" / "job.sql").write_text(_JOB)

    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    command = [str(installation.scripts / "streamjob"), "run", "job.sql"]
    done = subprocess.run(
        command, cwd=tmp_path / "work", env=environment, capture_output=True, text=True, check=False, timeout=300
    )

    assert done.returncode == 0, done.stderr
    parts = (tmp_path / "work" / "out").glob("*.csv")
    assert sorted(line for each in parts for line in each.read_text().split()) == ["2", "3"]

    installation.write_bill(tmp_path / "bill.json", tmp_path / "tools", 0)
    bill = json.loads((tmp_path / "bill.json").read_text())
    purls = {each["purl"] for each in bill["components"]}
    assert {"pkg:pypi/pyspark@4.3.0", "pkg:maven/org.apache.spark/spark-sql_2.13@4.3.0"} <= purls
    assert str(tmp_path) not in (tmp_path / "bill.json").read_text()
