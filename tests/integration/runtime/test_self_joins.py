"""The join of a stream with the highest values of its own windows gives the same rows as one aggregation."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, running
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.spark_settings import setting

from streamjob.errors import ExitCode
from streamjob_runtime.chain.self_joins import without_self_join
from streamjob_runtime.spark.gateway import analyzed_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

SWITCH = "spark.streamjob.selfJoins"
SCHEMA = "id BIGINT, kind STRING, price INT, cents DECIMAL(12,2), rate DOUBLE, at TIMESTAMP"
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOURS = "(SELECT window, max(price) AS best FROM bids GROUP BY window(at, '1 hour'))"
BOUNDS = "(SELECT window.start AS s, window.end AS e, max(price) AS best FROM bids GROUP BY window(at, '1 hour'))"
TIMES = f"(SELECT window_time(window) AS t, best FROM {HOURS})"
OTHERS = "(SELECT window.start AS s, window.end AS e, max(price) AS best FROM others GROUP BY window(at, '1 hour'))"

REWRITTEN = {
    "bounds of the window": f"SELECT b.* FROM bids b JOIN {BOUNDS} m ON price = best AND at >= s AND at < e",
    "bounds as fields, and the value on the left": (
        f"SELECT b.id, m.best FROM {HOURS} m JOIN bids b ON m.best = b.price "
        "AND m.window.start <= b.at AND m.window.end > b.at"
    ),
    "the time of the window": (
        f"SELECT b.id, best, unix_micros(t) AS t FROM bids b JOIN {TIMES} m "
        "ON price = best AND at > t - INTERVAL 1 HOUR AND at <= t"
    ),
    "an end less a length": (
        f"SELECT b.id, e FROM bids b JOIN {BOUNDS} m ON price = best AND at >= e - INTERVAL 60 MINUTES AND at < e"
    ),
    "narrower bounds": (
        f"SELECT b.id FROM bids b JOIN {BOUNDS} m ON price = best AND at >= s + INTERVAL 10 MINUTES AND at < e"
    ),
    "BETWEEN up to the last microsecond": (
        f"SELECT b.id FROM bids b JOIN {BOUNDS} m ON price = best AND at BETWEEN s AND e - INTERVAL 1 MICROSECOND"
    ),
    "the same windows": (
        "SELECT b.id, m.window.end AS e FROM (SELECT *, window(at, '1 hour') AS w FROM bids) b "
        f"JOIN {HOURS} m ON b.w = m.window AND price = best"
    ),
    "the same starts of windows": (
        "SELECT b.id FROM (SELECT *, window(at, '1 hour') AS w FROM bids) b "
        f"JOIN {BOUNDS} m ON b.w.start = m.s AND price = best"
    ),
    "the lowest of each kind, in FROM a, b WHERE": (
        "WITH m AS (SELECT kind AS k, window.start AS s, window.end AS e, min(price) AS low, count(*) AS n "
        "FROM bids GROUP BY kind, window(at, '15 minutes')) "
        "SELECT b.id, n FROM bids b, m WHERE b.price = m.low AND b.kind = m.k AND b.at >= m.s AND b.at < m.e AND n > 1"
    ),
    "of computed values": (
        "SELECT b.id, v + 1 AS v FROM (SELECT id, at, price * 2 AS v FROM bids) b JOIN (SELECT window.start AS s, "
        "window.end AS e, max(w) AS best FROM (SELECT at, price * 2 AS w FROM bids) GROUP BY window(at, '1 hour')) "
        "ON v = best AND at >= s AND at < e"
    ),
    "of rows that both sides filter": (
        "SELECT b.id FROM some b JOIN (SELECT window.start AS s, window.end AS e, max(cents) AS best FROM some "
        "GROUP BY window(at, '1 hour')) ON cents = best AND at >= s AND at < e WHERE price > 1"
    ),
    "of rows that have windows already": (
        "WITH counts AS (SELECT kind, window, count(*) AS n FROM bids "
        "GROUP BY kind, window(at, '1 hour', '30 minutes')) "
        "SELECT c.kind, c.n, c.window.end AS e FROM counts c JOIN (SELECT window AS w, max(n) AS most FROM counts "
        "GROUP BY window) m ON c.window = m.w AND c.n = m.most"
    ),
    "windows that begin later": (
        "SELECT b.id, s FROM bids b JOIN (SELECT window.start AS s, window.end AS e, max(price) AS best FROM bids "
        "GROUP BY window(at, '1 hour', '1 hour', '7 minutes')) ON price = best AND at >= s AND at < e"
    ),
}
KEPT = {
    "a row at the end of a window finds it, too": (
        f"SELECT b.id FROM bids b JOIN {BOUNDS} m ON price = best AND at BETWEEN s AND e"
    ),
    "a row finds an earlier window": (
        f"SELECT b.id FROM bids b JOIN {BOUNDS} m ON price = best AND at >= s - INTERVAL 1 SECOND AND at < e"
    ),
    "a row finds the window after its own": (
        f"SELECT b.id FROM bids b JOIN {BOUNDS} m ON price = best AND at < e AND at > s - INTERVAL 1 HOUR"
    ),
    "only one bound": f"SELECT b.id FROM bids b JOIN {BOUNDS} m ON price = best AND at >= s",
    "bounds on another time": (
        f"SELECT b.id FROM (SELECT id, price, at + INTERVAL 1 HOUR AS at FROM bids) b JOIN {BOUNDS} m "
        "ON price = best AND at >= s AND at < e"
    ),
    "another value": f"SELECT b.id FROM bids b JOIN {BOUNDS} m ON id = best AND at >= s AND at < e",
    "another aggregate": (
        "SELECT b.id FROM bids b JOIN (SELECT window.start AS s, window.end AS e, first(price) AS best FROM bids "
        "GROUP BY window(at, '1 hour')) ON price = best AND at >= s AND at < e"
    ),
    "an aggregate with a filter": (
        "SELECT b.id FROM bids b JOIN (SELECT window.start AS s, window.end AS e, max(price) FILTER (WHERE id > 3) AS "
        "best FROM bids GROUP BY window(at, '1 hour')) ON price = best AND at >= s AND at < e"
    ),
    "a key that need not be equal": (
        "SELECT b.id FROM bids b JOIN (SELECT kind AS k, window.start AS s, window.end AS e, max(price) AS best "
        "FROM bids GROUP BY kind, window(at, '1 hour')) ON price = best AND at >= s AND at < e AND b.kind = b.kind"
    ),
    "windows that need not be equal": (
        "WITH counts AS (SELECT kind, window, count(*) AS n FROM bids GROUP BY kind, window(at, '1 hour')) "
        "SELECT c.kind, c.n FROM counts c JOIN (SELECT window AS w, max(n) AS most FROM counts GROUP BY window) m "
        "ON c.window.end <= m.w.end AND c.n = m.most"
    ),
    "other rows": f"SELECT b.id FROM bids b JOIN {OTHERS} m ON price = best AND at >= s AND at < e",
    "a filter on one side": f"SELECT b.id FROM some b JOIN {BOUNDS} m ON price = best AND at >= s AND at < e",
    "a filter on the other side": (
        "SELECT b.id FROM bids b JOIN (SELECT window.start AS s, window.end AS e, max(price) AS best FROM some "
        "GROUP BY window(at, '1 hour')) ON price = best AND at >= s AND at < e"
    ),
    "sliding windows": (
        "SELECT b.id FROM bids b JOIN (SELECT window.start AS s, window.end AS e, max(price) AS best FROM bids "
        "GROUP BY window(at, '1 hour', '30 minutes')) ON price = best AND at >= s AND at < e"
    ),
    "numbers with a NaN": (
        "SELECT b.id FROM bids b JOIN (SELECT window.start AS s, window.end AS e, max(rate) AS best FROM bids "
        "GROUP BY window(at, '1 hour')) ON rate = best AND at >= s AND at < e"
    ),
    "rows without a partner": (f"SELECT b.id FROM bids b LEFT JOIN {BOUNDS} m ON price = best AND at >= s AND at < e"),
    "random rows": (
        "SELECT b.id FROM (SELECT id, at, price + CAST(rand() * 3 AS INT) AS v FROM bids) b JOIN (SELECT window.start "
        "AS s, window.end AS e, max(v) AS best FROM (SELECT at, price + CAST(rand() * 3 AS INT) AS v FROM bids) "
        "GROUP BY window(at, '1 hour')) ON v = best AND at >= s AND at < e"
    ),
}


def rows(seed: int, hours: int = 6, count: int = 150) -> list[dict[str, Any]]:
    """Return rows with many equal values, some of them null, at the bounds of windows more often than elsewhere."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        microseconds = chance.choice([0, 1, -1, chance.randrange(3_600_000_000)])
        at = START + dt.timedelta(hours=chance.randrange(1, hours), microseconds=microseconds)
        made.append(
            {
                "id": number,
                "kind": chance.choice(["a", "b", None]),
                "price": chance.choice([None, 1, 2, 3]),
                "cents": f"{chance.randrange(3)}.50",
                "rate": 0.5,
                "at": None if chance.random() < 0.05 else at.isoformat(timespec="microseconds"),
            }
        )
    return made


