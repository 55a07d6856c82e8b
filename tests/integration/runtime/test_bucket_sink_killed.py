"""A job that writes into a bucket is killed before each step of its commits; readers see each row once, always."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.sinks.buckets import Bucket
from tests.jobs import files, job_file, sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

FILES, ROWS = 40, 25
STEPS = ["parts 0", "parts 2", "put 0", "complete 0", "complete 1", "complete 4"]
"""Steps of a life's commits: a look at an upload, a record and a completion, each with the number of those before it.

How many uploads a commit has depends on the speed of the machine; a commit has three at least.
"""

KILLER = """
import itertools, os, signal

if "KILLED_AT" in os.environ:
    from streamjob.store.s3 import S3Store
    from streamjob.store.s3_uploads import S3Uploads

    def killed_before(kind, name):
        step = getattr(kind, name)
        numbers = itertools.count()

        def call(self, subject, *args, **kwargs):
            probed = "/probe-" in getattr(subject, "key", subject)
            if not probed and f"{name} {next(numbers)}" == os.environ["KILLED_AT"]:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(self, subject, *args, **kwargs)

        setattr(kind, name, call)

    for kind, name in ((S3Uploads, "parts"), (S3Store, "put"), (S3Uploads, "complete")):
        killed_before(kind, name)
"""


def job(directory: Path, path: str) -> Path:
    """Write a job that reads a few rows in each batch, and their files."""
    (directory / "in").mkdir()
    for number in range(FILES):
        numbers = range(number * ROWS, (number + 1) * ROWS)
        (directory / "in" / f"{number:03}.csv").write_text("".join(f"{each},{each % 3}\n" for each in numbers))
    source = files("numbers", "in", "id BIGINT, part INT", "csv", bounded=True)
    sinks = [sink("numbers", "parquet", path, partitionBy=["part"])]
    how = {"name": "killed", "checkpointing": {"interval": "1s"}}
    return write_job(directory, job_file(sources=[source], sinks=sinks, **how))


def visible(spark: SparkSession, bucket: Bucket) -> Counter[tuple[int, int]]:
    """Return the rows that a plain reader finds now."""
    try:
        found = spark.read.parquet(str(bucket.directory)).select("id", "part").collect()
    except AnalysisException:
        return Counter()  # there is no file yet
    return Counter((row.id, row.part) for row in found)


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_killed_before_each_step_of_its_commits_it_publishes_each_row_once(
    spark: SparkSession, bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "killer").mkdir()
    (tmp_path / "killer" / "sitecustomize.py").write_text(KILLER)
    environment = {**bucket.server.environment, "PYTHONPATH": str(tmp_path / "killer")}
    expected = Counter((number, number % 3) for number in range(FILES * ROWS))
    before: Counter[tuple[int, int]] = Counter()

    with job_runs(job(tmp_path, bucket.path), tmp_path / "snapshots", "killed") as runs:
        for step in STEPS:
            process = runs.start(environment={**environment, "KILLED_AT": step})
            assert process.wait() == -9, process.output()
            process.kill()
            now = visible(spark, bucket)
            assert before <= now <= expected
            before = now
        assert 0 < before.total() < expected.total(), "the kills fell into the middle of the job"
        last = runs.start(environment=environment)
        assert last.wait() == 0, last.output()

    assert visible(spark, bucket) == expected
    assert bucket.pending() == []
