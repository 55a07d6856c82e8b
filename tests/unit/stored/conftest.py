"""A job with three checkpoints, and the command line that looks after them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.stored.job import Job, Run
from typer.testing import CliRunner, Result

from streamjob.cli.main import app


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job with checkpoints 1 to 3: `common` is in all of them, each has a file of its own."""
    job = Job(tmp_path / "location")
    common = job.upload(**{"state/common": b"c" * 100})
    for number in (1, 2, 3):
        job.complete(number, *common, *job.upload(**{"offsets": b"o%d" % number, "state/own": b"s%d" % number}))
    return job


@pytest.fixture
def run(job: Job, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(app, ["snapshots", *map(str, arguments)])

    return invoke