def at(hour: float, number: int, price: int) -> dict[str, Any]:
    return {"id": number, "price": price, "at": (START + dt.timedelta(hours=hour)).isoformat()}


def write(directory: Path, number: int, found: list[dict[str, Any]]) -> None:
    """Write a file. Spark reads files in the order of their times."""
    directory.mkdir(exist_ok=True)
    (new := directory / f".{number}").write_text("".join(json.dumps(each) + "\n" for each in found))
    os.utime(new, (number, number))
    new.rename(directory / f"{number}.json")


def views(spark: SparkSession, bids: DataFrame, others: DataFrame) -> None:
    bids.createOrReplaceTempView("bids")
    others.createOrReplaceTempView("others")
    spark.sql("SELECT * FROM bids WHERE kind = 'a'").createOrReplaceTempView("some")


def stream(spark: SparkSession, directory: Path) -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.json(str(directory)).withWatermark("at", "1 day")


def joins(frame: DataFrame) -> bool:
    return "Join" in str(analyzed_plan(frame).toString())


@pytest.mark.slow
@pytest.mark.parametrize("sql", REWRITTEN.values(), ids=REWRITTEN)
def test_it_becomes_an_aggregation_with_the_same_rows(spark: SparkSession, tmp_path: Path, sql: str) -> None:
    for number in range(2):
        write(tmp_path / "in", number, rows(number))
    views(spark, (still := spark.read.schema(SCHEMA).json(str(tmp_path / "in"))), still)
    expected = sorted(map(str, spark.sql(sql).collect()))
    # A row that closes all windows, and that no filter drops before it moves the watermark.
    write(tmp_path / "in", 2, [{**at(999, -1, 1), "kind": "a", "cents": "0.00", "rate": 0.0}])
    bids = stream(spark, tmp_path / "in")
    views(spark, bids, bids)
    frame = spark.sql(sql)
    assert joins(frame)

    made = without_self_join(spark, frame, "append", ())

    assert not joins(made)
    assert made.schema == frame.schema
    writer = made.writeStream.format("memory").queryName("highest").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert sorted(map(str, spark.table("highest").collect())) == expected
    assert expected


