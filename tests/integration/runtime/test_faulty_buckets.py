"""A source is exact though its bucket refuses, breaks off, and changes under the reader, or it says why it is not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.processes import JobProcess, JobRuns, job_runs
from tests.integration.sinks.buckets import Bucket
from tests.servers.faulty import (
    Fault,
    FaultyProxy,
    Forward,
    Noted,
    Request,
    Response,
    answer,
    cut_before_applying,
    cut_halfway,
)

from streamjob.ids import Key

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

SMALL, LARGE = 5, 20_000
"""Rows of an object; a large one has 300 kB."""


def put(bucket: Bucket, key: str, first: int, rows: int = SMALL) -> None:
    """Put an object behind the proxy."""
    lines = "".join(f'{{"id": {each}}}\n' for each in range(first, first + rows))
    bucket.objects.put(Key(f"in/{key}"), lines.encode())


class Job:
    """A running job that reaches its source through a proxy, and the rows that it should have published."""

    def __init__(self, bucket: Bucket, proxy: FaultyProxy, runs: JobRuns, out: Path) -> None:
        self.bucket = bucket
        self.proxy = proxy
        self.expected: Counter[int] = Counter()
        self._runs = runs
        self._out = out
        environment = {**bucket.server.environment, "AWS_ENDPOINT_URL": proxy.endpoint}
        self.process: JobProcess = runs.start(environment=environment)

    def published(self) -> Counter[int]:
        files = self._out.glob("*.json") if self._out.exists() else ()
        return Counter(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())

    def put(self, key: str, rows: int = SMALL) -> None:
        """Put an object with new rows, which are expected."""
        first = max(self.expected, default=-1) + 1
        put(self.bucket, key, first, rows)
        self.expected.update(range(first, first + rows))

    def wait_for(self, noted: Noted, what: str) -> None:
        """Wait until a fault is met."""
        self.wait_until(noted.met.is_set, what)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds; the job must not end before."""
        self._runs.wait(condition, what, self.process)

    def arrives(self) -> None:
        """Wait until the expected rows are there, and no others."""
        self.wait_until(lambda: self.published() >= self.expected, f"{len(self.expected)} rows")
        assert self.published() == self.expected


@contextmanager
def job_of(bucket: Bucket, directory: Path, *sinks: dict[str, Any], **source: Any) -> Iterator[Job]:
    """Run a job that copies the rows of objects into a directory, and looks for new ones all the time."""
    options = {"path": f"{bucket.path}/in", "checkInterval": "250ms", **source.pop("options", {})}
    described = {
        "name": "faulty",
        "checkpointing": {"interval": "300ms"},
        "sources": [{"name": "rows", "format": "json", "schema": "id INT", "options": options, **source}],
        "sinks": [{"name": "out", "input": "rows", "format": "json", "options": {"path": "out"}}, *sinks],
    }
    file = directory / "job.yaml"
    file.write_text(json.dumps(described))
    with FaultyProxy(bucket.server.port) as proxy, job_runs(file, directory / "snapshots", "faulty") as runs:
        yield Job(bucket, proxy, runs, directory / "out")


def before(act: Callable[[], None]) -> Fault:
    """Return a fault that does something behind the proxy before the server sees the request."""

    def fault(request: Request, forward: Forward) -> Response:
        act()
        return forward(request)

    return fault


def after(act: Callable[[], None]) -> Fault:
    """Return a fault that does something behind the proxy when the server has answered."""

    def fault(request: Request, forward: Forward) -> Response:
        response = forward(request)
        act()
        return response

    return fault


FAULTS: dict[str, tuple[str, Fault, int]] = {
    "slow down listing": ("ListObjectsV2", answer(503), 8),
    "no connection to list": ("ListObjectsV2", cut_before_applying, 8),
    "half a listing": ("ListObjectsV2", cut_halfway, 3),
    "slow down reading": ("GetObject", answer(503), 4),
    "no connection to read": ("GetObject", cut_before_applying, 3),
    "half an object": ("GetObject", cut_halfway, 2),
    "an error of the server": ("GetObject", answer(500, "InternalError"), 2),
}
"""Operation, fault, and how many requests meet it one after the other."""


@pytest.mark.timeout(600)
def test_the_rows_of_a_source_are_exact_whatever_its_bucket_does(bucket: Bucket, tmp_path: Path) -> None:
    with job_of(bucket, tmp_path) as job:
        job.put("00.json")
        job.arrives()

        for number, (what, (operation, fault, times)) in enumerate(FAULTS.items()):
            key, noted = f"{number + 10}.json", Noted(fault)
            job.proxy.on(operation, noted, times, key=key if operation == "GetObject" else "")
            job.put(key, LARGE)
            job.wait_for(noted, what)
            job.arrives()
        assert "replaced" not in job.process.output()

        # Objects are replaced before they are read, or before their batch ends; only the new rows are published.
        for key, when in (("30.json", before), ("31.json", after)):
            first = max(job.expected) + 1 + SMALL
            swap = Noted(when(partial(put, bucket, key, first)))
            job.proxy.on("GetObject", swap, key=key)
            put(bucket, key, first - SMALL)
            job.expected.update(range(first, first + SMALL))
            job.wait_for(swap, f"replaced {key}")
            job.arrives()

        # An object is removed before it is read.
        gone = Noted(before(lambda: bucket.objects.delete([Key("in/32.json")])))
        job.proxy.on("GetObject", gone, key="32.json")
        put(bucket, "32.json", max(job.expected) + 1)
        job.wait_for(gone, "the removed object")
        job.put("33.json")
        job.arrives()

        assert job.process.exit_code is None
        said = job.process.output()
        assert "reading file s3a://" in said
        assert "in/30.json" in said
        assert "in/31.json was replaced or removed while a batch read it" in said
        assert "in/32.json. File does not exist" in said
