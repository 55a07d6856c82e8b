"""A source in a bucket finds the objects that arrive while its job runs, each once, and says what it does not read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.integration.core import thorough
from tests.integration.runtime.agents import free_port
from tests.integration.runtime.processes import JobProcess, JobRuns, job_runs
from tests.integration.sinks.buckets import Bucket

from streamjob.errors import ExitCode
from streamjob.ids import Key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

OF_AN_OBJECT = 5


def put(bucket: Bucket, key: str, first: int) -> None:
    rows = range(first, first + OF_AN_OBJECT)
    bucket.objects.put(Key(f"in/{key}"), "".join(f'{{"id": {each}}}\n' for each in rows).encode())


class Job:
    """A job that reads what arrives below a prefix, and its runs."""

    def __init__(self, bucket: Bucket, directory: Path, runs: JobRuns) -> None:
        self.bucket = bucket
        self.runs = runs
        self.output = directory / "out"

    def start(self, *arguments: str, **environment: str) -> JobProcess:
        return self.runs.start(*arguments, environment=self.bucket.server.environment | environment)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows that are published."""
        files = sorted(self.output.glob("*.json")) if self.output.exists() else []
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def ids(self) -> Counter[int]:
        return Counter(row["id"] for row in self.rows())

    def wait_for(self, condition: Callable[[], bool], what: str, process: JobProcess) -> None:
        self.runs.wait(condition, what, process)

    def wait_for_rows(self, number: int, process: JobProcess) -> None:
        self.wait_for(lambda: len(self.rows()) >= number, f"{number} rows", process)


@contextmanager
def job_of(bucket: Bucket, directory: Path, schema: str = "id BIGINT", **options: str) -> Iterator[Job]:
    """Run a job that copies the rows of objects into a directory; options are the source's."""
    described = {
        "name": "arrivals",
        "checkpointing": {"interval": "300ms"},
        "sources": [
            {
                "name": "rows",
                "format": "json",
                "schema": schema,
                "options": {"path": f"{bucket.path}/in", "checkInterval": "250ms", **options},
            }
        ],
        "sinks": [{"name": "out", "input": "rows", "format": "json", "options": {"path": "out"}}],
    }
    file = directory / "job.yaml"
    file.write_text(json.dumps(described))
    with job_runs(file, directory / "snapshots", "arrivals") as runs:
        yield Job(bucket, directory, runs)


@pytest.mark.timeout(600)
def test_objects_that_arrive_are_read_once_each_however_often_the_job_is_killed(bucket: Bucket, tmp_path: Path) -> None:
    """The job begins with an empty prefix. The first objects name a column in their directories; late ones go into old
    directories."""
    with job_of(bucket, tmp_path, "id BIGINT, day INT", listAllEvery="1s") as job:
        process = job.start()
        number = 0
        for life in range(3):
            of_days = [f"day={life * 10 + day}/a b+ü%20-{life}.json" for day in range(3)]
            for key in (*of_days, f"day=0/late-{life}.json"):
                put(bucket, key, number * OF_AN_OBJECT)
                number += 1
            # Now and then it is killed while it reads.
            job.wait_for_rows((number - 3 * (life % 2)) * OF_AN_OBJECT, process)
            process.kill()
            process = job.start()
        job.wait_for_rows(number * OF_AN_OBJECT, process)
        process.kill()
        assert job.ids() == Counter(range(number * OF_AN_OBJECT))
        assert {row["day"] for row in job.rows()} == {life * 10 + day for life in range(3) for day in range(3)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("then", thorough(["fail", "read", "ignore"], "fail"))
def test_an_object_that_is_replaced_is_handled_as_the_source_says(bucket: Bucket, tmp_path: Path, then: str) -> None:
    put(bucket, "a.json", 0)
    put(bucket, "b.json", 5)
    with job_of(bucket, tmp_path, onReplaced=then) as job:
        process = job.start()
        job.wait_for_rows(10, process)
        put(bucket, "a.json", 100)
        if then == "fail":
            assert process.wait() == ExitCode.INVALID_INPUT
            said = process.output()
            assert f"s3a://{bucket.name}/lake/out/in/a.json" in said
            assert "onReplaced=read" in said
        else:
            put(bucket, "c.json", 200)
            job.wait_for_rows(20 if then == "read" else 15, process)
        process.kill()
        expected = [
            *range(10),
            *(range(200, 205) if then != "fail" else ()),
            *(range(100, 105) if then == "read" else ()),
        ]
        assert job.ids() == Counter(expected)


@pytest.mark.timeout(300)
def test_a_job_goes_on_where_a_plain_query_stopped(spark: SparkSession, bucket: Bucket, tmp_path: Path) -> None:
    """The query has read the bucket's files where the server keeps them; in its log they get their names in S3A."""
    for number in range(12):
        put(bucket, f"a b%20ü-{number}.json", number * OF_AN_OBJECT)
    place = bucket.directory / "in"
    checkpoint = tmp_path / "plain"
    reader = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).json(str(place))
    written = reader.writeStream.format("parquet").option("path", str(tmp_path / "before"))
    written.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    for file in (checkpoint / "sources" / "0").iterdir():
        if not file.name.startswith("."):
            text = file.read_text("utf-8").replace(f"file://{place}", f"s3a://{bucket.name}/lake/out/in")
            file.write_text(text, "utf-8")
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    put(bucket, "later.json", 1000)
    put(bucket, "a b%20ü-3.json", 15)

    with job_of(bucket, tmp_path) as job:
        process = job.start("--from", f"spark:{checkpoint}")
        job.wait_for_rows(OF_AN_OBJECT, process)
        put(bucket, "last.json", 2000)
        job.wait_for_rows(2 * OF_AN_OBJECT, process)
        process.kill()
        process = job.start()
        put(bucket, "behind.json", 3000)
        job.wait_for_rows(3 * OF_AN_OBJECT, process)
        process.kill()
        assert job.ids() == Counter(first + number for first in (1000, 2000, 3000) for number in range(OF_AN_OBJECT))


