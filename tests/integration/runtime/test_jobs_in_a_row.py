"""What one job writes into a bucket is the input of the next: each row arrives once, however often both are killed."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.processes import JobProcess, JobRuns, job_runs
from tests.integration.sinks.buckets import Bucket

from streamjob.ids import Key

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

OF_AN_OBJECT, PARTS = 20, 3
_PATIENCE = 400.0
"""Seconds in which two jobs that start at once make progress on a busy machine."""


def put(bucket: Bucket, number: int) -> None:
    """Put the object with a number; every fifth one goes into an old directory."""
    day = 0 if number % 5 == 0 else number // 10
    rows = range(number * OF_AN_OBJECT, (number + 1) * OF_AN_OBJECT)
    lines = "".join(f'{{"id": {each}, "name": "n{each}"}}\n' for each in rows)
    bucket.objects.put(Key(f"in/day={day}/{number:05}.json"), lines.encode())


def expected(objects: int) -> Counter[tuple[int, str, int]]:
    """Return the rows of so many objects as they arrive: an id, a name, and the part of the bucket in the middle."""
    return Counter((each, f"n{each}", each % PARTS) for each in range(objects * OF_AN_OBJECT))


def arrived(bucket: Bucket) -> Counter[tuple[int, str, int]]:
    """Return the rows in the last bucket."""
    files = (bucket.directory / "out").rglob("part-*.json")
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return Counter((row["id"], row["name"], row["part"]) for row in rows)


def described(name: str, bucket: Bucket, source: dict[str, Any], sql: str, sink: dict[str, Any]) -> dict[str, Any]:
    """Return a job that finds objects soon, also those in old directories, and publishes often."""
    options = {"checkInterval": "250ms", "listAllEvery": "2s", "maxFilesPerTrigger": "7"}
    path = f"{bucket.path}/{source.pop('folder')}"
    return {
        "name": name,
        "checkpointing": {"interval": "400ms"},
        "sources": [{"name": "rows", **source, "options": {"path": path, **options}}],
        "operators": [{"name": "same", "inputs": ["rows"], "sql": sql}],
        "sinks": [{"name": "out", "input": "same", **sink}],
    }


class Row:
    """Two jobs and their processes."""

    def __init__(self, first: JobRuns, second: JobRuns, bucket: Bucket, executors: tuple[str, ...] = ()) -> None:
        self._runs = (first, second)
        self._more: tuple[tuple[str, ...], ...] = ((), executors)
        self._environment = bucket.server.environment
        self.processes = [self._start(which) for which in range(2)]

    def _start(self, which: int) -> JobProcess:
        return self._runs[which].start(*self._more[which], environment=self._environment)

    def kill(self, which: int) -> None:
        """Kill one of the jobs with all its processes, and start it again."""
        assert self.processes[which].exit_code is None, self.processes[which].output()
        self.processes[which].kill()
        self.processes[which] = self._start(which)

    def wait_for(self, bucket: Bucket, rows: Counter[tuple[int, str, int]]) -> None:
        """Wait until rows have arrived."""
        self._runs[1].wait(lambda: arrived(bucket) >= rows, f"{rows.total()} rows", self.processes[1], _PATIENCE)


@contextmanager
def in_a_row(bucket: Bucket, directory: Path, executors: tuple[str, ...] = ()) -> Iterator[Row]:
    """Run both jobs: the first one writes Parquet in directories, which the second one reads."""
    jobs = [
        described(
            "first",
            bucket,
            {"folder": "in", "format": "json", "schema": "id BIGINT, name STRING"},
            f"SELECT id, name, id % {PARTS} AS part FROM rows",
            {"format": "parquet", "partitionBy": ["part"], "options": {"path": f"{bucket.path}/mid"}},
        ),
        described(
            "second",
            bucket,
            {"folder": "mid", "format": "parquet", "schema": "id BIGINT, name STRING, part INT"},
            "SELECT id, name, part FROM rows",
            {"format": "json", "options": {"path": f"{bucket.path}/out"}},
        ),
    ]
    files = [directory / job["name"] / "job.yaml" for job in jobs]
    for file, job in zip(files, jobs, strict=True):
        file.parent.mkdir()
        file.write_text(json.dumps(job))
    with (
        job_runs(files[0], directory / "snapshots", "first") as first,
        job_runs(files[1], directory / "snapshots", "second") as second,
    ):
        yield Row(first, second, bucket, executors)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("kills", "executors"),
    [
        pytest.param(3, (), id="3-kills", marks=pytest.mark.thorough),
        pytest.param(20, (), id="20-kills", marks=pytest.mark.thorough),
        pytest.param(4, ("--executors", "2", "--executor-memory", "600m"), id="executors", marks=pytest.mark.thorough),
    ],
)
def test_each_row_arrives_once_however_often_both_jobs_are_killed(
    bucket: Bucket, tmp_path: Path, kills: int, executors: tuple[str, ...]
) -> None:
    chance, objects = random.Random(39 * kills), 1
    put(bucket, 0)
    with in_a_row(bucket, tmp_path, executors) as jobs:
        for number in range(kills):
            # Two in three die while they work, and the third one maybe before.
            if number % 3 < 2:
                jobs.wait_for(bucket, expected(objects))
            over = time.monotonic() + chance.uniform(0, 6)
            while time.monotonic() < over:
                put(bucket, objects)
                objects += 1
                time.sleep(chance.uniform(0.05, 0.4))
            jobs.kill(chance.randrange(2))
            assert arrived(bucket) <= expected(objects)
        put(bucket, objects)
        jobs.wait_for(bucket, expected(objects + 1))
        assert [process.exit_code for process in jobs.processes] == [None, None]

    assert arrived(bucket) == expected(objects + 1)


RESCALED = [
    ("--executors", "2", "--executor-memory", "600m"),
    ("--set", "parallelism=1"),
    ("--set", "parallelism=3", "--set", "maxParallelism=6"),
    (),
]
"""How the lives of a job with state differ: the second one has a task slot, the third one more partitions of state."""


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_a_job_goes_on_with_other_executors_task_slots_and_partitions(bucket: Bucket, tmp_path: Path) -> None:
    """It keeps each first row of a key; an object with known keys shows in each life that state is still there."""
    job = described(
        "rescaled",
        bucket,
        {"folder": "in", "format": "json", "schema": "id BIGINT, name STRING, day INT"},
        f"SELECT id, name, id % {PARTS} AS part FROM once",
        {"format": "json", "options": {"path": f"{bucket.path}/out"}},
    )
    once = {"name": "once", "inputs": ["rows"], "python": "functions:once"}
    job["operators"] = [once, {**job["operators"][0], "inputs": ["once"]}]
    job["maxParallelism"] = 4
    (tmp_path / "functions.py").write_text("def once(rows):\n    return rows.dropDuplicates(['id'])\n")
    file, objects = tmp_path / "job.yaml", 0
    file.write_text(json.dumps(job))
    with job_runs(file, tmp_path / "snapshots", "rescaled") as runs:
        for life in RESCALED:
            process = runs.start(*life, environment=bucket.server.environment)
            for _ in range(4):
                put(bucket, objects)
                objects += 1
            # The same rows under another name.
            again = bucket.objects.get(Key("in/day=0/00000.json"))
            bucket.objects.put(Key(f"in/day=0/again-{objects}.json"), again)
            rows = expected(objects)
            runs.wait(lambda rows=rows: arrived(bucket) >= rows, f"{rows.total()} rows", process)  # type: ignore[misc]
            process.kill()

    assert arrived(bucket) == expected(objects)
