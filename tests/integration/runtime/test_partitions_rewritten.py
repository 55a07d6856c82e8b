"""State is rewritten for another number of partitions when the job asks for it, and only used if it came through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, running
from tests.integration.runtime.graphs import (
    BEGIN,
    Row,
    add_rows,
    difference,
    job,
    manifests,
    output,
    rows_of,
    source,
    sql,
)
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.shapes import WINDOWS
from tests.integration.runtime.stories import records_read

from streamjob.errors import ExitCode
from streamjob.ids import TriggerId
from streamjob.protocol.lifecycle import JobState
from streamjob.snapshot.manifest import Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

KEYS = 6
ROWS = 12
"""Rows in a file; all that keeps state has some of each key from one file to the next."""
NOON = int(BEGIN.timestamp())
SHAPES = "tests.integration.runtime.shapes"


@pytest.fixture(autouse=True)
def own_partitions(spark: SparkSession) -> Iterator[None]:
    """Give the session back with the number of partitions that it had."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    yield
    spark.conf.set(name, str(before))


def rows_in(files: int) -> list[Row]:
    """Return the rows of so many files: half a second apart, but behind the thirtieth much longer."""
    return [Row(f"k{i % KEYS}", i // KEYS, i / 2 + (20 if i >= 30 else 0)) for i in range(files * ROWS)]


def add_file(directory: Path, number: int) -> None:
    add_rows(directory / "in", number, rows_in(number + 1)[number * ROWS :])


def distinct(rows: DataFrame) -> DataFrame:
    """Return each key and half number once; its two rows are of different files."""
    return _halved(rows).dropDuplicates(["k", "half"]).select("k", "half")


def _halved(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("k", "(n + 1) div 2 AS half", "at")


OPERATORS: list[dict[str, Any]] = [
    sql("windows", ["events"], WINDOWS.format("events")),
    {"name": "distinct", "inputs": ["events"], "python": f"{__name__}:distinct"},
]


def life(directory: Path, operators: list[dict[str, Any]], **changes: Any) -> Life:
    """Return the life of a job that reads what is in `directory`, at first with two state partitions."""
    sources = [source("events", directory / "in", delay="30s")]
    outputs = [each["name"] for each in operators]
    spec = job(directory, sources, operators, outputs, checkpointing={"interval": "1h"}, **changes)
    return Life(file=write_job(directory, spec), location=str(directory / "snapshots"))


def with_partitions(before: Life, partitions: int) -> Life:
    return replace(before, overrides=(f"maxParallelism={partitions}",))


def process(running_job: EmbeddedJob, rows: int) -> None:
    """Let a job read so many rows."""
    running_job.wait_for(lambda: running_job.state is JobState.RUNNING, "all chains")
    running_job.wait_for(lambda: records_read(running_job) >= rows, f"{rows} rows")


def expected_rows(files: int) -> dict[str, Counter[Any]]:
    """Return what the operators make of so many files."""
    rows = rows_in(files)
    windows = Counter((row.k, NOON + int(row.second) // 10 * 10) for row in rows)
    halves: Counter[Any] = Counter({(row.k, (row.n + 1) // 2) for row in rows})
    return {"windows": Counter((*window, count) for window, count in windows.items()), "distinct": halves}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_windows_and_deduplication_go_on_with_more_partitions_and_with_fewer(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = life(tmp_path, OPERATORS)

    taken = []
    for number, partitions in enumerate((2, 4, 3)):
        add_file(tmp_path, 2 * number)
        add_file(tmp_path, 2 * number + 1)
        with running(spark, with_partitions(first, partitions)) as running_job:
            process(running_job, 2 * ROWS)
            last = number == 2
            running_job.control.stop(savepoint=True, location=None, drain=last, trigger_id=TriggerId("stop"))
            assert running_job.wait() is ExitCode.OK
        taken.append(manifests(tmp_path / "snapshots" / "default" / "job")[-1])

    names = [operator["name"] for operator in OPERATORS]
    rows = expected_rows(6)
    assert {name: difference(rows[name], rows_of(output(tmp_path, name))) for name in names} == dict.fromkeys(names, "")
    assert [manifest.graph["maxParallelism"] for manifest in taken] == [2, 4, 3]
    # What a snapshot has of the state is all of it, and nothing that it was made of.
    assert [state_partitions(manifest) for manifest in taken] == [{0, 1}, {0, 1, 2, 3}, {0, 1, 2}]


def state_partitions(manifest: Manifest) -> set[int]:
    """Return the numbers of the partitions that a snapshot has files of."""
    paths = [file.path.split("/") for chain in manifest.chains for file in chain.files]
    return {int(path[2]) for path in paths if path[0] == "state" and path[2].isdigit()}
