"""A program with plain Spark is killed within a batch, and so is the start that takes it over: no row is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.architecture.documents import ROOT
from tests.integration.runtime.graphs import SCHEMA, Row, add_rows, job, output, rows_of, source
from tests.integration.runtime.processes import WITHIN, job_runs, kill_session
from tests.integration.runtime.purchases import write_job
from tests.jobs import sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = [Row(f"k{number % 3}", number, number * 2) for number in range(180)]
WINDOWS = "SELECT k, string(window.start) AS start, string(count(*)) AS n FROM a GROUP BY k, window(at, '50 seconds')"
LATEST = "SELECT k, max(n) AS n FROM a GROUP BY k, window(at, '20 seconds')"
ODD = "SELECT k, n FROM a WHERE n % 2 = 1"
QUERIES = {"": WINDOWS, "windows": WINDOWS, "latest": LATEST, "odd": ODD}
PROGRAM = f"""
import sys
from pyspark.sql import SparkSession

directory = sys.argv[1]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", 20)
spark.conf.set("spark.sql.session.timeZone", "UTC")
rows = spark.readStream.schema("{SCHEMA}").option("maxFilesPerTrigger", 1).json(directory + "/a")
rows.withWatermark("at", "0 seconds").createOrReplaceTempView("a")

def start(name):
    def keep(batch, number):
        batch.write.mode("overwrite").json(f"{{directory}}/kept{{name}}/{{number}}")

    writer = spark.sql({QUERIES}[name]).writeStream.foreachBatch(keep)
    return writer.option("checkpointLocation", directory + "/checkpoint" + name).start()

for query in [start(name) for name in sys.argv[2:]]:
    query.awaitTermination()
"""


@contextmanager
def program(directory: Path, *queries: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program with some of its queries; at the end it is killed with all that it started."""
    with (directory / "program.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(directory), *queries],
            stdout=log,
            stderr=log,
            cwd=directory,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_session(process)


def wait_for_commit(directory: Path, batch: int, process: subprocess.Popen[bytes], query: str = "") -> None:
    deadline = time.monotonic() + WITHIN
    while not (directory / f"checkpoint{query}" / "commits" / str(batch)).exists():
        assert process.poll() is None, (directory / "program.log").read_text()
        assert time.monotonic() < deadline, (directory / "program.log").read_text()
        time.sleep(0.05)


def kept(directory: Path, query: str = "") -> Counter[Any]:
    """Return the rows of the batches that a query has committed."""
    commits, folder = directory / f"checkpoint{query}" / "commits", directory / f"kept{query}"
    batches = [each.name for each in commits.iterdir() if each.name.isdigit()]
    lines = (line for batch in batches for file in (folder / batch).glob("*.json") for line in file.open())
    return Counter(tuple(json.loads(line).values()) for line in lines)


def test_a_program_and_the_start_that_takes_its_state_over_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(20):
        add_rows(tmp_path / "a", number, ROWS[number * 9 : (number + 1) * 9])
    with program(tmp_path, "") as process:
        wait_for_commit(tmp_path, 4, process)
    before = kept(tmp_path)
    assert before

    made = job(tmp_path, [source("a", tmp_path / "a", bounded=True)], [sql("made", ["a"], WINDOWS)], ["made"])
    file = write_job(tmp_path / "job", made)
    named, environment = ("--from", f"spark:{tmp_path / 'checkpoint'}"), {"PYTHONPATH": str(ROOT)}
    with job_runs(file, tmp_path / "snapshots", "graph") as runs:
        first = runs.start(*named, environment=environment)
        runs.wait(lambda: "Converting the state" in first.output(), "conversion", first)
        first.kill()
        assert "is converted" not in first.output()
        assert not list(runs.root.rglob("savepoints/*"))

        second = runs.start(*named, environment=environment)
        assert second.wait() == 0, second.output()
        assert "rows, verified, in" in second.output()
        left = [each.name for each in (tmp_path / "job" / "work").glob("process-*")]
    assert left == []

    batch = spark.newSession()
    batch.read.schema(SCHEMA).json(str(tmp_path / "a")).createOrReplaceTempView("a")
    assert before + rows_of(output(tmp_path, "made")) == Counter(tuple(row) for row in batch.sql(WINDOWS).collect())


def test_the_queries_of_a_killed_program_go_on_as_the_chains_of_one_job(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(20):
        add_rows(tmp_path / "a", number, ROWS[number * 9 : (number + 1) * 9])
    names = ("windows", "latest", "odd")
    with program(tmp_path, *names) as process:
        for name in names:
            wait_for_commit(tmp_path, 3, process, name)
    before = {name: kept(tmp_path, name) for name in names}
    assert all(before.values())

    sources = [source(f"of_{name}", tmp_path / "a") for name in names]
    operators = [sql(name, [f"of_{name}"], QUERIES[name].replace("FROM a", f"FROM of_{name}")) for name in names]
    file = write_job(tmp_path / "job", job(tmp_path, sources, operators, list(names)))
    places = ",".join(f"{name}={tmp_path / f'checkpoint{name}'}" for name in names)
    run, environment = ("--available-now", "--from", f"spark:{places}"), {"PYTHONPATH": str(ROOT)}
    batch = spark.newSession()
    with job_runs(file, tmp_path / "snapshots", "graph") as runs:
        killed = runs.start(*run, environment=environment)
        runs.wait(lambda: len(runs.completions()) > 0, "checkpoint", killed)
        killed.kill()
        again = runs.start(*run, environment=environment)
        assert again.wait() == 0, again.output()
        assert "The job has taken over" in again.output()
        add_rows(tmp_path / "a", 20, [Row("k0", 180, 10_000), Row("k1", 180, 10_000), Row("k2", 180, 10_000)])
        last = runs.start("--available-now", environment=environment)
        assert last.wait() == 0, last.output()

    batch.read.schema(SCHEMA).json(str(tmp_path / "a")).createOrReplaceTempView("a")
    # The windows of the last rows are open.
    closed = {"windows": "start < '2026-01-01 14:46:40'", "latest": "n < 180", "odd": "true"}
    for name in names:
        expected = batch.sql(QUERIES[name]).where(closed[name]).collect()
        assert before[name] + rows_of(output(tmp_path, name)) == Counter(tuple(row) for row in expected), name