@pytest.mark.parametrize("sql", KEPT.values(), ids=KEPT)
def test_it_stays_a_join_where_the_rows_might_differ(spark: SparkSession, tmp_path: Path, sql: str) -> None:
    for name in ("in", "others"):
        write(tmp_path / name, 0, rows(0, count=3))
    views(spark, stream(spark, tmp_path / "in"), stream(spark, tmp_path / "others"))
    frame = spark.sql(sql)

    assert without_self_join(spark, frame, "append", ()) is frame


def test_it_stays_a_join_where_more_state_follows_and_where_it_is_turned_off(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "in", 0, rows(0, count=3))
    bids = stream(spark, tmp_path / "in")
    views(spark, bids, bids)
    sql = REWRITTEN["bounds of the window"]
    followed = spark.sql(f"SELECT window(at, '2 hours'), count(*) FROM ({sql}) GROUP BY 1")

    assert without_self_join(spark, followed, "append", ()) is followed
    frame = spark.sql(sql)
    with setting(spark, SWITCH, "false"):
        assert without_self_join(spark, frame, "append", ()) is frame
    assert without_self_join(spark, frame, "append", ()) is not frame


def job(directory: Path) -> dict[str, Any]:
    options = {"path": str(directory / "in"), "maxFilesPerTrigger": 1}
    return {
        "name": "highest",
        "checkpointing": {"interval": "1h"},
        "sources": [
            {
                "name": "bids",
                "format": "json",
                "schema": SCHEMA,
                "options": options,
                "watermark": {"column": "at", "delay": "0s"},
            }
        ],
        "operators": [
            {
                "name": "hours",
                "inputs": ["bids"],
                "sql": BOUNDS.removeprefix("(").removesuffix(")"),
            },
            {
                "name": "best",
                "inputs": ["bids", "hours"],
                "sql": "SELECT b.id, b.price FROM bids b JOIN hours h ON price = best AND at >= s AND at < e",
            },
        ],
        "sinks": [{"name": "out", "input": "best", "format": "json", "options": {"path": str(directory / "out")}}],
    }


