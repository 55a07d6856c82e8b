"""The death of Spark's Java ends its process at once, with the cause, and the process that stands by takes over."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.integration.runtime.processes import JobRuns, java_of, job_runs

from streamjob.errors import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TOO_LARGE = """
name: large
sparkConf: {spark.driver.memory: 600m}
checkpointing: {interval: 1s}
sources:
- {name: rows, format: json, schema: "id INT", options: {path: in}}
operators:
- name: lists
  inputs: [rows]
  sql: SELECT size(transform(sequence(1, 50000000), x -> x + id)) AS length FROM rows
sinks:
- {name: out, input: lists, format: parquet, options: {path: out}}
"""


@pytest.mark.timeout(600)
def test_a_job_whose_java_is_killed_ends_with_the_cause_and_is_continued_by_the_one_that_stands_by(
    runs: JobRuns,
) -> None:
    first = runs.start()
    runs.wait_for_progress(-1, first)
    # It sleeps, and does not come to its end before the other one is ready.
    first.stop()
    standby = runs.start("--standby")
    runs.wait(lambda: "is at hand" in standby.output(), "checkpoint at hand", standby)
    epoch, before = runs.epoch(), runs.furthest()
    first.wake()

    os.kill(java_of(first), signal.SIGKILL)

    assert first.wait() == ExitCode.FAILED
    assert "could not be ended" not in first.output(), "it asked the dead Java for its queries"
    assert "Spark's process has ended: " in first.output()
    assert "SIGKILL" in first.output()
    assert "Traceback" not in first.output()
    runs.wait_for_claim(epoch, standby)
    runs.wait_for_progress(before, standby)

    standby.stop()
    waiting = runs.start("--standby")
    runs.wait(lambda: "is at hand" in waiting.output(), "checkpoint at hand", waiting)
    os.kill(java_of(waiting), signal.SIGKILL)
    assert waiting.wait() == ExitCode.FAILED, "it would only be found out when it is needed"
    assert "Spark's process has ended: " in waiting.output()


@pytest.mark.timeout(600)
def test_a_job_whose_heap_is_full_ends_with_that_cause(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "row.json").write_text('{"id": 1}')
    file = tmp_path / "job.yaml"
    file.write_text(TOO_LARGE)
    with job_runs(file, tmp_path / "snapshots", "large") as runs:
        full = runs.start()

        assert full.wait() == ExitCode.FAILED
        assert "Spark's process has ended: its heap was full" in full.output()
        assert "fix: raise spark.driver.memory" in full.output()
