"""A plain Structured Streaming query is stopped, and a job goes on from its checkpoint: together they are the batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import Life, running
from tests.integration.runtime.forks import first_completion
from tests.integration.runtime.graphs import SCHEMA, Row, add_rows, job, output, rows_of, source, sql
from tests.integration.runtime.purchases import write_job

from streamjob.errors import ExitCode
from streamjob.job.load import load_job
from streamjob.job.plan import plan
from streamjob.protocol.log import JobId
from streamjob.store.opening import open_location
from streamjob.stored.places import find_snapshot
from streamjob.stored.reading import read_snapshot
from streamjob.stored.verify import verify
from streamjob_runtime.clock import steady_clock
from streamjob_runtime.from_spark import take_over
from streamjob_runtime.ledger import RestoreFrom
from streamjob_runtime.spark_checkpoint import force_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

STATE = "spark.sql.streaming.stateStore."
DEFAULTS = {
    f"{STATE}checkpointFormatVersion": "1",
    f"{STATE}rocksdb.changelogCheckpointing.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""How a plain query with the RocksDB provider keeps its state unless it is told otherwise."""

ROWS = [Row(f"k{number % 3}", number, number * 2) for number in range(72)]
WINDOWS = "SELECT k, window.start AS start, count(*) AS n, sum(n) AS total FROM a GROUP BY k, window(at, '20 seconds')"
JOIN = "SELECT a.k, a.n, b.n AS m FROM a JOIN b ON a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 20 SECONDS"


def write(directory: Path, inputs: tuple[str, ...], first: int, last: int) -> None:
    """Add input files, nine rows each."""
    for name in inputs:
        for number in range(first, last):
            add_rows(directory / name, number, ROWS[number * 9 : (number + 1) * 9])


def plain(spark: SparkSession, directory: Path, inputs: tuple[str, ...], query: str) -> Counter[Any]:
    """Run the plain query until it has read what is there; return what it wrote."""
    session, rows = spark.newSession(), Counter[Any]()
    for key, value in DEFAULTS.items():
        session.conf.set(key, value)
    for name in inputs:
        reader = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        reader.json(str(directory / name)).withWatermark("at", "0 seconds").createOrReplaceTempView(name)

    def keep(batch: DataFrame, number: int) -> None:
        rows.update(tuple(row) for row in batch.selectExpr(*_printed(batch)).collect())

    writer = session.sql(query).writeStream.option("checkpointLocation", str(directory / "checkpoint"))
    running_query = writer.foreachBatch(keep).trigger(availableNow=True).start()
    running_query.awaitTermination()
    return rows


def _printed(frame: DataFrame) -> list[str]:
    return [f"CAST({name} AS STRING) AS {name}" for name in frame.columns]


@pytest.mark.parametrize(
    ("inputs", "query"), [(("a",), WINDOWS), (("a", "b"), JOIN)], ids=["windows", "a join of streams"]
)
def test_a_job_goes_on_where_a_plain_query_stopped(
    inputs: tuple[str, ...], query: str, spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, inputs, 0, 4)
    before = plain(spark, tmp_path, inputs, query)
    assert before
    # A batch that was planned when the query was stopped.
    force_batch(tmp_path / "checkpoint", 0)
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "checkpoint").rglob("*")}
    write(tmp_path, inputs, 4, 8)

    sources = [source(name, tmp_path / name, bounded=True) for name in inputs]
    spec = job(tmp_path, sources, [sql("made", inputs, f"SELECT {_casts(query)} FROM ({query})")], ["made"])
    life = Life(file=write_job(tmp_path / "job", spec), location=str(tmp_path / "snapshots"))
    loaded = load_job(life.file, ())
    store = open_location(life.location).job("default", life.name).store()
    arguments = (loaded, plan(loaded.spec), JobId("default", life.name), store, steady_clock())
    taken = take_over(f"spark:{tmp_path / 'checkpoint'}", *arguments)
    place = find_snapshot(taken)
    assert place is not None
    assert verify([read_snapshot(place)]).whole

    with running(spark, replace(life, restore_from=RestoreFrom(taken))) as going_on:
        assert going_on.wait() is ExitCode.OK
    batch = spark.newSession()
    for name in inputs:
        batch.read.schema(SCHEMA).json(str(tmp_path / name)).createOrReplaceTempView(name)
    made = batch.sql(query)
    expected = Counter(tuple(row) for row in made.selectExpr(*_printed(made)).collect())
    assert before + rows_of(output(tmp_path, "made")) == expected
    first: Any = first_completion(tmp_path / "snapshots" / "default" / life.name)
    assert all(file["object"].startswith("shared/") for chain in first["chains"] for file in chain["files"])
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "checkpoint").rglob("*")} == files


def _casts(query: str) -> str:
    names = ("k", "n", "m") if query == JOIN else ("k", "start", "n", "total")
    return ", ".join(f"CAST({name} AS STRING) AS {name}" for name in names)
