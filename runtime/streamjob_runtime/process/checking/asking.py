"""Starts a Spark to ask about a job that does not run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.job.loading.load import LoadedJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_to_ask(
    command: str, loaded: LoadedJob, max_parallelism: int, slots: int = 1
) -> Iterator[tuple[SparkSession, Path]]:
    """Yield a session with the job's settings, and a directory for its chains; both are removed afterwards.

    Args:
        command: the calling command, for the session's name.
        max_parallelism: the number of state partitions.
        slots: how many tasks run at once.

    Raises:
        NoJava: no suitable Java was found.
        CannotFetch: a connector's jars are missing and cannot be downloaded.
        SparkDoesNotStart: Java does not start, or Spark refuses the job's settings.
    """
    from streamjob_runtime.spark.connectors.finding import needed
    from streamjob_runtime.spark.session import SessionSettings, start_session

    with tempfile.TemporaryDirectory(prefix=f"streamjob-{command}-") as scratch:
        spark = start_session(
            SessionSettings(
                name=f"{command} {loaded.spec.name}",
                parallelism=slots,
                max_parallelism=max_parallelism,
                workdir=Path(scratch),
                conf=loaded.spark_conf(),
                python_path=(loaded.directory,),
                connectors=needed(loaded.spec, os.environ),
            )
        )
        try:
            yield spark, Path(scratch) / "chains"
        finally:
            spark.stop()
