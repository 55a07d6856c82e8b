"""A process that waits is told to start when the one before it has stopped, and continues exactly there."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.processes import JobProcess, JobRuns
from tests.integration.runtime.purchases import Rows, line_rows, table_rows

from streamjob.client.client import ControlClient
from streamjob.client.discovery import find_endpoint
from streamjob.protocol.lifecycle import JobState
from streamjob.snapshot.record import RecordKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def connect(runs: JobRuns, process: JobProcess, workdir: str) -> ControlClient:
    """Return a client of a process's control API, once it serves it."""
    directory: Path = runs.file.parent / workdir
    runs.wait(lambda: (directory / "control.json").exists(), "control file", process)
    endpoint = find_endpoint(workdir=directory)
    return ControlClient(endpoint.url, endpoint.token)


@pytest.mark.timeout(600)
def test_a_prepared_process_continues_a_stopped_job_when_it_is_told_to_start(
    runs: JobRuns, expected: Rows, spark: SparkSession
) -> None:
    directory = runs.file.parent
    first = runs.start("--attempt", "1")
    runs.wait_for_progress(-1, first)
    second = runs.start("--attempt", "2", "--wait-for-start", workdir="other")
    with connect(runs, first, "work") as old, connect(runs, second, "other") as new:
        # It sleeps, and does not come to its end before the other one is ready.
        first.stop()
        runs.wait(lambda: new.job().waiting == "prepared", "preparation", second)
        epoch = runs.epoch()
        assert new.job().state is JobState.CREATED
        first.wake()
        old.stop(savepoint=True)
        assert first.wait() == 0, first.output()
        assert runs.epoch() == epoch
        assert runs.records()[-1].kind is RecordKind.SAVEPOINT

        assert new.start().attempt == 2
        assert new.start().attempt == 2
        assert second.wait(300) == 0, second.output()
    assert runs.records()[-1].kind is RecordKind.FINAL
    assert runs.records()[-1].attempt == 2
    assert table_rows(spark, directory / "table") == expected
    assert line_rows(spark, directory / "lines") == expected


@pytest.mark.timeout(600)
def test_a_process_that_ends_while_it_waits_leaves_the_store_untouched(runs: JobRuns) -> None:
    first = runs.start("--set", "checkpointing.interval=500ms")
    runs.wait_for_progress(-1, first)
    first.send(signal.SIGTERM)
    assert first.wait() == 0, first.output()
    before = runs.files()

    waits = runs.start("--attempt", "2", "--wait-for-start", workdir="other")
    with connect(runs, waits, "other") as client:
        runs.wait(lambda: client.job().waiting == "prepared", "preparation", waits)
    waits.send(signal.SIGTERM)

    assert waits.wait() == 0, waits.output()
    assert runs.files() == before

    stopped = runs.start("--attempt", "2", "--wait-for-start", workdir="third")
    with connect(runs, stopped, "third") as client:
        client.stop()
        assert stopped.wait() == 0, stopped.output()
    assert runs.files() == before