@pytest.mark.timeout(300)
def test_the_unread_objects_are_told_batch_by_batch_until_there_are_none(bucket: Bucket, tmp_path: Path) -> None:
    port, seen = free_port(), []

    def figures() -> tuple[float | None, ...]:
        """Return the number of unread objects, their bytes, and the lag in seconds."""
        try:
            text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        except httpx.TransportError:
            return (None, None, None)
        names = ("files_unread", "bytes_unread", "lag_seconds")
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        values = [lines.get(f'streamjob_source_{name}{{source="rows"}}') for name in names]
        return tuple(None if each is None else float(each) for each in values)

    def is_read() -> bool:
        seen.append(figures())
        return seen[-1] == (0, 0, 0)

    for number in range(8):
        put(bucket, f"{number}.json", number * OF_AN_OBJECT)
    with job_of(bucket, tmp_path, maxFilesPerTrigger="1") as job:
        process = job.start(STREAMJOB_METRICS_PORT=str(port))
        job.wait_for(is_read, "end of the unread objects", process)
        job.wait_for_rows(8 * OF_AN_OBJECT, process)
        process.kill()

    known = [(files, size, lag) for files, size, lag in seen if files is not None]
    counts = [files for files, _, _ in known]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) > 2
    assert all(0 < (lag or 0) < 600 and 50 < (size or 0) / files < 60 for files, size, lag in known if files)


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_path_may_name_one_object(bucket: Bucket, tmp_path: Path) -> None:
    put(bucket, "one.json", 0)
    put(bucket, "one.json.other", 5)
    with job_of(bucket, tmp_path, path=f"{bucket.path}/in/one.json") as job:
        process = job.start()
        job.wait_for_rows(5, process)
        process.kill()
        assert job.ids() == Counter(range(5))


@pytest.mark.timeout(300)
def test_a_path_that_moves_from_a_directory_to_a_bucket_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')
    put(bucket, "a.json", 0)
    with job_of(bucket, tmp_path, path=f"{bucket.path}/in") as job:
        in_bucket = job.runs.file.read_text()
        described = json.loads(in_bucket)
        described["sources"][0]["options"] = {"path": str(tmp_path / "in")}
        job.runs.file.write_text(json.dumps(described))
        process = job.start()
        job.wait_for_rows(1, process)
        process.kill()
        job.runs.file.write_text(in_bucket)
        process = job.start()
        assert process.wait() == ExitCode.CANNOT_RESTORE
        assert "its state is about other files" in process.output()
