"""Where the session of the tests' own process looks for the files of `job:/…` paths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamjob_runtime.spark.job_files import JobFiles
from streamjob_runtime.spark.jvm import JOB_FILES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def job_files(spark: SparkSession) -> JobFiles:
    """Return what names directories as a session does."""
    return JobFiles(Path(spark._jvm.java.lang.System.getProperty(JOB_FILES)))  # type: ignore[union-attr]
