"""A program with plain Spark is killed within a batch, and so is the start that takes it over: no row is lost."""

from __future__ import annotations

import json
import os
import signal
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
from tests.integration.runtime.processes import WITHIN, job_runs, members_of
from tests.integration.runtime.purchases import write_job
from tests.jobs import sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = [Row(f"k{number % 3}", number, number * 2) for number in range(180)]
WINDOWS = "SELECT k, string(window.start) AS start, string(count(*)) AS n FROM a GROUP BY k, window(at, '50 seconds')"
PROGRAM = f"""
import sys
from pyspark.sql import SparkSession

directory = sys.argv[1]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", 20)
spark.conf.set("spark.sql.session.timeZone", "UTC")
rows = spark.readStream.schema("{SCHEMA}").option("maxFilesPerTrigger", 1).json(directory + "/a")
rows.withWatermark("at", "0 seconds").createOrReplaceTempView("a")

def keep(batch, number):
    batch.write.mode("overwrite").json(f"{{directory}}/kept/{{number}}")

writer = spark.sql("{WINDOWS}").writeStream.foreachBatch(keep)
writer.option("checkpointLocation", directory + "/checkpoint").start().awaitTermination()
"""


@contextmanager
def program(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program; at the end it is killed with all that it started."""
    with (directory / "program.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(directory)],
            stdout=log,
            stderr=log,
            cwd=directory,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for pid in members_of(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()


def wait_for_commit(directory: Path, batch: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WITHIN
    while not (directory / "checkpoint" / "commits" / str(batch)).exists():
        assert process.poll() is None, (directory / "program.log").read_text()
        assert time.monotonic() < deadline, (directory / "program.log").read_text()
        time.sleep(0.05)


def kept(directory: Path) -> Counter[Any]:
    """Return the rows of the batches that the program has committed."""
    batches = [each.name for each in (directory / "checkpoint" / "commits").iterdir() if each.name.isdigit()]
    lines = (line for batch in batches for file in (directory / "kept" / batch).glob("*.json") for line in file.open())
    return Counter(tuple(json.loads(line)[name] for name in ("k", "start", "n")) for line in lines)


def test_a_program_and_the_start_that_takes_its_state_over_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(20):
        add_rows(tmp_path / "a", number, ROWS[number * 9 : (number + 1) * 9])
    with program(tmp_path) as process:
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