def published(directory: Path) -> list[int]:
    files = (directory / "out").glob("part-*")
    return sorted(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())


def is_join(job: EmbeddedJob) -> bool:
    assert job.runner.epoch is not None
    return "join" in [form.kind for chain in job.runner.epoch.chains.values() for form in chain.dataflow.forms]


@pytest.mark.slow
@pytest.mark.parametrize(
    "before",
    [pytest.param("true", id="as an aggregation", marks=pytest.mark.core), pytest.param("false", id="as a join")],
)
def test_a_job_goes_on_with_the_state_that_it_has(spark: SparkSession, tmp_path: Path, before: str) -> None:
    life = Life(file=write_job(tmp_path, job(tmp_path)), location=str(tmp_path / "snapshots"))
    write(tmp_path / "in", 0, [at(1.1, 0, 5), at(1.2, 1, 7), at(1.3, 2, 7)])
    with setting(spark, SWITCH, before), running(spark, life) as first:
        first.wait_for_batches()
        first.checkpoint()
        assert is_join(first) == (before == "false")
        assert first.stop() is ExitCode.OK

    write(tmp_path / "in", 1, [at(1.5, 3, 6), at(1.6, 4, 7)])
    with running(spark, life) as second:
        second.wait_for_batches(2)
        assert is_join(second) == (before == "false")
        write(tmp_path / "in", 2, [at(2.5, 5, 1)])
        second.wait_for(lambda: published(tmp_path) == [1, 2, 4], "the highest of the first hour")
        assert second.stop() is ExitCode.OK


@pytest.mark.slow
def test_it_stays_a_join_where_another_chain_reads_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    spec = job(tmp_path)
    spec["operators"].append({"name": "again", "inputs": ["best"], "sql": "SELECT id FROM best", "chain": False})
    spec["sinks"][0]["input"] = "again"
    life = Life(file=write_job(tmp_path, spec), location=str(tmp_path / "snapshots"))
    write(tmp_path / "in", 0, [at(1.1, 0, 5)])

    with running(spark, life) as only:
        chains = len(only.runner.job.plan.chains)
        only.wait_for(lambda: only.runner.epoch is not None and len(only.runner.epoch.chains) == chains, "its chains")
        assert is_join(only)
