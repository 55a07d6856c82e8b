"""`streamjob run` from a scheduler: each run goes on where the last one ended, and none passes over new input."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.processes import JobRuns, job_runs
from tests.integration.runtime.purchases import write_job
from tests.jobs import files, job_file, sink, sql

from streamjob.errors import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 5
NOW = "--available-now"


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[JobRuns]:
    """The runs of a job that reads a file a batch."""
    with job_runs(write(tmp_path), tmp_path / "snapshots", "scheduled") as started:
        yield started


def write(directory: Path, **fields: Any) -> Path:
    read = files("rows", directory / "in", "n BIGINT", **fields)
    to = sink("out", "json", directory / "out")
    return write_job(
        directory,
        job_file(sql("out", "rows"), sources=[read], sinks=[to], name="scheduled", checkpointing={"interval": "300ms"}),
    )


def come(runs: JobRuns, numbers: range) -> None:
    """Put in files with some rows each, as far as they are not there."""
    directory = runs.file.parent / "in"
    directory.mkdir(exist_ok=True)
    for number in numbers:
        rows = [json.dumps({"n": number * ROWS + each}) for each in range(ROWS)]
        file = directory / f"{number:03d}.json"
        if not file.exists():
            file.write_text("\n".join(rows) + "\n")


def published(runs: JobRuns) -> Counter[int]:
    lines = (line for file in (runs.file.parent / "out").glob("*.json") for line in file.read_text().splitlines())
    return Counter(json.loads(line)["n"] for line in lines)


@pytest.mark.timeout(600)
def test_a_run_that_is_killed_is_repeated_and_takes_what_has_come_meanwhile(runs: JobRuns) -> None:
    come(runs, range(20))
    killed = runs.start(NOW)
    runs.wait_for_progress(2, killed)
    killed.kill()

    for there, is_new in ((22, True), (22, False), (23, True)):
        come(runs, range(20, there))
        again = runs.start(NOW)
        assert again.wait() == ExitCode.OK, again.output()
        assert "STOPPED" in again.output()
        assert ("There was nothing new to read" in again.output()) is not is_new
        assert published(runs) == Counter(range(there * ROWS))


@pytest.mark.timeout(300)
def test_a_job_that_has_finished_says_so_and_does_not_pass_over_new_files(runs: JobRuns) -> None:
    write(runs.file.parent, bounded=True)
    come(runs, range(1))
    refused = runs.start(NOW)
    assert refused.wait() == ExitCode.INVALID_INPUT
    assert "all its sources are bounded" in refused.output()
    first = runs.start()
    assert first.wait() == ExitCode.OK, first.output()

    again = runs.start()
    assert again.wait() == ExitCode.OK
    assert "Job 'scheduled' finished on " in again.output()
    assert "reads nothing more" in again.output()

    come(runs, range(1, 2))
    passed = runs.start()
    assert passed.wait() == ExitCode.INVALID_INPUT
    assert f"does not read what has come since, such as {runs.file.parent}/in/001.json" in passed.output()
    assert NOW in passed.output()
    controllers = runs.start("--attempt", "3")
    assert controllers.wait() == ExitCode.OK, controllers.output()
    assert published(runs) == Counter(range(ROWS))
