"""Makes the input: orders as values of Kafka records, and as CSV files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.csv import write_csv
from tests.servers.kafka import KafkaServer

PARTITIONS = 4
FILE_ROWS = 250_000
PRODUCTS = 10_000
REGIONS = 200
BAD_EVERY = 100
"""With bad values, every so-manieth is cut off in the middle."""
DELAY = 10
"""Seconds by which event times may be late; none is."""

ORDER_DDL = "id BIGINT, customer STRING, product INT, amount DOUBLE, at TIMESTAMP, note STRING"
ORDERS_DDL = "id BIGINT, product INT, region INT, amount DOUBLE, at TIMESTAMP"

_BEGIN_US = 1_767_225_600_000_000  # 2026-01-01
_STEP_US = 1_000
_VARIETY = 50_000


def _fields(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"customer-{number * 7919 % 20_000}",
        "product": number * 31 % PRODUCTS,
        "amount": number % 100_000 / 100,
        "at": _BEGIN_US + number * _STEP_US,
        "note": f"deliver order {number} to the back door, please",
    }


def _json(number: int) -> bytes:
    at = datetime.fromtimestamp((_BEGIN_US + number * _STEP_US) / 1e6, UTC)
    return json.dumps({**_fields(number), "at": at.isoformat(timespec="milliseconds")}).encode()


def _some_bad(number: int) -> bytes:
    value = _json(number)
    return value[: len(value) // 2] if number % BAD_EVERY == BAD_EVERY - 1 else value


FORMS = {"json": _json, "bad": _some_bad}


def fill(server: KafkaServer, form: str, records: int) -> str:
    """Create a topic of orders in a form, and return its name; the values repeat after a while."""
    topic = f"{form}-{records}"
    server.create_topic(topic, PARTITIONS)
    values = [FORMS[form](number) for number in range(_VARIETY)]

    def rows() -> Iterator[tuple[None, bytes]]:
        for number in range(records):
            yield None, values[number % _VARIETY]

    server.produce(topic, rows(), producer=server.producer(batch_size="262144", linger_ms="20"))
    return topic


def make_csv(directory: Path, rows: int) -> None:
    """Write orders as CSV below a directory."""
    (directory / "csv").mkdir(parents=True)
    for number in range(rows // FILE_ROWS):
        write_csv(_orders(number * FILE_ROWS), directory / "csv" / f"{number:05}.csv")


def _orders(begin: int) -> pa.Table:
    chance = np.random.default_rng(begin)
    ids = np.arange(begin, begin + FILE_ROWS)
    return pa.table(
        {
            "id": ids,
            "product": chance.integers(0, PRODUCTS, FILE_ROWS, dtype=np.int32),
            "region": chance.integers(0, REGIONS, FILE_ROWS, dtype=np.int32),
            "amount": chance.integers(0, 100_000, FILE_ROWS) / 100,
            "at": _times(ids),
        }
    )


def _times(ids: np.ndarray) -> pa.Array:
    return pa.array(_BEGIN_US + ids * _STEP_US, pa.timestamp("us", tz="UTC"))
