"""A plain query is stopped and moved: its command may be repeated, and its output directory becomes the job's."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow.parquet import read_table
from tests.integration.runtime.embedded import finish, life_in, running
from tests.integration.runtime.processes import PROGRAM, job_runs
from tests.integration.runtime.purchases import add_file, write_job
from tests.jobs import files, job_file

from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.log.records import JobId
from streamjob.store.opening import open_location
from streamjob_runtime.chain.sources.discovered_files import WrittenBySpark
from streamjob_runtime.restoring.from_spark import was_taken_over
from streamjob_runtime.sinks.errors import PlaceOfQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


class Moved:
    """A query that copies numbered rows, one a file, and the job to which it is moved.

    Args:
        out: the output directory of the query; None if it writes nothing.
        fields: of the job's sink.
    """

    def __init__(self, spark: SparkSession, directory: Path, out: Path | None = None, **fields: Any) -> None:
        self._session = spark.newSession()
        self._session.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
        self._directory = directory
        self._out = out
        self._rows = 0
        written = {"name": "out", "input": "rows", "format": "parquet", "options": {"path": str(directory / "out")}}
        source = files("rows", directory / "in", "id INT", bounded=bool(out))
        self.job = job_file(sources=[source], sinks=[{**written, **fields}], checkpointing={"interval": "300ms"})

    def add(self, number: int) -> None:
        """Add so many rows to the input."""
        for each in range(self._rows, self._rows + number):
            add_file(self._directory / "in", each, [{"id": each}])
        self._rows += number

    def query(self, checkpoint: str = "checkpoint") -> str:
        """Run the query until it has read all, in a batch a file; return its checkpoint as `--from` takes it."""
        reader = self._session.readStream.schema("id INT").option("maxFilesPerTrigger", 1)
        writer = reader.json(str(self._directory / "in")).writeStream.format("noop")
        if self._out is not None:
            writer = writer.format("parquet").option("path", str(self._out))
        place = self._directory / checkpoint
        writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start().awaitTermination()
        return f"spark:{place}"

    def read(self) -> Sequence[int]:
        """Return the rows that Spark's reader sees in the output of the query and the job."""
        return sorted(row.id for row in self._session.read.parquet(str(self._directory / "out")).collect())


