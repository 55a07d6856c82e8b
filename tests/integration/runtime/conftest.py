"""Input, expected output and job processes for the proofs on real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.processes import JobRuns, job_runs
from tests.integration.runtime.purchases import Purchases, Rows, write_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def purchases(tmp_path_factory: pytest.TempPathFactory) -> Purchases:
    """The input of the jobs that are killed on the way: enough batches to be killed between."""
    return Purchases.write(tmp_path_factory.mktemp("purchases"), files=20, rows=60)


@pytest.fixture(scope="session")
def expected(purchases: Purchases, spark: SparkSession) -> Rows:
    """The batch result of `purchases`."""
    return purchases.batch(spark)


@pytest.fixture
def runs(purchases: Purchases, tmp_path: Path) -> Iterator[JobRuns]:
    """The processes of the purchases job, in a directory of its own."""
    with job_runs(write_job(tmp_path, purchases.job()), tmp_path / "snapshots", "purchases") as started:
        yield started
