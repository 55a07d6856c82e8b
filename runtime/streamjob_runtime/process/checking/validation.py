"""Asks Spark about a job that does not run: whether its columns, functions and types exist."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.comparison.verdicts import Comparison
from streamjob.job.loading.load import LoadedJob
from streamjob.protocol.log.records import JobId
from streamjob_runtime.process.checking.asking import spark_to_ask
from streamjob_runtime.process.checking.part_checks import check_parts
from streamjob_runtime.process.checking.start_check import judged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def validate(loaded: LoadedJob) -> None:
    """Check a job with an embedded Spark, which takes seconds.

    Raises:
        InvalidJob: Spark refuses functions, sources or operators; lists all of them.
        InvalidInput: a sink is unusable, or Spark cannot run the operators together.
    """
    with spark_to_ask("validate", loaded, loaded.spec.max_parallelism) as (spark, scratch):
        validate_with(spark, scratch, loaded)


def validate_with(spark: SparkSession, scratch: Path, loaded: LoadedJob) -> None:
    """Do the same as `validate`, with a running Spark and a scratch directory."""
    check_parts(spark, loaded)
    # Problems that concern several parts: whether Spark can run them as one query, and whether the sinks take the rows.
    nothing = Comparison(findings=(), origins={}, max_parallelism=loaded.spec.max_parallelism)
    job = JobId(loaded.namespace or "default", loaded.spec.name)
    judged(spark, scratch, loaded, None, nothing, False, job).compared.check()
