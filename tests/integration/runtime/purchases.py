"""A job whose output is known: orders joined with their payments, counted per customer and minute, into two sinks."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.jobs import files, job_file, sink, sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[Any, ...]
Rows = Counter[Row]

ORDERS = "id STRING, customer STRING, ordered TIMESTAMP, amount BIGINT"
PAYMENTS = "order_id STRING, paid TIMESTAMP"
TOTALS = "customer STRING, minute TIMESTAMP, orders BIGINT, paid BIGINT, amount BIGINT"
MATCHED_SQL = """
SELECT o.id, o.customer, o.ordered, o.amount, p.paid
FROM orders o LEFT JOIN payments p
  ON o.id = p.order_id AND p.paid >= o.ordered AND p.paid <= o.ordered + INTERVAL 1 MINUTE
"""
TOTALS_SQL = """
SELECT customer, window.start AS minute, count(*) AS orders, count(paid) AS paid, sum(amount) AS amount
FROM matched GROUP BY customer, window(ordered, '1 minute')
"""
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_FILE_TIME = 1_700_000_000


@dataclass(frozen=True)
class Purchases:
    """The input of the job, as files that Spark reads in the order of their names."""

    directory: Path

    @property
    def orders(self) -> Path:
        return self.directory / "orders"

    @property
    def payments(self) -> Path:
        return self.directory / "payments"

    @staticmethod
    def write(directory: Path, *, files: int, rows: int, seed: int = 1) -> Purchases:
        """Write `files` files of `rows` orders, and as many of payments; four in five orders are paid."""
        made = Purchases(directory)
        chance = random.Random(seed)
        orders, payments = [], []
        for number in range(files * rows):
            # At most 30 s out of order, half of what the watermark allows: no row is ever too late.
            at = _BEGIN + timedelta(seconds=number * 2 + chance.uniform(0, 30))
            orders.append(
                {
                    "id": f"o{number}",
                    "customer": f"c{chance.randrange(7)}",
                    "ordered": at.isoformat(),
                    "amount": chance.randrange(1000),
                }
            )
            if chance.random() < 0.8:
                paid = at + timedelta(seconds=chance.uniform(0, 29))
                payments.append({"order_id": f"o{number}", "paid": paid.isoformat()})
        _write(made.orders, orders, files)
        _write(made.payments, payments, files)
        return made

    def job(self, *, bounded: bool = True, files_a_batch: int = 1, **changes: Any) -> dict[str, Any]:
        """Return the job's file, whose sinks write to `<name>` next to it; `changes` replace whole fields."""
        sources = [
            _source("orders", ORDERS, self.orders, "ordered", bounded, files_a_batch),
            _source("payments", PAYMENTS, self.payments, "paid", bounded, files_a_batch),
        ]
        operators = [sql("matched", ["orders", "payments"], MATCHED_SQL), sql("totals", "matched", TOTALS_SQL)]
        sinks = [sink("totals", "parquet", "table", name="table"), sink("totals", "json", "lines", name="lines")]
        usual = {"name": "purchases", "parallelism": 2, "maxParallelism": 2, "checkpointing": {"interval": "400ms"}}
        return {**job_file(*operators, sources=sources, sinks=sinks, **usual), **changes}

    def batch(self, spark: SparkSession) -> Rows:
        """Return what Spark makes of the same input and queries as a batch."""
        spark.read.schema(ORDERS).json(str(self.orders)).createOrReplaceTempView("orders")
        spark.read.schema(PAYMENTS).json(str(self.payments)).createOrReplaceTempView("payments")
        spark.sql(MATCHED_SQL).createOrReplaceTempView("matched")
        return _rows(spark.sql(TOTALS_SQL))


def table_rows(spark: SparkSession, path: Path) -> Rows:
    """Return what any reader finds in the Parquet sink."""
    return _rows(spark.read.schema(TOTALS).parquet(str(path)))


def line_rows(spark: SparkSession, path: Path) -> Rows:
    """Return what any reader finds in the JSON sink."""
    return _rows(spark.read.schema(TOTALS).json(str(path)))


def write_job(directory: Path, job: Mapping[str, Any]) -> Path:
    """Write a job file; JSON is YAML."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "job.yaml"
    file.write_text(json.dumps(job, indent=1))
    return file


def _rows(frame: Any) -> Rows:
    columns = [field.partition(" ")[0] for field in TOTALS.split(", ")]
    return Counter(tuple(row[column] for column in columns) for row in frame.toArrow().to_pylist())


def _source(name: str, schema: str, path: Path, column: str, bounded: bool, files_a_batch: int) -> dict[str, Any]:
    watermark, options = {"column": column, "delay": "1m"}, {"maxFilesPerTrigger": files_a_batch}
    return files(name, path, schema, bounded=bounded, options=options, watermark=watermark)


def _write(directory: Path, rows: list[dict[str, Any]], files: int) -> None:
    directory.mkdir(parents=True)
    size = -(-len(rows) // files)
    for number in range(files):
        add_file(directory, number, rows[number * size : (number + 1) * size])


def add_file(directory: Path, number: int, rows: list[dict[str, Any]]) -> None:
    """Add an input file, which appears whole; files are read in the order of their numbers."""
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory.parent / f".{directory.name}-{number}"
    temporary.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(temporary, (_FILE_TIME + number, _FILE_TIME + number))
    temporary.rename(directory / f"{number:04d}.json")
