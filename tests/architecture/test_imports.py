"""The import contracts in pyproject.toml, and their purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streamjob import runtime

ROOT = Path(__file__).resolve().parents[2]


def test_the_declared_directions_of_imports_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120)

    assert result.returncode == 0, result.stdout + result.stderr


def loaded_by(package: str) -> set[str]:
    """Return the names of the top-level packages that a fresh interpreter has loaded after importing `package`."""
    program = f"import sys, {package}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


@pytest.mark.parametrize("package", ["streamjob", "streamjob.cli.main", "streamjob_operator"])
def test_what_the_controller_loads_brings_no_spark(package: str) -> None:
    assert loaded_by(package) & {"pyspark", "py4j", "pyarrow", "pandas"} == set()


def test_importing_streamjob_loads_no_controller() -> None:
    assert loaded_by("streamjob") & {"kopf", "kubernetes"} == set()


def test_a_job_starts_without_libraries_that_only_some_sinks_and_pages_use() -> None:
    started = loaded_by("streamjob_runtime.control.running_job, streamjob_runtime.control.api.server")

    assert started & {"pyarrow", "numpy", "pandas", "httpx"} == set()


@pytest.mark.parametrize("name", sorted(runtime._PLACES))
def test_each_part_of_the_runtime_is_where_the_shared_package_looks_for_it(name: str) -> None:
    assert callable(getattr(runtime, name))
