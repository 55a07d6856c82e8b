"""Jobs on executors in processes of their own, which share no directory and are killed."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.runtime.agents import Agents
from tests.integration.runtime.executor_processes import LONG, ON_TWO, agents_of_executors, java_of_executors, kill
from tests.integration.runtime.kinds_of_state import KINDS, ROOT, all_sessions, sessions_of, state_job
from tests.integration.runtime.processes import JobProcess, JobRuns, job_runs
from tests.integration.runtime.purchases import Purchases, line_rows, table_rows, write_job

from streamjob.client.client import ControlClient
from streamjob.client.discovery import find_endpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES, ROWS = 8, 100

COUNTED = {"sparkConf": {"spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "true"}}

SLOWLY = """
import os
import time

from pyspark.sql import functions as F


@F.udf("bigint")
def twice(amount):
    time.sleep(0.005)
    return 2 * amount


@F.udf("string")
def worker():
    return str(os.getppid())


def doubled(numbers):
    return numbers.select("id", twice("amount").alias("amount"), worker().alias("worker"))
"""


def numbers_job(directory: Path) -> Path:
    """Write the input, the functions and the file of a job that doubles numbers slowly."""
    for file in range(FILES):
        lines = [json.dumps({"id": file * ROWS + row, "amount": row}) for row in range(ROWS)]
        (directory / "in").mkdir(parents=True, exist_ok=True)
        (directory / "in" / f"{file}.json").write_text("\n".join(lines))
    (directory / "slowly.py").write_text(SLOWLY)
    job = jobs.job_file(
        jobs.python("doubled", "numbers", "slowly:doubled"),
        sources=[jobs.files("numbers", directory / "in", "id BIGINT, amount BIGINT", bounded=True)],
        sinks=[jobs.sink("doubled", "json", "out")],
        name="numbers",
        maxParallelism=2,
        checkpointing={"interval": "300ms"},
    )
    return write_job(directory, job)


def output(directory: Path) -> list[dict[str, Any]]:
    """Return the published rows of a JSON sink."""
    return [json.loads(line) for file in sorted(directory.glob("*.json")) for line in file.read_text().splitlines()]


def wait_for_java(runs: JobRuns, process: JobProcess, workdir: Path, count: int) -> dict[str, int]:
    """Wait until so many executors have their Java; return them."""
    runs.wait(lambda: len(java_of_executors(workdir)) >= count, f"{count} executors", process)
    return java_of_executors(workdir)


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[JobRuns]:
    with job_runs(numbers_job(tmp_path), tmp_path / "snapshots", "numbers") as runs:
        yield runs


def test_a_job_without_state_goes_on_when_an_executor_is_killed(numbers: JobRuns, tmp_path: Path) -> None:
    process = numbers.start(*ON_TWO)
    numbers.wait_for_progress(0, process)
    victims = wait_for_java(numbers, process, tmp_path / "work", 2)

    kill(victims["executor-0"])

    assert process.wait() == 0, process.output()
    rows = output(tmp_path / "out")
    assert Counter((row["id"], row["amount"]) for row in rows) == Counter(
        (file * ROWS + row, 2 * row) for file in range(FILES) for row in range(ROWS)
    )
    assert numbers.epoch() == 1
    assert "is lost" in process.output()
    deadline = time.monotonic() + 30
    while agents_of_executors(tmp_path / "work") or java_of_executors(tmp_path / "work"):
        assert time.monotonic() < deadline, "executors outlive the job that started them"
        time.sleep(0.05)


def test_a_stop_is_heeded_while_executors_are_missing(numbers: JobRuns, tmp_path: Path) -> None:
    nobody = Agents(tmp_path / "machines")
    process = numbers.start(*nobody.arguments, environment=nobody.environment)
    numbers.wait_for_claim(0, process)

    process.send(signal.SIGTERM)

    assert process.wait() == 0, process.output()
    assert "numbers is STOPPED" in process.output()
    assert "No executor has come" not in process.output()
    assert "Traceback" not in process.output()


@pytest.fixture
def purchases(tmp_path: Path) -> Iterator[tuple[JobRuns, Purchases]]:
    made = Purchases.write(tmp_path / "input", files=16, rows=30)
    with job_runs(write_job(tmp_path, made.job() | COUNTED), tmp_path / "snapshots", "purchases") as runs:
        yield runs, made


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_state_on_executors_survives_every_kill(
    purchases: tuple[JobRuns, Purchases], spark: SparkSession, tmp_path: Path
) -> None:
    runs, made = purchases
    first = runs.start(*ON_TWO)
    runs.wait_for_progress(1, first)

    runs.wait(lambda: _figures_agree(tmp_path / "work"), "figures of executors that are those of operators", first)
    # An executor's Java, then an agent with its Java, then all of it.
    kill(java_of_executors(tmp_path / "work")["executor-0"])
    runs.wait_for_claim(1, first)
    runs.wait(lambda: len(runs.completions(2)) > 0, "checkpoint behind the first loss", first)
    runs.wait_for_progress(runs.furthest(), first)
    kill(agents_of_executors(tmp_path / "work")["executor-1"])
    runs.wait_for_claim(2, first)
    runs.wait(lambda: len(runs.completions(3)) > 0, "checkpoint behind the second loss", first)
    first.kill()
    last = runs.start(*ON_TWO)

    assert last.wait(LONG) == 0, last.output()
    expected = made.batch(spark)
    assert table_rows(spark, tmp_path / "table") == expected
    assert line_rows(spark, tmp_path / "lines") == expected


def _figures_agree(workdir: Path) -> bool:
    """Return whether both executors work, and have the state of all operators together."""
    endpoint = find_endpoint(workdir=workdir)
    with ControlClient(endpoint.url, endpoint.token) as client:
        job = client.job()
    assert job.executors is not None
    operators = [each for chain in job.chains for each in chain.operator_figures]
    rows, there = sum(each.state_rows or 0 for each in operators), job.executors.executors
    return (
        all(min(each.state_rows or 0, each.records_in, each.busy, each.state_bytes) > 0 for each in there)
        and sum(each.state_rows or 0 for each in there) == rows
    )


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_executors_outlive_their_driver_and_bring_the_files_that_they_hold(spark: SparkSession, tmp_path: Path) -> None:
    made = Purchases.write(tmp_path / "input", files=6, rows=30)
    runs = JobRuns(write_job(tmp_path, made.job()), tmp_path / "snapshots", "purchases")
    agents = Agents(tmp_path / "machines")
    agents.start()
    try:
        first = runs.start(*agents.arguments, environment=agents.environment)
        runs.wait(lambda: runs.furthest() > 0, "checkpoint with state", first, LONG)
        first.kill()
        before = len(agents.log())
        last = runs.start(*agents.arguments, workdir="another", environment=agents.environment)

        assert last.wait(LONG) == 0, last.output()
    finally:
        runs.end()
        codes = agents.end()
    assert codes == [0, 0]
    assert table_rows(spark, tmp_path / "table") == made.batch(spark)
    brought = re.findall(r"(\d+) files, (\d+) bytes of them downloaded", agents.log()[before:])
    assert brought, agents.log()
    assert {downloaded for _, downloaded in brought} == {"0"}


@pytest.mark.timeout(600)
@pytest.mark.thorough
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_of_state_comes_back_from_executors(kind: str, tmp_path: Path) -> None:
    with job_runs(state_job(tmp_path, kind), tmp_path / "snapshots", "state") as runs:
        process = runs.start(*ON_TWO, environment={"PYTHONPATH": str(ROOT)})
        runs.wait(lambda: runs.furthest() > 0, "checkpoint with state", process, LONG)

        # An executor dies and its files stay, then everything dies and no file stays.
        kill(java_of_executors(tmp_path / "work")["executor-0"])
        runs.wait_for_claim(1, process)
        process.kill()
        last = runs.start(*ON_TWO, workdir="another", environment={"PYTHONPATH": str(ROOT)})

        assert last.wait(LONG) == 0, last.output()

    assert sessions_of(tmp_path / "out") == all_sessions()
