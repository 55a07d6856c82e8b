"""Processes that are stopped where they stand and wake after a successor has taken over: they may do nothing more."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.processes import JobProcess, JobRuns
from tests.integration.runtime.purchases import Rows, line_rows, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SUPERSEDED = 4


def published(directory: Path) -> dict[str, bytes]:
    """Return every file of the sinks but those that are merely staged."""
    return {
        file.relative_to(directory).as_posix(): file.read_bytes()
        for sink in ("table", "lines")
        for file in (directory / sink).rglob("*")
        if file.is_file() and "staged" not in file.parts and not file.name.endswith(".tmp")
    }


def start_and_stop(runs: JobRuns, seed: int, workdir: str) -> JobProcess:
    """Start a process, and stop it at some moment after its first checkpoint of new input."""
    before = runs.furthest()
    process = runs.start(workdir=workdir)
    runs.wait_for_progress(before, process)
    time.sleep(random.Random(seed).uniform(0, 0.6))
    process.stop()
    return process


@pytest.mark.timeout(600)
def test_a_sleeper_that_wakes_behind_its_successor_ends_and_changes_nothing(
    runs: JobRuns, expected: Rows, spark: SparkSession
) -> None:
    directory = runs.file.parent
    first = start_and_stop(runs, 1, "work-1")
    second = start_and_stop(runs, 2, "work-2")
    third = runs.start(workdir="work-3")
    runs.wait(lambda: bool(runs.completions(3)), "checkpoint", third)

    first.wake()
    assert first.wait() == SUPERSEDED, first.output()
    assert third.wait() == 0, third.output()
    log, store, output = runs.records(), runs.files(), published(directory)
    assert {record.epoch for record in log if record.completes} == {3}

    second.wake()
    assert second.wait() == SUPERSEDED, second.output()

    assert "another owner" in second.output()
    # The object that it was writing may exist; nothing older is gone, and the log is unchanged.
    after = runs.files()
    assert {key: after.get(key) for key in store} == store
    assert runs.records() == log
    assert published(directory) == output
    assert table_rows(spark, directory / "table") == expected
    assert line_rows(spark, directory / "lines") == expected


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_sleeper_that_shares_the_work_directory_of_its_successor_does_it_no_harm(
    runs: JobRuns, expected: Rows, spark: SparkSession
) -> None:
    directory = runs.file.parent
    first = start_and_stop(runs, 3, "work")
    second = runs.start(workdir="work")
    runs.wait(lambda: bool(runs.completions(2)), "checkpoint", second)

    first.wake()

    assert first.wait() == SUPERSEDED, first.output()
    assert second.exit_code is not None or (directory / "work" / "control.json").exists()
    assert second.wait() == 0, second.output()
    assert table_rows(spark, directory / "table") == expected
    assert line_rows(spark, directory / "lines") == expected
