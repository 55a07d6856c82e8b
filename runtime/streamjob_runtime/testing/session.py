"""The Spark that tests share, and the jobs for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.job.connectors.options import missing_names, substitute
from streamjob.job.loading.load import LoadedJob, load_dsl, load_job
from streamjob.job.python_job.dsl import Job
from streamjob_runtime.spark.gateway import parse
from streamjob_runtime.spark.job_files import JobFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Session:
    """A Spark that any number of tests share.

    Args:
        spark: the session; each test gets one of its own from it, with views and settings of its own.
        files: the directory below which the session finds the files of jobs.
    """

    spark: SparkSession
    files: JobFiles


def changeable_conf(loaded: LoadedJob, spark: SparkSession | None = None) -> dict[str, str]:
    """Return a job's `sparkConf`, without values from environment variables that are not set.

    Args:
        spark: a running session; then only settings that it can change.
    """
    values = {key: value for key, value in loaded.spec.spark_conf.items() if not any(missing_names(value, os.environ))}
    return {
        key: substitute(value, os.environ)
        for key, value in values.items()
        if spark is None or spark.conf.isModifiable(key)
    }


def load_any(
    job: str | Path | Job | LoadedJob,
    overrides: Sequence[str],
    variables: Sequence[str],
    parser: Callable[[str], str | None],
) -> LoadedJob:
    """Return a job from its file, or from the code that defines it.

    Args:
        overrides: overrides of the file's fields, of the form `PATH=VALUE`.
        variables: values of `${var:NAME}`, of the form `NAME=VALUE`.
        parser: returns why Spark cannot parse a query.

    Raises:
        InvalidJob: it is invalid.
    """
    if isinstance(job, LoadedJob):
        return job
    if isinstance(job, Job):
        return load_dsl(job, spark_parser=parser)
    return load_job(job, overrides, variables=variables, spark_parser=parser)


def parser_of(spark: SparkSession) -> Callable[[str], str | None]:
    """Return what asks a running Spark why it cannot parse a query."""
    from pyspark.errors import ParseException

    def why(sql: str) -> str | None:
        try:
            parse(spark, sql)
        except ParseException as error:
            return str(error).split("\n== SQL", 1)[0].strip()
        return None

    return why
