"""A row without an event time ends the job, is dropped and counted, or is a dead letter; it never waits for ever."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.core import core
from tests.integration.runtime.embedded import Life, life_in, running
from tests.integration.runtime.purchases import add_file
from tests.jobs import job_file, sink, source, sql

from streamjob.errors import ExitCode
from streamjob.ids import OperatorUid
from streamjob.stored.locations import find_jobs
from streamjob.stored.reading import read_job
from streamjob.stored.state_stores import read_state_operators
from streamjob.stored.state_tables import TablesRequest
from streamjob_runtime.inspection import read_tables
from streamjob_runtime.job.bad_input_errors import EventTimeMissing
from streamjob_runtime.monitoring.metrics import Metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

MIDNIGHT = "2026-01-01T00:00:00Z"
A = [
    {"id": 1, "k": "x", "at": MIDNIGHT},
    {"id": 2, "k": "x", "at": None},
    {"id": 3, "k": "lonely", "at": None},
    {"id": 4, "k": "lonely", "at": MIDNIGHT},
]
B = [{"id": 11, "k": "x", "at": "2026-01-01T00:01:00Z"}, {"id": 12, "k": "x", "at": None}]
QUERIES = {
    "pairs": (
        "SELECT a.id AS i, b.id AS j FROM a LEFT JOIN b ON a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR"
    ),
    "counts": "SELECT at, count(*) AS n FROM a GROUP BY at",
    "times": "SELECT DISTINCT at, k FROM a",
}


def job_of(directory: Path, said: str | None, **queries: str) -> Life:
    """Return a job with QUERIES, or with some others."""
    add_file(directory / "a", 0, A)
    add_file(directory / "b", 0, B)
    watermark = {"column": "at", "delay": "0s"} | ({} if said is None else {"nullEventTime": said})
    fields: dict[str, Any] = {"bounded": True, "schema": "id INT, k STRING, at TIMESTAMP", "watermark": watermark}
    letters = ["a_dead_letters", "b_dead_letters"] if said == "deadLetter" else []
    given = queries or QUERIES
    job = job_file(
        *(sql(name, ["a", "b"] if " JOIN b" in query else "a", query) for name, query in given.items()),
        sources=[source(each, "json", path=directory / each, **fields) for each in "ab"],
        sinks=[sink(each, "json", directory / "out" / each) for each in (*given, *letters)],
        maxParallelism=2,
        checkpointing={"interval": "1h"},
    )
    return life_in(directory, job)


def written(directory: Path, part: str) -> list[dict[str, Any]]:
    lines = [line for file in (directory / "out" / part).glob("part-*") for line in file.read_text().splitlines()]
    return [json.loads(each) for each in sorted(lines)]


def rows_in_state(spark: SparkSession, life: Life) -> dict[str, int]:
    """Return the number of rows in each table of the operators' state, in the snapshot of the job's end."""
    (place,) = find_jobs(life.location)
    with contextlib.closing(place.store):
        snapshot = read_job(place).named(None)
        request = TablesRequest(snapshot=snapshot, operators=read_state_operators(snapshot), limit=100)
        return {table.title: len(table.rows) for table in read_tables(request, spark)}


def test_a_job_ends_at_a_row_without_an_event_time(spark: SparkSession, tmp_path: Path) -> None:
    with running(spark, job_of(tmp_path, None)) as job, pytest.raises(EventTimeMissing) as error:
        job.wait()

    assert "has a row whose event time 'at' is NULL" in str(error.value)
    assert error.value.exit_code is ExitCode.INVALID_INPUT
    assert "watermark.nullEventTime=drop" in str(error.value)


def test_a_job_ends_where_an_outer_join_gives_the_groups_behind_it_no_event_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    life = job_of(
        tmp_path,
        "drop",
        groups="SELECT bat, count(*) AS n FROM ("
        "SELECT a.id, b.at AS bat FROM a LEFT JOIN b ON a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR"
        ") GROUP BY bat",
    )
    with running(spark, life) as job, pytest.raises(EventTimeMissing) as error:
        job.wait()

    assert "waits for the watermark of 'bat', and reads a row in which it is NULL" in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("said", core(["drop", "deadLetter"], "deadLetter"))
def test_such_rows_are_dropped_and_counted_or_are_dead_letters(spark: SparkSession, tmp_path: Path, said: str) -> None:
    life = job_of(tmp_path, said)
    with running(spark, life) as job:
        assert job.wait() is ExitCode.OK
        job.control.observe()
        chains = job.control.job().chains
        metrics = Metrics(job.control.job, job.control.checkpoints).render().decode()

    state = rows_in_state(spark, life)
    assert (len(state), set(state.values())) == (4, {0}), state
    assert written(tmp_path, "pairs") == [{"i": 1, "j": 11}, {"i": 4}]
    (group,) = written(tmp_path, "counts")
    assert (datetime.fromisoformat(group["at"]), group["n"]) == (datetime.fromisoformat(MIDNIGHT), 2)
    assert [each["k"] for each in written(tmp_path, "times")] == ["lonely", "x"]
    counted: dict[OperatorUid, int] = {}
    for chain in chains:
        counted |= chain.rows_without_event_time
    if said == "drop":
        assert counted == {"a": 2, "b": 1}
        assert 'streamjob_rows_without_event_time_total{chain="' in metrics
        return
    assert counted == {}
    letters = written(tmp_path, "a_dead_letters")
    assert [json.loads(each["row"]) for each in letters] == [A[1], A[2]]
    assert {(each["source"], each["error"]) for each in letters} == {("a", "its event time is NULL")}
    assert [json.loads(each["row"]) for each in written(tmp_path, "b_dead_letters")] == [B[1]]
