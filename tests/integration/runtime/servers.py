"""Jobs on real servers: topics that they read, and a topic and tables that they write, each by another sink."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType
from tests import jobs
from tests.integration.sinks.lakes import Lake
from tests.servers.kafka import KafkaServer

PARTITIONS = 2

_SECRET = "STREAMJOB_TEST_PASSWORD"
_PASSWORD = f"${{env:{_SECRET}}}"
_ICEBERG_TABLE = "db.added"
_TYPES = {
    "string": ("text", StringType()),
    "bigint": ("bigint", LongType()),
    "timestamp": ("timestamptz", TimestamptzType()),
}
"""The names of Spark's types in PostgreSQL and Iceberg."""


def fill(broker: KafkaServer, topic: str, directory: Path, column: str, partitions: int = PARTITIONS) -> None:
    """Put the rows of a directory into a new topic, in turn into its partitions.

    Args:
        broker: has the topic.
        topic: its name.
        directory: files of JSON lines, in the order of their names.
        column: the time of a row, which becomes that of its record.
        partitions: how many the topic gets.
    """
    # The rows are older than what a topic keeps by default.
    broker.create_topic(topic, partitions, retention_ms="-1")
    producer = broker.producer()
    lines = [line for file in sorted(directory.iterdir()) for line in file.read_text().splitlines()]
    for number, row in enumerate(map(json.loads, lines)):
        # A record's time has whole milliseconds: cut off, not rounded, a row stays in its window.
        at = int(datetime.fromisoformat(row.pop(column)).timestamp() * 1000)
        producer.produce(topic, value=json.dumps(row), partition=number % partitions, timestamp=at)
    assert producer.flush(30) == 0, f"the broker did not take all of {topic}"


def topic_source(broker: KafkaServer, name: str, topic: str, batch: int, delay: str, **more: Any) -> dict[str, Any]:
    """Return a source that reads a topic, `batch` records at a time; `more` replaces whole fields."""
    usual: dict[str, Any] = {"bounded": True, "watermark": {"column": "timestamp", "delay": delay}}
    return jobs.topic(name, broker.bootstrap, topic, {"maxOffsetsPerTrigger": batch}, **usual | more)


def parsed(name: str, source: str, schema: str, columns: str) -> dict[str, Any]:
    """Return an operator that gives `columns` of the `row` of each record of a source, and of its `timestamp`."""
    rows = f"SELECT from_json(CAST(value AS STRING), '{schema}') AS row, timestamp FROM {source}"
    return {"name": name, "inputs": [source], "sql": f"SELECT {columns} FROM ({rows})"}


class Places:
    """A topic, two tables of PostgreSQL and one of Iceberg for the rows of a job, all of them empty.

    Args:
        broker: has the topic.
        lake: has the Iceberg table; the database of its catalog has the other tables.
        job: the job's name.
        columns: of the rows, Spark's types by name.
        key: the columns that tell the rows apart; the first one is text.
    """

    def __init__(
        self, broker: KafkaServer, lake: Lake, job: str, columns: Mapping[str, str], key: Sequence[str]
    ) -> None:
        self._broker = broker
        self._lake = lake
        self._database = lake.database
        self._job = job
        self._columns = columns
        self._key = key
        self._topic = f"{job}-rows"
        broker.create_topic(self._topic, PARTITIONS)
        in_sql = ", ".join(f"{name} {_TYPES[kind][0]}" for name, kind in columns.items())
        self._database.execute(f"CREATE TABLE inserted ({in_sql})")
        self._database.execute(f"CREATE TABLE replaced ({in_sql}, PRIMARY KEY ({', '.join(key)}))")
        fields = [
            NestedField(number, name, _TYPES[kind][1], required=name == key[0])
            for number, (name, kind) in enumerate(columns.items(), 1)
        ]
        partition = PartitionField(1 + list(columns).index(key[0]), 1000, BucketTransform(3), "bucket")
        lake.make(_ICEBERG_TABLE, Schema(*fields), PartitionSpec(partition))

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the job needs."""
        return {_SECRET: self._database.server.password}

    def written_from(self, operator: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return an operator that makes records of the rows of another one, and sinks that write them to the places."""
        records = f"SELECT {self._key[0]} AS key, to_json(struct(*)) AS value FROM {operator}"
        topic = {"kafka.bootstrap.servers": self._broker.bootstrap, "topic": self._topic}
        table = {"password": _PASSWORD}
        sinks = {
            "topic": ("kafka", topic),
            "inserted": ("postgresql", {**self._database.options("inserted"), **table}),
            "replaced": (
                "postgresql",
                {**self._database.options("replaced", mode="upsert", key=", ".join(self._key)), **table},
            ),
            "added": ("iceberg", self._lake.options(_ICEBERG_TABLE, password=_PASSWORD)),
        }
        return {"name": "records", "inputs": [operator], "sql": records}, [
            {"name": name, "input": "records" if name == "topic" else operator, "format": format_, "options": options}
            for name, (format_, options) in sinks.items()
        ]

    def rows(self) -> dict[str, Counter[Any]]:
        """Return what is seen in each place, by its sink."""
        columns = ", ".join(self._columns)
        tables = {
            name: Counter(self._database.execute(f"SELECT {columns} FROM {name}")) for name in ("inserted", "replaced")
        }
        records = [json.loads(message.value or b"") for message in self._broker.consume(self._topic)]
        return {
            "topic": Counter(tuple(self._value(record, name) for name in self._columns) for record in records),
            **tables,
            "added": Counter(self._lake.rows(_ICEBERG_TABLE)),
        }

    def left_behind(self) -> list[Any]:
        """Return transactions that are open, tables of staged rows, and files that are part of no table."""
        database = self._database
        return [
            *self._broker.open_transactions(f"streamjob/default/{self._job}/"),
            *database.server.open_transactions(database.name),
            *database.staging_tables(),
            *self._lake.stray(_ICEBERG_TABLE),
        ]

    def _value(self, record: Mapping[str, Any], column: str) -> Any:
        value = record.get(column)
        return datetime.fromisoformat(value) if value and self._columns[column] == "timestamp" else value
