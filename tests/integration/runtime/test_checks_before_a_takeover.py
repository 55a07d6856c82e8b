"""A check, and a process that waits, report why a job cannot start before another process stops for it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.processes import PROGRAM
from tests.integration.runtime.purchases import write_job
from tests.jobs import job_file, sink, source, sql

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A job with two operators that only Spark can refuse."""
    names = ("first", "second")
    operators = [sql(each, "events", f"SELECT {each} FROM events") for each in names]
    sinks = [sink(each, "json", tmp_path / each) for each in names]
    return write_job(tmp_path, job_file(*operators, sources=[source("events")], sinks=sinks, name="broken"))


def ended(file: Path, *command: str) -> tuple[int, dict[str, Any]]:
    """Run a command to its end; return its exit code, and what it leaves for a supervisor."""
    said = file.with_name("termination")
    done = subprocess.run(
        [str(PROGRAM), command[0], str(file), "--location", str(file.with_name("snapshots")), *command[1:]],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "STREAMJOB_TERMINATION_LOG": str(said)},
        timeout=240,
        check=False,
    )
    return done.returncode, json.loads(said.read_text())


def test_a_check_lists_all_parts_that_spark_refuses(broken: Path) -> None:
    code, said = ended(broken, "check", "--from", "latest")

    assert (code, said["state"], said["exitCode"]) == (2, "FAILED", 2)
    assert "operator 'first'" in said["message"]
    assert "operator 'second'" in said["message"]


def test_a_process_that_waits_for_its_start_ends_if_its_job_cannot_start(broken: Path) -> None:
    code, said = ended(broken, "run", "--wait-for-start", "--quiet", "--workdir", str(broken.with_name("work")))

    assert (code, said["state"], said["exitCode"]) == (2, "FAILED", 2)
    assert "operator 'first'" in said["message"]
    assert not list(broken.with_name("snapshots").rglob("log/*"))
