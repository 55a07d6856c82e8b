"""Executors whose store is slow, whose disk is full, and which are cut off and return."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.agents import Agents
from tests.integration.runtime.executor_processes import LONG, agents_of_executors, java_of_executors
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import Purchases, line_rows, table_rows, write_job
from tests.integration.runtime.small_disks import fill, small_disk_at
from tests.servers.faulty import FaultyProxy, Forward, Request, Response
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

SPACE = 64 << 20


class Slow:
    """A fault that only takes its time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.met = 0

    def __call__(self, request: Request, forward: Forward) -> Response:
        self.met += 1
        threading.Event().wait(self._seconds)
        return forward(request)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    """No executors yet; those that a test starts are ended."""
    made = Agents(tmp_path / "executors")
    yield made
    send(signal.SIGCONT, executor_processes(tmp_path, "executor-1"))
    made.end()


@pytest.fixture
def small_disk(agents: Agents) -> Iterator[Path]:
    """A file system of its own with little space, for the first executor."""
    with small_disk_at(agents.directory(0), SPACE) as directory:
        yield directory


def executor_processes(directory: Path, name: str) -> list[int]:
    """Return the agent of an executor below a directory and its Java."""
    there = (find(directory) for find in (agents_of_executors, java_of_executors))
    return [each[name] for each in there if name in each]


def send(number: signal.Signals, pids: list[int]) -> None:
    """Send a signal to processes."""
    for pid in pids:
        os.kill(pid, number)


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_a_slow_store_a_full_disk_and_a_cut_connection_of_an_executor_lose_nothing(
    spark: SparkSession, s3: S3Server, small_disk: Path, agents: Agents, tmp_path: Path
) -> None:
    made = Purchases.write(tmp_path / "input", files=16, rows=30)
    slow = Slow(0.5)
    with (
        FaultyProxy(s3.port) as proxy,
        job_runs(write_job(tmp_path, made.job()), f"s3://{s3.bucket}/{tmp_path.name}", "purchases") as runs,
    ):
        proxy.on("PUT", slow, times=float("inf"))
        agents.add()
        agents.add({"AWS_ENDPOINT_URL": proxy.endpoint})
        process = runs.start(*agents.arguments, environment=agents.environment)

        # The store of the second executor takes half a second for each upload: checkpoints take longer.
        runs.wait(lambda: runs.furthest() > 0, "checkpoint with state", process, LONG)
        assert slow.met > 0
        proxy.clear()

        # The first executor has no space left: the job begins again until there is some.
        epoch = runs.epoch()

        def has_failed() -> bool:
            # A task that fails gives its space back, and may succeed the second time.
            fill(small_disk)
            return runs.epoch() > epoch

        runs.wait(has_failed, "failure for want of space", process, LONG)
        fill(small_disk).unlink()
        runs.wait(lambda: len(runs.completions(runs.epoch())) > 0, "checkpoint with space", process, LONG)

        # The second executor is cut off until the job has given it up, and goes on then in the next epoch's time.
        epoch = runs.epoch()
        cut_off = executor_processes(tmp_path, "executor-1")
        send(signal.SIGSTOP, cut_off)
        runs.wait(lambda: runs.epoch() > epoch, "epoch without the executor", process, LONG)
        send(signal.SIGCONT, cut_off)

        assert process.wait(2 * LONG) == 0, process.output()
    expected = made.batch(spark)
    assert table_rows(spark, tmp_path / "table") == expected
    assert line_rows(spark, tmp_path / "lines") == expected
    # Java names the path, or Spark the executor.
    assert re.search(r"no space left at (\S*/executor-0/|the work directory of executor )", process.output())
    assert "is lost" in process.output()
