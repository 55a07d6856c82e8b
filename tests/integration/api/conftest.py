"""A served job and a client with its token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.api.served import ServedJob, serving


@pytest.fixture
def job() -> ServedJob:
    """Give a job that is served."""
    return ServedJob()


@pytest.fixture
def http(job: ServedJob, tmp_path: Path) -> Iterator[httpx.Client]:
    """Give a client of the job."""
    with serving(job, tmp_path) as client:
        yield client
