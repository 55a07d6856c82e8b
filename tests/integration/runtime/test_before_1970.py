"""Event times before 1970 are times like any others: Spark's first watermark, 0, makes no row late."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, life_in, running
from tests.integration.runtime.purchases import add_file
from tests.jobs import files, job_file, sink, sql

from streamjob.client.models import ChainView
from streamjob.errors import ExitCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

SCHEMA = "id INT, k STRING, at TIMESTAMP"
MOON = datetime(1969, 7, 20, 20, 17, tzinfo=UTC)
QUERIES = {
    "tumbling": "SELECT window.start AS s, k, count(*) AS n FROM a GROUP BY window(at, '1 hour'), k",
    "sliding": "SELECT window.start AS s, count(*) AS n FROM a GROUP BY window(at, '1 hour', '20 minutes')",
    "sessions": "SELECT session_window.start AS s, k, count(*) AS n FROM a GROUP BY session_window(at, '2 hours'), k",
    "times": "SELECT DISTINCT at, k FROM a",
    "pairs": (
        "SELECT a.id AS i, b.id AS j FROM a LEFT JOIN b "
        "ON a.k = b.k AND b.at >= a.at AND b.at <= a.at + INTERVAL 10 MINUTES"
    ),
}


def source(name: str, path: Path, delay: str = "1h", **fields: Any) -> dict[str, Any]:
    return files(name, path, SCHEMA, watermark={"column": "at", "delay": delay}, **fields)


def row(number: int, key: str, at: datetime) -> dict[str, Any]:
    return {"id": number, "k": key, "at": at.isoformat()}


def life_of(directory: Path, sources: list[dict[str, Any]], queries: Mapping[str, str], interval: str) -> Life:
    operators = [
        sql(name, [each["name"] for each in sources if f" {each['name']}" in query], query)
        for name, query in queries.items()
    ]
    sinks = [sink(name, "json", directory / "out" / name) for name in queries]
    how = {"maxParallelism": 2, "checkpointing": {"interval": interval}}
    return life_in(directory, job_file(*operators, sources=sources, sinks=sinks, **how))


def plain(lines: Iterable[str]) -> list[list[Any]]:
    """Return rows as lists of texts, numbers and times, in order."""

    def value(each: Any) -> Any:
        return str(datetime.fromisoformat(each)) if str(each).endswith("Z") else each

    rows = [[(name, value(each)) for name, each in json.loads(line).items()] for line in lines]
    return sorted(rows, key=str)


def written(path: Path) -> list[list[Any]]:
    return plain(line for file in path.glob("part-*") for line in file.read_text().splitlines())


def _seen(job: EmbeddedJob) -> ChainView:
    job.control.observe()
    (chain,) = job.control.job().chains
    return chain


@pytest.mark.slow
def test_windows_sessions_joins_and_distinct_times_are_those_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The rows lie before the year 1900, in 1969 and behind 1970, in order, a file for each batch."""
    starts = [datetime(1, 1, 2, tzinfo=UTC), datetime(1899, 12, 31, 23, tzinfo=UTC), MOON]
    starts += [
        datetime(1969, 12, 31, 23, 30, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1970, 1, 2, tzinfo=UTC),
    ]
    for number, start in enumerate(starts):
        times = [start + timedelta(minutes=minutes) for minutes in (0, 7, 61)]
        add_file(tmp_path / "a", number, [row(10 * number + n, "xy"[n % 2], at) for n, at in enumerate(times)])
        later = [row(10 * number + n, "xy"[n % 2], at + timedelta(minutes=5)) for n, at in enumerate(times[:2])]
        add_file(tmp_path / "b", number, later)
    sources = [source(name, tmp_path / name, bounded=True) for name in "ab"]
    life = life_of(tmp_path, sources, QUERIES, "1h")

    with running(spark, life) as job:
        assert job.wait() is ExitCode.OK
        job.control.observe()
        late = {name: rows for chain in job.control.job().chains for name, rows in chain.records_dropped_late.items()}

    for name in "ab":
        spark.read.schema(SCHEMA).json(str(tmp_path / name)).createOrReplaceTempView(name)
    for name, query in QUERIES.items():
        batch = plain(spark.sql(query).selectExpr("to_json(struct(*))").toArrow().column(0).to_pylist())
        assert written(tmp_path / "out" / name) == batch, name
    assert not any(late.values())


def test_a_watermark_before_1970_closes_windows_drops_late_rows_and_survives_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    windows = "SELECT window.start AS s, count(*) AS n, max(id) AS i FROM a GROUP BY window(at, '1 hour')"
    life = life_of(tmp_path, [source("a", tmp_path / "a", "0s")], {"hours": windows}, "300ms")
    out = tmp_path / "out" / "hours"

    def lines(count: int) -> bool:
        return len(written(out)) >= count

    add_file(tmp_path / "a", 0, [row(1, "x", MOON), row(2, "x", MOON + timedelta(hours=1))])
    with running(spark, life) as job:
        job.wait_for(lambda: lines(1), "first window")
        job.stop()
    # The first of these rows is late, since its window has closed before the restart.
    late = [
        row(3, "x", MOON),
        row(4, "x", MOON + timedelta(hours=1, minutes=1)),
        row(5, "x", MOON + timedelta(hours=9)),
    ]
    add_file(tmp_path / "a", 1, late)
    with running(spark, life) as job:
        job.wait_for(lambda: lines(2), "second window")
        last = (MOON + timedelta(hours=9)).timestamp() * 1000
        job.wait_for(lambda: _seen(job).watermark_ms == last, "watermark")
        job.wait_for(lambda: sum(_seen(job).records_dropped_late.values()) == 1, "late row")
        job.stop()

    assert written(out) == [
        [("s", "1969-07-20 20:00:00+00:00"), ("n", 1), ("i", 1)],
        [("s", "1969-07-20 21:00:00+00:00"), ("n", 2), ("i", 4)],
    ]
