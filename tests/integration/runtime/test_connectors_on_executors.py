"""Kafka, Protobuf, changes, joins with versions and tables, dead letters and a lake table, all of them on executors."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from tests import jobs
from tests.integration.runtime.executor_processes import LONG, ON_TWO, java_of_executors, kill
from tests.integration.runtime.graphs import BEGIN
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.protobuf_records import ORDER, message_class, order_file
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.test_temporal_joins import text
from tests.integration.sinks.databases import Database
from tests.integration.sinks.lakes import Lake
from tests.jobs import sql
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

Order = message_class(order_file(), "shop.Order")
ORDERS, CHANGED_AT, PRODUCTS = 60, 35, 3
SECRET = "STREAMJOB_TEST_PASSWORD"
TABLE = "db.priced"
RESULT = """
SELECT CAST(n.id AS BIGINT) AS id, CAST(n.rate AS BIGINT) AS rate, n.title, c.name AS customer
FROM named n LEFT JOIN customers c ON n.product = c.id
"""
HELD = """
import time
from pathlib import Path

from pyspark.sql import functions as F

HERE = Path(__file__).parent


@F.udf("string")
def hold(value):
    (HERE / f"{value}.began").touch()
    while not (HERE / "open").exists():
        time.sleep(0.05)
    return value


def held(records):
    return records.select(hold(F.col("value").cast("string")).alias("value"))
