"""Executors upload their own rows into a bucket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.sinks.buckets import Bucket
from tests.jobs import files, job_file, sink, sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

FILES, ROWS = 4, 100_000


def job(directory: Path, path: str) -> Path:
    """Write a job whose batches have too many rows for the driver."""
    (directory / "in").mkdir()
    for number in range(FILES):
        (directory / "in" / f"{number}.csv").write_text(f"{number}\n")
    many = f"SELECT file * {ROWS} + n AS id FROM (SELECT file, explode(sequence(0, {ROWS - 1})) AS n FROM files)"
    sources, sinks = [files("files", "in", "file BIGINT", "csv", bounded=True)], [sink("numbers", "parquet", path)]
    return write_job(directory, job_file(sql("numbers", "files", many), sources=sources, sinks=sinks, name="numbers"))


@pytest.mark.timeout(600)
def test_each_executor_uploads_its_own_rows_and_the_driver_completes_them(
    spark: SparkSession, bucket: Bucket, tmp_path: Path
) -> None:
    with job_runs(job(tmp_path, bucket.path), tmp_path / "snapshots", "numbers") as runs:
        process = runs.start("--executors", "2", "--executor-memory", "600m", environment=bucket.server.environment)
        assert process.wait() == 0, process.output()

    found = spark.read.parquet(str(bucket.directory))
    assert found.count() == found.distinct().count() == FILES * ROWS
    assert len(bucket.files()) == FILES
    assert bucket.pending() == []
