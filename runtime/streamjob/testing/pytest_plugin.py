"""Fixtures for tests of sinks and jobs; pytest finds them once streamjob is installed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from streamjob.testing import JobTest


@pytest.fixture(scope="session")
def streamjob_connectors() -> tuple[str, ...]:
    """The connectors in the session, by format, such as `kafka`. Override it to add some."""
    return ()


@pytest.fixture(scope="session")
def streamjob_spark_conf() -> dict[str, str]:
    """Settings of the session that cannot be changed later, such as `spark.jars`. Override it to add some."""
    return {}


@pytest.fixture(scope="session")
def streamjob_spark(
    tmp_path_factory: pytest.TempPathFactory,
    streamjob_connectors: tuple[str, ...],
    streamjob_spark_conf: dict[str, str],
) -> Iterator[Any]:
    """A Spark session with the settings of jobs, started for the first test that needs it."""
    from streamjob import runtime

    pytest.importorskip("pyspark", reason="needs streamjob[runtime]")
    session = runtime.start_session(
        runtime.SessionSettings(
            name="streamjob-tests",
            parallelism=2,
            max_parallelism=2,
            workdir=tmp_path_factory.mktemp("streamjob_spark"),
            conf=streamjob_spark_conf,
            connectors=streamjob_connectors,
            # Jobs of several tests run in this one process.
            root=tmp_path_factory.getbasetemp(),
        )
    )
    yield session
    session.stop()


@pytest.fixture
def streamjob_job(
    streamjob_spark: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., JobTest]]:
    """Return a function that puts a job under test: `job = streamjob_job("job.yaml")`.

    Its arguments are the job, a file or a `streamjob.Job`, and the keywords of `streamjob.testing.JobTest`. Jobs end
    with the test.
    """
    from streamjob import runtime
    from streamjob.testing import JobTest, Session

    session = Session(streamjob_spark, runtime.JobFiles(tmp_path_factory.getbasetemp()))
    with ExitStack() as jobs:

        def under_test(job: Any, **options: Any) -> JobTest:
            directory = tmp_path / f".streamjob-{uuid.uuid4().hex[:8]}"
            return jobs.enter_context(JobTest(job, session, directory, **options))

        yield under_test