"""
COLUMNS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "rate", LongType()),
    NestedField(3, "title", StringType()),
    NestedField(4, "customer", StringType()),
)


def fill(server: KafkaServer, orders: str, rates: str) -> None:
    """Put orders, one broken record, and the changes of a rate into two topics."""
    values: list[str | bytes | None] = [
        Order(id=number, name="EUR", cash=number % PRODUCTS, at=BEGIN.replace(second=0)).SerializeToString()
        for number in range(1, CHANGED_AT)
    ]
    values.append(b"\x08")
    values += [
        Order(id=number, name="EUR", cash=number % PRODUCTS, at=BEGIN.replace(second=30)).SerializeToString()
        for number in range(CHANGED_AT, ORDERS)
    ]
    server.produce(orders, [(None, value) for value in values], partition=0)
    first: dict[str, Any] = {"code": "EUR", "rate": 1, "since": text(-60)}
    second: dict[str, Any] = {"code": "EUR", "rate": 2, "since": text(20)}
    changes: list[dict[str, Any]] = [
        {"before": None, "after": first, "op": "c"},
        {"before": first, "after": second, "op": "u"},
    ]
    server.produce(rates, [("EUR", json.dumps({**each, "ts_ms": 1, "source": {}})) for each in changes], partition=0)


def topic(server: KafkaServer, name: str, read: str, **fields: Any) -> dict[str, Any]:
    """Return a source that reads a topic to its end, a few records at a time."""
    return jobs.topic(name, server.bootstrap, read, {"maxOffsetsPerTrigger": 6}, bounded=True, **fields)


def table(database: Database, name: str, **fields: Any) -> dict[str, Any]:
    """Return a table of a database."""
    options = {
        "url": f"jdbc:{database.server.url(database.name)}",
        "user": database.server.role,
        "password": f"${{env:{SECRET}}}",
        "dbtable": name,
    }
    return {"name": name, "format": "jdbc", "options": options, **fields}


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_joins_changes_protobuf_dead_letters_and_a_lake_table_outlive_an_executor(
    kafka_server: KafkaServer, database: Database, postgresql_driver: Path, tmp_path: Path
) -> None:
    names = {each: f"{each}-{tmp_path.name}" for each in ("orders", "rates", "out")}
    for each in names.values():
        kafka_server.create_topic(each, 2, retention_ms="-1")
    fill(kafka_server, names["orders"], names["rates"])
    database.execute("CREATE TABLE products (id int, title text)")
    database.execute("CREATE TABLE customers (id int, name text)")
    for number in range(PRODUCTS):
        database.execute(f"INSERT INTO products VALUES ({number}, 'p{number}')")
        database.execute(f"INSERT INTO customers VALUES ({number}, 'c{number}')")
    (tmp_path / "warehouse").mkdir()
    lake = Lake(database, (tmp_path / "warehouse").as_uri())
    lake.make(TABLE, COLUMNS)
    (tmp_path / "order.proto").write_text(ORDER)
    encoded = {"format": "protobuf", "schemaFile": "order.proto"}
    orders = topic(
        kafka_server,
        "orders",
        names["orders"],
        value=encoded,
        columns=["value.id AS id", "value.name AS currency", "CAST(value.cash AS INT) AS product", "value.at AS at"],
        watermark={"column": "at", "delay": "0s"},
        onError="deadLetter",
    )
    rates = topic(
        kafka_server,
        "rates",
        names["rates"],
        changes="debezium",
        value={"format": "json", "schema": "code STRING, rate INT, since TIMESTAMP"},
        columns=["value.code AS code", "value.rate AS rate", "value.since AS since", "_change_type"],
        watermark={"column": "since", "delay": "0s"},
    )
    written = {"kafka.bootstrap.servers": kafka_server.bootstrap, "topic": names["out"]}
    join = {"on": ["currency = code"], "select": ["rate"]}
    lookup = {"table": "products", "on": ["product = id"], "select": ["title"]}
    job = jobs.job_file(
        {"name": "priced", "inputs": ["orders", "rates"], "temporalJoin": join},
        {"name": "named", "inputs": ["priced"], "lookup": lookup},
        sql("result", ["named"], RESULT),
        sql("records", ["result"], "SELECT struct(id, title AS name) AS value FROM result"),
        sql("letters", ["orders_dead_letters"], "SELECT base64(value) AS value, error FROM orders_dead_letters"),
        sources=[orders, rates],
        tables=[table(database, "products", lookup={}), table(database, "customers")],
        sinks=[
            jobs.sink("result", "iceberg", options=lake.options(TABLE, password=f"${{env:{SECRET}}}")),
            jobs.sink("records", "kafka", value=encoded, options=written),
            jobs.sink("letters", "json", tmp_path / "bad"),
        ],
        name="shop",
        maxParallelism=4,
        checkpointing={"interval": "500ms"},
        sparkConf={"spark.jars": str(postgresql_driver)},
    )
    environment = {SECRET: database.server.password}

    with job_runs(write_job(tmp_path, job), tmp_path / "snapshots", "shop") as runs:
        process = runs.start(*ON_TWO, environment=environment)
        runs.wait(lambda: runs.furthest() > 0, "checkpoint with state", process, LONG)
        kill(java_of_executors(tmp_path / "work")["executor-0"])
        assert process.wait(LONG) == 0, process.output()
        assert "is lost" in process.output()

    expected = Counter(
        (number, 1 if number < CHANGED_AT else 2, f"p{number % PRODUCTS}", f"c{number % PRODUCTS}")
        for number in range(1, ORDERS)
    )
    assert Counter(lake.rows(TABLE)) == expected
    records = [Order.FromString(each.value) for each in kafka_server.consume(names["out"]) if each.value]
    assert Counter((each.id, each.name) for each in records) == Counter((row[0], row[2]) for row in expected)
    letters = [json.loads(line) for file in (tmp_path / "bad").glob("*.json") for line in file.read_text().splitlines()]
    assert [each["value"] for each in letters] == ["CA=="]


@pytest.mark.timeout(600)
def test_a_partition_of_a_topic_is_read_by_another_executor_if_its_own_is_killed(
    kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    for partition in range(2):
        kafka_server.produce(topic, [(None, str(partition))], partition=partition)
    (tmp_path / "holding.py").write_text(HELD)
    job = jobs.job_file(
        jobs.python("held", "records", "holding:held"),
        sources=[jobs.topic("records", kafka_server.bootstrap, topic, bounded=True)],
        sinks=[jobs.sink("held", "json", tmp_path / "out")],
        name="held",
    )

    with job_runs(write_job(tmp_path, job), tmp_path / "snapshots", "held") as runs:
        process = runs.start(*ON_TWO)
        runs.wait(lambda: len(list(tmp_path.glob("*.began"))) == 2, "task on each executor", process, LONG)
        kill(java_of_executors(tmp_path / "work")["executor-0"])
        runs.wait(lambda: "is lost" in process.output(), "loss", process)
        (tmp_path / "open").touch()
        assert process.wait() == 0, process.output()
        assert runs.epoch() == 1

    files = (tmp_path / "out").glob("*.json")
    assert sorted(file.read_text() for file in files) == [f'{{"value":"{partition}"}}\n' for partition in range(2)]