def stray(directory: Path) -> None:
    """Leave what a batch leaves that was written and not committed."""
    file = next(directory.glob("part-*"))
    shutil.copy(file, file.with_name(f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"))


def test_a_start_from_a_query_that_is_repeated_after_a_kill_continues(spark: SparkSession, tmp_path: Path) -> None:
    moved = Moved(spark, tmp_path)
    moved.add(2)
    named = moved.query()
    moved.add(5)
    file = write_job(tmp_path, moved.job)
    store = open_location(str(tmp_path / "snapshots")).job("default", "job").store()

    with job_runs(file, tmp_path / "snapshots", "job") as runs:
        first = runs.start("--from", named)
        runs.wait_for_progress(4, first)
        first.kill()
        moved.add(3)
        second = runs.start("--from", named)
        runs.wait_for_progress(8, second)
        second.send(signal.SIGTERM)
        assert second.wait() == 0
        assert moved.read() == list(range(2, 10))
        assert "already, and continues from its own checkpoint" in second.output()
        assert "a fork:" not in second.output()

        command = [
            str(PROGRAM),
            "check",
            str(file),
            "--location",
            str(tmp_path / "snapshots"),
            "--from",
            named,
            "--no-spark",
        ]
        checked = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "the job has taken it over already" in checked.stderr
        planned = plan(load_job(file).spec)
        assert was_taken_over(named, planned, JobId("default", "job"), store)
        # Another query, and this one once it has gone on, are taken over: the user asks for what they have read.
        assert not was_taken_over(moved.query("other"), planned, JobId("default", "job"), store)
        moved.query()
        assert not was_taken_over(named, planned, JobId("default", "job"), store)


@pytest.mark.core
def test_a_job_writes_where_a_query_has_written_once_the_directory_is_adopted(
    spark: SparkSession, tmp_path: Path
) -> None:
    moved = Moved(spark, tmp_path, tmp_path / "out")
    moved.add(5)
    named = moved.query()
    assert sorted(each.name for each in (tmp_path / "out/_spark_metadata").glob("[0-9]*"))[-1] == "4"
    # What a batch leaves that did not commit: Spark's readers do not see it.
    stray(tmp_path / "out")
    assert moved.read() == list(range(5))
    moved.add(2)
    life = life_in(tmp_path, moved.job)

    with pytest.raises(PlaceOfQuery, match="streamjob adopt"):
        finish(spark, life)
    assert not (tmp_path / "out/_streamjob").exists()
    command = [
        str(PROGRAM),
        "check",
        str(life.file),
        "--location",
        life.location,
        "--from",
        named,
        "--no-spark",
        "--json",
    ]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    findings = {each["uid"]: each for each in map(json.loads, checked.stdout.splitlines())}
    assert (checked.returncode, findings["out"]["cause"]) == (2, "PlaceOfQuery")

    subprocess.run([str(PROGRAM), "adopt", str(tmp_path / "out"), "--yes"], check=True)
    assert moved.read() == list(range(5))
    finish(spark, life)
    assert moved.read() == sorted([*range(5), *range(7)])


class Reader:
    """A job that copies what a query writes."""

    def __init__(self, directory: Path, **options: Any) -> None:
        source = files("rows", directory / "out", "id INT", "parquet", options=options)
        out = {"name": "copies", "input": "rows", "format": "parquet", "options": {"path": str(directory / "copies")}}
        job = job_file(sources=[source], sinks=[out], checkpointing={"interval": "300ms"})
        self.life = life_in(directory, job)
        self._copies = directory / "copies"

    def rows(self) -> list[int]:
        """Return what it has published."""
        return sorted(row for file in self._copies.glob("part-*") for row in read_table(file)["id"].to_pylist())


def test_a_source_reads_of_a_querys_output_what_its_log_names(spark: SparkSession, tmp_path: Path) -> None:
    moved, reader = Moved(spark, tmp_path, tmp_path / "out"), Reader(tmp_path)
    moved.add(4)
    moved.query()
    stray(tmp_path / "out")

    with running(spark, reader.life) as job:
        job.wait_for(lambda: len(reader.rows()) >= 4, "what the query had committed")
        stray(tmp_path / "out")
        moved.add(4)
        moved.query()
        job.wait_for(lambda: len(reader.rows()) >= 8, "what the query has committed since")
        job.stop()
    moved.add(1)
    moved.query()
    with running(spark, reader.life) as job:
        job.wait_for(lambda: len(reader.rows()) >= 9, "what the query committed meanwhile")
        job.stop()

    assert reader.rows() == list(range(9))


def test_a_source_notices_that_a_query_begins_to_write_where_it_reads(spark: SparkSession, tmp_path: Path) -> None:
    moved, reader = Moved(spark, tmp_path, tmp_path / "out"), Reader(tmp_path)
    (tmp_path / "out").mkdir()
    with running(spark, reader.life) as job:
        job.wait_for_checkpoints()
        moved.add(2)
        moved.query()
        stray(tmp_path / "out")
        moved.add(1)
        moved.query()
        job.wait_for(lambda: len(reader.rows()) >= 3, "what the query has committed")
        job.stop()

    assert reader.rows() == [0, 1, 2]


def test_a_source_does_not_remove_files_of_a_querys_output(spark: SparkSession, tmp_path: Path) -> None:
    moved, reader = Moved(spark, tmp_path, tmp_path / "out"), Reader(tmp_path, deleteAfter="0s")
    moved.add(1)
    moved.query()

    with pytest.raises(WrittenBySpark, match="leave archiveTo, deleteAfter and queueUrl out"):
        finish(spark, reader.life)


def test_a_sink_that_delivers_at_least_once_refuses_the_directory_of_a_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    moved = Moved(spark, tmp_path, tmp_path / "out", delivery="at-least-once")
    moved.add(1)
    moved.query()

    with pytest.raises(PlaceOfQuery):
        finish(spark, life_in(tmp_path, moved.job))
    assert moved.read() == [0]
