"""Makes the input: orders as values of Kafka records and as Parquet files, and the tables and versions to join."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyarrow import parquet
from pyarrow.csv import write_csv
from tests.integration.runtime.avro_records import long, record, text
from tests.servers.kafka import KafkaServer
from tests.servers.postgresql import PostgresqlServer

PARTITIONS = 4
FILE_ROWS = 250_000
PRODUCTS = 10_000
REGIONS = 200
BAD_EVERY = 100
"""With bad values, every so-manieth is cut off in the middle."""
DELAY = 10
"""Seconds by which event times may be late; none is."""
DATABASE = "shop"

ORDER_DDL = "id BIGINT, customer STRING, product INT, amount DOUBLE, at TIMESTAMP, note STRING"
ORDER_AVRO = record(
    "Order",
    id="long",
    customer="string",
    product="int",
    amount="double",
    at={"type": "long", "logicalType": "timestamp-micros"},
    note="string",
)
ORDER_PROTO = """\
syntax = "proto3";
message Order {
  int64 id = 1;
  string customer = 2;
  int32 product = 3;
  double amount = 4;
  int64 at = 5;
  string note = 6;
}
"""
ORDERS_DDL = "id BIGINT, product INT, region INT, amount DOUBLE, at TIMESTAMP"
RATES_DDL = "region INT, rate DOUBLE, since TIMESTAMP"

_BEGIN_US = 1_767_225_600_000_000  # 2026-01-01
_STEP_US = 1_000
_VARIETY = 50_000
_RATES_PER_FILE = 4


def order_message() -> Any:
    """Return the class of Protobuf's messages of `ORDER_PROTO`."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    made, kinds = file.message_type.add(name="Order"), descriptor_pb2.FieldDescriptorProto
    types = (kinds.TYPE_INT64, kinds.TYPE_STRING, kinds.TYPE_INT32, kinds.TYPE_DOUBLE, kinds.TYPE_INT64)
    names = ("id", "customer", "product", "amount", "at", "note")
    for number, (name, kind) in enumerate(zip(names, (*types, kinds.TYPE_STRING), strict=True), 1):
        made.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


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


def _avro(number: int) -> bytes:
    id_, customer, product, amount, at, note = _fields(number).values()
    return long(id_) + text(customer) + long(product) + struct.pack("<d", amount) + long(at) + text(note)


def _protobuf() -> Callable[[int], bytes]:
    message = order_message()
    return lambda number: bytes(message(**_fields(number)).SerializeToString())


def _some_bad(number: int) -> bytes:
    value = _json(number)
    return value[: len(value) // 2] if number % BAD_EVERY == BAD_EVERY - 1 else value


FORMS: dict[str, Callable[[], Callable[[int], bytes]]] = {
    "json": lambda: _json,
    "avro": lambda: _avro,
    "protobuf": _protobuf,
    "bad": lambda: _some_bad,
}


def fill(server: KafkaServer, form: str, records: int) -> str:
    """Create a topic of orders in a form, and return its name; the values repeat after a while."""
    topic = f"{form}-{records}"
    server.create_topic(topic, PARTITIONS)
    made = FORMS[form]()
    values = [made(number) for number in range(_VARIETY)]

    def rows() -> Iterator[tuple[None, bytes]]:
        for number in range(records):
            yield None, values[number % _VARIETY]

    server.produce(topic, rows(), producer=server.producer(batch_size="262144", linger_ms="20"))
    return topic


def make_files(directory: Path, rows: int) -> None:
    """Write orders, versions of rates, and products below a directory; event time grows from file to file."""
    for name in ("orders", "rates", "products"):
        (directory / name).mkdir(parents=True)
    for number in range(rows // FILE_ROWS):
        begin = number * FILE_ROWS
        _write(_orders(begin), directory / "orders", number)
        _write(_rates(begin), directory / "rates", number)
    _write(pa.table(dict(zip(("product", "name", "price"), _products(), strict=True))), directory / "products", 0)


def make_csv(directory: Path, rows: int) -> None:
    """Write orders as CSV below a directory."""
    (directory / "csv").mkdir(parents=True)
    for number in range(rows // FILE_ROWS):
        write_csv(_orders(number * FILE_ROWS), directory / "csv" / f"{number:05}.csv")


def make_products(server: PostgresqlServer) -> None:
    """Create a database with the table of products, and an index on its key."""
    server.make_database(DATABASE)
    with server.connect(DATABASE, server.role) as connection:
        connection.execute("CREATE TABLE products (product int PRIMARY KEY, name text, price double precision)")
        with connection.cursor().copy("COPY products FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in _products()), strict=True):
                copy.write_row(row)
        connection.execute("ANALYZE products")


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


def _rates(begin: int) -> pa.Table:
    chance = np.random.default_rng(begin + 1)
    count = REGIONS * _RATES_PER_FILE
    # Half a step beside the orders' times, so no order has the time of a version.
    ids = begin + np.arange(count) * (FILE_ROWS // count)
    return pa.table(
        {
            "region": pa.array(np.arange(count) % REGIONS, pa.int32()),
            "rate": chance.integers(1, 1000, count) / 100,
            "since": _times(ids, _STEP_US // 2),
        }
    )


def _products() -> tuple[pa.Array, pa.Array, pa.Array]:
    numbers = np.arange(PRODUCTS)
    names = [f"product number {number}" for number in numbers]
    return pa.array(numbers, pa.int32()), pa.array(names), pa.array(numbers / 4)


def _times(ids: np.ndarray, more: int = 0) -> pa.Array:
    return pa.array(_BEGIN_US + ids * _STEP_US + more, pa.timestamp("us", tz="UTC"))


def _write(table: pa.Table, directory: Path, number: int) -> None:
    file = directory / f"{number:05}.parquet"
    parquet.write_table(table, file)
    # Spark reads files in the order of these times.
    os.utime(file, (_BEGIN_US // 1_000_000 + number,) * 2)
