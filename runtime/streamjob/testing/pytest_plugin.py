"""Fixtures for tests of sinks and jobs; pytest finds them once streamjob is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def streamjob_connectors() -> tuple[str, ...]:
    """The connectors in the session, by format, such as `kafka`. Override it to add some."""
    return ()


@pytest.fixture(scope="session")
def streamjob_spark(tmp_path_factory: pytest.TempPathFactory, streamjob_connectors: tuple[str, ...]) -> Iterator[Any]:
    """A Spark session with the settings of jobs, started for the first test that needs it."""
    runtime = pytest.importorskip("streamjob_runtime.spark.session", reason="needs streamjob[runtime]")
    pytest.importorskip("pyspark", reason="needs streamjob[runtime]")
    session = runtime.start_session(
        runtime.SessionSettings(
            name="streamjob-tests",
            parallelism=2,
            max_parallelism=2,
            workdir=tmp_path_factory.mktemp("streamjob_spark"),
            connectors=streamjob_connectors,
            # Jobs of several tests run in this one process.
            root=tmp_path_factory.getbasetemp(),
        )
    )
    yield session
    session.stop()
