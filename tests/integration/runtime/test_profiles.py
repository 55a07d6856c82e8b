"""Profiles of running jobs: the driver's Java and Python, and those of executors."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import jobs
from tests.integration.runtime.executor_processes import LONG, ON_TWO
from tests.integration.runtime.processes import JobRuns, job_runs
from tests.integration.runtime.purchases import write_job

from streamjob.client.client import ControlClient
from streamjob.client.discovery import find_endpoint
from streamjob.client.profile_models import ProfileState, ProfileView

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RARE = "SELECT value FROM ticks WHERE sha2(CAST(value AS STRING), 512) LIKE 'abcd%'"


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    """A job whose tasks never rest, although few of its rows reach the sink."""
    ticks = jobs.source("ticks", options={"rowsPerSecond": 300_000})
    sinks = [jobs.sink("hashes", "json", tmp_path / "out")]
    how = {"name": "busy", "checkpointing": {"interval": "2s"}}
    return write_job(tmp_path, jobs.job_file(jobs.sql("hashes", "ticks", RARE), sources=[ticks], sinks=sinks, **how))


def recorded(runs: JobRuns, *options: str) -> ProfileView:
    """Run the job until a batch has ended, behind which the next one runs, and return a profile of it."""
    process = runs.start(*options)
    # The first checkpoint may be complete before the first task runs.
    runs.wait_for_progress(0, process)
    endpoint = find_endpoint(url=None, workdir=runs.file.parent / "work", token_file=None)
    with ControlClient(endpoint.url, endpoint.token, timeout=60.0) as client:
        return client.wait_for_profile(client.start_profile(4.0), timeout=LONG)


def test_the_drivers_java_and_python_are_profiled_while_the_job_runs(job_file: Path, tmp_path: Path) -> None:
    with job_runs(job_file, tmp_path / "snapshots", "busy") as runs:
        view = recorded(runs)

    assert view.state is ProfileState.COMPLETED
    java, python = view.processes
    assert (java.process, java.language, java.failure) == ("driver", "java", None)
    assert (python.process, python.language, python.failure) == ("driver", "python", None)
    assert any(name.startswith("org.apache.spark.") for name in java.frames)
    # Its tasks never rest, unlike the thread that plans the batches, which may not run while a batch does.
    assert "Executor task launch worker" in java.frames
    assert any(name.startswith("streamjob_runtime.") for name in python.frames)
    assert java.cpu_ms > 0


@pytest.mark.timeout(600)
def test_executors_are_profiled_beside_the_driver(job_file: Path, tmp_path: Path) -> None:
    with job_runs(job_file, tmp_path / "snapshots", "busy") as runs:
        view = recorded(runs, *ON_TWO, "--executors-share-files")

    assert view.state is ProfileState.COMPLETED
    assert [each.failure for each in view.processes] == [None] * 6
    assert [each.language for each in view.processes] == ["java", "python"] * 3
    assert len({each.process for each in view.processes}) == 3
    tasks = [each for each in view.processes if "Executor task launch worker" in each.frames]
    assert {each.language for each in tasks} == {"java"}
    assert "driver" not in {each.process for each in tasks}
