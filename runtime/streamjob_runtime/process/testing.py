"""Behind `streamjob test` and `streamjob preview`: starts a Spark for them."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamjob.job.loading.job_tests import JobTestSpec
from streamjob.job.loading.load import LoadedJob
from streamjob_runtime.spark.connectors.finding import compilers, needed
from streamjob_runtime.spark.holder import SparkHolder
from streamjob_runtime.spark.job_files import JobFiles
from streamjob_runtime.spark.session import SessionSettings
from streamjob_runtime.testing.file_tests import Result, run_tests
from streamjob_runtime.testing.preview import Preview, part_of, preview
from streamjob_runtime.testing.session import Session, changeable_conf

_SLOTS = 2


@contextmanager
def session_for(loaded: LoadedJob, connectors: tuple[str, ...] = ()) -> Iterator[tuple[Session, Path]]:
    """Yield a Spark with the settings of a job, and a directory for its files; both end with the context.

    Args:
        connectors: the formats of the connectors to load; a job under test needs those of its records.

    Raises:
        CannotFetch: a connector's jars are missing and cannot be downloaded.
        NoJava: no suitable Java was found.
        SparkDoesNotStart: Java does not start, or Spark refuses the job's settings.
    """
    # The jobs' errors are part of the results; a killed job is no news.
    for name in ("py4j", "streamjob"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory(prefix="streamjob-test-") as scratch:
        root = Path(scratch)
        settings = SessionSettings(
            name=f"test {loaded.spec.name}",
            parallelism=_SLOTS,
            max_parallelism=_SLOTS,
            workdir=root / "spark",
            conf=changeable_conf(loaded),
            python_path=(loaded.directory,),
            connectors=connectors,
            root=root,
        )
        spark = SparkHolder(settings, root / "spark.log")
        try:
            yield Session(spark.session(_SLOTS), JobFiles(root)), root
        finally:
            spark.stop()


def run_job_tests(loaded: LoadedJob, tests: Sequence[JobTestSpec], *, kills: bool) -> Iterator[Result]:
    """Run tests of a job, on a Spark of their own; yield each result as it comes.

    Args:
        kills: kill and restore the job in every step.
    """
    with session_for(loaded, compilers(loaded.spec)) as (session, directory):
        yield from run_tests(loaded, tests, session, directory, kills=kills)


def preview_job(
    loaded: LoadedJob,
    name: str | None,
    *,
    rows: int,
    sampled: int,
    given: Mapping[str, Sequence[Any]] | None,
    within: float,
) -> Preview:
    """Return what an operator returns for a sample of its sources, on a Spark of its own; see `testing.preview`."""
    part = part_of(loaded, name, given or ())
    connectors = compilers(part.spec) if given is not None else needed(part.spec, os.environ)
    with session_for(loaded, connectors) as (session, directory):
        return preview(loaded, name, session, directory, rows=rows, sampled=sampled, given=given, within=within)
