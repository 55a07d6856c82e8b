"""Fixtures for tests of sinks and jobs; pytest finds them once streamjob is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def streamjob_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session with the settings that jobs run with, started for the first test that asks for it."""
    runtime = pytest.importorskip("streamjob_runtime.session", reason="needs streamjob[runtime]")
    pytest.importorskip("pyspark", reason="needs streamjob[runtime]")
    workdir = tmp_path_factory.mktemp("streamjob_spark")
    session = runtime.start_session(
        runtime.SessionSettings(name="streamjob-tests", parallelism=2, max_parallelism=2, workdir=workdir)
    )
    yield session
    session.stop()
