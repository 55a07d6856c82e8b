"""No space left, where the snapshots or the output go: the job waits for space, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, running
from tests.integration.runtime.purchases import Purchases, Rows, line_rows, table_rows, write_job
from tests.integration.runtime.small_disks import fill, small_disk_at

from streamjob.errors import ExitCode
from streamjob.protocol.lifecycle import JobState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SIZE = 8 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with little space."""
    with small_disk_at(tmp_path / "disk", SIZE) as directory:
        yield directory


def wait_for_failure(job: EmbeddedJob) -> None:
    job.wait_for(lambda: job.control.job().restarts >= 1 or job.state is JobState.RESTARTING, "failure")


def test_without_space_for_snapshots_checkpoints_fail_until_there_is_some(
    purchases: Purchases, expected: Rows, spark: SparkSession, tmp_path: Path, small_disk: Path
) -> None:
    file = write_job(tmp_path / "job", purchases.job())
    overrides = ("checkpointing.interval=200ms", "checkpointing.tolerableFailedCheckpoints=10000")

    with running(spark, Life(file=file, location=str(small_disk), overrides=overrides)) as job:
        job.wait_for(lambda: job.completed >= 1, "checkpoint")
        ballast = fill(small_disk)
        batch = job.batch
        job.wait_for(lambda: job.failed >= 2, "failed checkpoints")
        job.wait_for(lambda: job.batch > batch + 1 or job.state is JobState.FINISHING, "batches")
        failed = job.control.checkpoints().latest.failed
        ballast.unlink()
        assert job.wait() is ExitCode.OK
        view = job.control.job()

    assert failed is not None
    assert "no space" in (failed.failure_message or "").lower()
    assert view.restarts == 0
    assert table_rows(spark, file.parent / "table") == expected
    assert line_rows(spark, file.parent / "lines") == expected


def test_without_space_for_output_the_job_restarts_until_there_is_some(
    purchases: Purchases, expected: Rows, spark: SparkSession, tmp_path: Path, small_disk: Path
) -> None:
    file = write_job(tmp_path / "job", purchases.job())
    overrides = (f"sinks.table.options.path={small_disk}/table",)

    with running(spark, Life(file=file, location=str(tmp_path / "snapshots"), overrides=overrides)) as job:
        job.wait_for(lambda: job.batch >= 2, "batches")
        ballast = fill(small_disk)
        wait_for_failure(job)
        failure = job.control.job().failure
        ballast.unlink()
        assert job.wait() is ExitCode.OK

    assert f"sink path {small_disk}/table: no space is left" in (failure or "")
    assert table_rows(spark, small_disk / "table") == expected
    assert line_rows(spark, file.parent / "lines") == expected
