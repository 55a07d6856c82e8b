"""Writes rows into a table in one of the ways that are compared: the process that the benchmark measures."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.sink import SinkContext
from streamjob_runtime.sinks.postgresql.sink import PostgresqlSink
from streamjob_runtime.spark.session import SessionSettings, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {
    "id": ("bigint", "id"),
    "departed": ("timestamptz", "timestamp_seconds(1700000000 + id)"),
    "carrier": ("text", "concat('C', id % 20)"),
    "flight": ("integer", "cast(id % 9000 AS int)"),
    "origin": ("text", "concat('origin ', id % 300)"),
    "destination": ("text", "concat('destination ', id % 700)"),
    "delay": ("double precision", "id % 7200 / 60D"),
    "fare": ("numeric(10,2)", "cast(id % 100000 / 100 AS decimal(10,2))"),
    "cancelled": ("boolean", "id % 50 = 0"),
    "remark": ("text", "concat('a remark of some length about the flight ', id)"),
}
"""By name: the type in the table, and the expression that makes it from a row's number."""

WARM_ROWS = 50_000
"""Rows that a process writes before it is measured."""
_DRIVER = "org.postgresql.Driver"

Write = Callable[["DataFrame", int], None]


def table_of(name: str) -> str:
    """Return the statement that makes the table."""
    columns = ", ".join(f"{column} {kind}" for column, (kind, _) in COLUMNS.items())
    return f"CREATE TABLE {name} ({columns}, PRIMARY KEY (id))"


def rows(spark: SparkSession, begin: int, end: int, slots: int) -> DataFrame:
    """Return rows with numbers of their own."""
    made = [f"{expression} AS {column}" for column, (_, expression) in COLUMNS.items()]
    return spark.range(begin, end, numPartitions=slots).selectExpr(*made)


def by_jdbc(table: str, url: str, user: str, password: str) -> tuple[Write, Callable[[], None] | None]:
    """Return what writes by Spark's own JDBC writer, at once."""
    options = {"url": f"jdbc:{url}", "dbtable": table, "user": user, "password": password, "driver": _DRIVER}

    def write(batch: DataFrame, number: int) -> None:
        batch.write.format("jdbc").mode("append").options(**options).save()

    return write, None


def by_sink(table: str, url: str, user: str, password: str, *, upsert: bool) -> tuple[Write, Callable[[], None] | None]:
    """Return what stages a batch by the sink, and what publishes them all."""
    options = {"url": url, "user": user, "password": password, "table": table}
    if upsert:
        options |= {"mode": "upsert", "key": "id"}
    sink = PostgresqlSink("report")
    sink.open(SinkContext("bench", "default", OperatorUid(table), Epoch(1), options))
    staged = []

    def write(batch: DataFrame, number: int) -> None:
        staged.append(sink.stage(batch, BatchId(number)).committable)

    def publish() -> None:
        sink.commit(CheckpointId(len(staged)), staged)

    return write, publish


def main(side: str, total: int, batches: int, slots: int, work: Path, result: Path) -> None:
    """Write, and put down how long it took. The server and how to log in come with the environment."""
    url, user, password = (os.environ[f"BENCH_{name}"] for name in ("URL", "USER", "PASSWORD"))
    conf = {"spark.jars": os.environ["BENCH_DRIVER"]}
    spark = start_session(SessionSettings("bench", slots, 2 * slots, work, conf))
    url_of_side = f"{url}?reWriteBatchedInserts=true" if side == "jdbc, rewriting" else url

    def writer(table: str) -> tuple[Write, Callable[[], None] | None]:
        if side.startswith("jdbc"):
            return by_jdbc(table, url_of_side, user, password)
        return by_sink(table, url, user, password, upsert=side == "upsert")

    # Whatever Java compiles and Python imports is there before the clock runs.
    write, publish = writer("warm")
    write(rows(spark, 0, WARM_ROWS, slots), 0)
    if publish is not None:
        publish()
    write, publish = writer("report")
    share = total // batches
    begun = time.perf_counter()
    for number in range(batches):
        write(rows(spark, number * share, (number + 1) * share, slots), number)
    written = time.perf_counter()
    if publish is not None:
        publish()
    seconds = None if publish is None else time.perf_counter() - written
    result.write_text(json.dumps({"write": written - begun, "publish": seconds}))
    spark.stop()


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    main(**{**arguments, "work": Path(arguments["work"]), "result": Path(arguments["result"])})
