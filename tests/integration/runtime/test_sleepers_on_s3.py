"""Processes that fall asleep with a request to S3 on the way, which arrives when others have long gone on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.processes import JobProcess, JobRuns, job_runs
from tests.integration.runtime.purchases import Purchases, Rows, line_rows, table_rows, write_job
from tests.servers.faulty import FaultyProxy, Forward, Request, Response
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

SUPERSEDED = 4


class Delay:
    """A fault that keeps a request, or the answer to it, until it is let go."""

    def __init__(self, *, applied: bool) -> None:
        self._applied = applied
        self._go_on = threading.Event()
        self.reached = threading.Event()

    def __call__(self, request: Request, forward: Forward) -> Response:
        response = forward(request) if self._applied else None
        self.reached.set()
        self._go_on.wait()
        return response or forward(request)

    def let_go(self) -> None:
        self._go_on.set()


class Sleeper:
    """A process of the job that was stopped with a request on the way."""

    def __init__(self, process: JobProcess, delay: Delay) -> None:
        self._process = process
        self._delay = delay

    def wake(self) -> None:
        """Let the request arrive, then wake the process, which must end without a further effect."""
        self._delay.let_go()
        self._process.wake()
        assert self._process.wait() == SUPERSEDED, self._process.output()


@pytest.fixture
def fall_asleep(s3: S3Server) -> Iterator[Callable[[JobRuns, str, str, bool], Sleeper]]:
    """Start a process, let it complete a checkpoint, and stop it with a request of a kind on the way."""
    with ExitStack() as cleanup:

        def start(runs: JobRuns, operation: str, key: str, applied: bool) -> Sleeper:
            proxy = cleanup.enter_context(FaultyProxy(s3.port))
            delay = Delay(applied=applied)
            cleanup.callback(delay.let_go)
            before = runs.furthest()
            environment = {"AWS_ENDPOINT_URL": proxy.endpoint}
            process = runs.start(workdir=f"work-{proxy.port}", environment=environment)
            runs.wait_for_progress(before, process)
            proxy.on(operation, delay, key=key)
            runs.wait(delay.reached.is_set, f"{operation} {key}", process)
            process.stop()
            return Sleeper(process, delay)

        yield start


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_requests_of_sleepers_that_arrive_late_change_nothing(
    s3: S3Server,
    fall_asleep: Callable[[JobRuns, str, str, bool], Sleeper],
    purchases: Purchases,
    expected: Rows,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    job = purchases.job(checkpointing={"interval": "400ms", "numRetained": 1})
    location = f"s3://{s3.bucket}/{tmp_path.name}"
    with job_runs(write_job(tmp_path, job), location, "purchases") as runs:
        before_record = fall_asleep(runs, "PutObject", "log/", False)
        before_deletion = fall_asleep(runs, "POST", "", False)
        before_manifest = fall_asleep(runs, "PutObject", "manifest.json", False)
        behind_record = fall_asleep(runs, "PutObject", "log/", True)
        epoch = runs.epoch() + 1
        last = runs.start(workdir="work-last")
        runs.wait(lambda: bool(runs.completions(epoch)), f"checkpoint of epoch {epoch}", last)

        before_record.wake()
        before_deletion.wake()
        assert last.wait() == 0, last.output()
        log = runs.completions()
        before_manifest.wake()
        behind_record.wake()

        assert runs.completions() == log
        assert {record.epoch for record in log} == {epoch}
        needed = {name for record in log for name in getattr(runs.manifest(record), "objects", frozenset)()}
        assert needed <= runs.files().keys()
        # A start once more finds the job finished, and its last checkpoint whole.
        again = runs.start(workdir="work-again")
        assert again.wait() == 0, again.output()

    assert table_rows(spark, tmp_path / "table") == expected
    assert line_rows(spark, tmp_path / "lines") == expected
