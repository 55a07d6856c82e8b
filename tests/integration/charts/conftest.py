"""The chart as a real Helm renders it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.charts.rendered import CHART, Refused, Rendered
from tests.servers.go_tools import HELM, ToolMissing

Render = Callable[..., Rendered]


@pytest.fixture(scope="session")
def helm() -> Path:
    """Give the program, which is built if it has to be."""
    try:
        return HELM.find()
    except ToolMissing as missing:
        if HELM.required:
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def render(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Render the chart with values of the caller's."""

    def run(values: dict[str, Any] | None = None, *, release: str = "streamjob", namespace: str = "system") -> Rendered:
        file = tmp_path_factory.mktemp("values") / "values.yaml"
        file.write_text(yaml.safe_dump(values or {}))
        done = subprocess.run(
            [helm, "template", release, CHART, "--namespace", namespace, "--values", file],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if done.returncode != 0:
            raise Refused(done.stderr)
        return Rendered(tuple(each for each in yaml.safe_load_all(done.stdout) if each))

    return run
