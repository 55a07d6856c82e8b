"""The purchases job from topics to a topic and tables: two topics, a join, windows, and every sink exactly once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.integration.runtime.purchases import MATCHED_SQL, TOTALS_SQL, Purchases, Rows
from tests.integration.sinks.databases import Database
from tests.servers.kafka import KafkaServer

PASSWORD = "${env:STREAMJOB_TEST_PASSWORD}"
PARTITIONS = 2
BATCH = 60
"""Records of a topic that a batch takes at most."""

_COLUMNS = "customer text, minute timestamptz, orders bigint, paid bigint, amount bigint"
_READ = """
SELECT {columns} FROM (SELECT from_json(CAST(value AS STRING), '{schema}') AS row, timestamp FROM {source})
"""
_RECORDS_SQL = """
SELECT customer AS key, to_json(struct(customer, unix_seconds(minute) AS minute, orders, paid, amount)) AS value
FROM totals
"""


def fill(server: KafkaServer, purchases: Purchases) -> None:
    """Put the input into the topics `orders` and `payments`; the time of each event is that of its record."""
    for directory, column in ((purchases.orders, "ordered"), (purchases.payments, "paid")):
        topic = directory.name
        # The rows are older than what a topic keeps by default.
        server.create_topic(topic, PARTITIONS, retention_ms="-1")
        producer = server.producer()
        for number, row in enumerate(_lines(directory)):
            at = round(datetime.fromisoformat(row.pop(column)).timestamp() * 1000)
            producer.produce(topic, value=json.dumps(row), partition=number % PARTITIONS, timestamp=at)
        assert producer.flush(30) == 0, f"the broker did not take all of {topic}"


def make_places(server: KafkaServer, database: Database) -> None:
    """Make the topic and the tables that the job writes to."""
    server.create_topic("totals", PARTITIONS)
    database.execute(f"CREATE TABLE inserted ({_COLUMNS})")
    database.execute(f"CREATE TABLE replaced ({_COLUMNS}, PRIMARY KEY (customer, minute))")


def job(server: KafkaServer, database: Database) -> dict[str, Any]:
    """Return the job's file."""
    broker = {"kafka.bootstrap.servers": server.bootstrap}
    tables: Mapping[str, Mapping[str, str]] = {
        "inserted": {},
        "replaced": {"mode": "upsert", "key": "customer, minute"},
    }
    return {
        "name": "purchases",
        "parallelism": 2,
        "maxParallelism": 2,
        "checkpointing": {"interval": "400ms"},
        "sources": [_source(topic, broker) for topic in ("orders", "payments")],
        "operators": [
            _reader(
                "orders",
                "row.id, row.customer, timestamp AS ordered, row.amount",
                "id STRING, customer STRING, amount BIGINT",
            ),
            _reader("payments", "row.order_id, timestamp AS paid", "order_id STRING"),
            {"name": "matched", "inputs": ["orders", "payments"], "sql": MATCHED_SQL},
            {"name": "totals", "inputs": ["matched"], "sql": TOTALS_SQL},
            {"name": "records", "inputs": ["totals"], "sql": _RECORDS_SQL},
        ],
        "sinks": [
            {"name": "topic", "input": "records", "format": "kafka", "options": {**broker, "topic": "totals"}},
            *(
                {
                    "name": name,
                    "input": "totals",
                    "format": "postgresql",
                    "options": {**database.options(name, **options), "password": PASSWORD},
                }
                for name, options in tables.items()
            ),
        ],
    }


def topic_rows(server: KafkaServer) -> Rows:
    """Return what a consumer of committed records finds."""
    rows = [json.loads(message.value or b"") for message in server.consume("totals")]
    return Counter(
        (row["customer"], datetime.fromtimestamp(row["minute"], UTC), row["orders"], row["paid"], row["amount"])
        for row in rows
    )


def table_rows(database: Database, table: str) -> Rows:
    """Return what SQL finds."""
    found = database.execute(f"SELECT customer, minute, orders, paid, amount FROM {table}")
    return Counter((row[0], row[1].astimezone(UTC), *row[2:]) for row in found)


def rows_seen(server: KafkaServer, database: Database) -> dict[str, Rows]:
    """Return what is found in each place."""
    tables = {name: table_rows(database, name) for name in ("inserted", "replaced")}
    return {"topic": topic_rows(server), **tables}


def left_open(server: KafkaServer, database: Database) -> list[Any]:
    """Return transactions that are open, and tables of staged rows."""
    in_database = database.server.open_transactions(database.name)
    return [*server.open_transactions(), *in_database, *database.staging_tables()]


def in_utc(rows: Rows) -> Rows:
    """Return rows of a batch with their times in UTC."""
    return Counter({(row[0], row[1].astimezone(UTC), *row[2:]): count for row, count in rows.items()})


def _lines(directory: Path) -> Iterable[dict[str, Any]]:
    for file in sorted(directory.iterdir()):
        yield from map(json.loads, file.read_text().splitlines())


def _source(topic: str, broker: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": f"{topic}_topic",
        "format": "kafka",
        "options": {**broker, "subscribe": topic, "maxOffsetsPerTrigger": BATCH},
        "bounded": True,
        "watermark": {"column": "timestamp", "delay": "1m"},
    }


def _reader(name: str, columns: str, schema: str) -> dict[str, Any]:
    source = f"{name}_topic"
    return {"name": name, "inputs": [source], "sql": _READ.format(columns=columns, schema=schema, source=source)}
