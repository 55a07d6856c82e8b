"""Values of Avro and Protobuf are decoded exactly at the edges of their types, or are broken records."""

from __future__ import annotations

import datetime
import json
import math
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.avro_records import long, text

from streamjob.job.model.encoding_spec import Encoding
from streamjob_runtime.kafka.schemas import decoded, decoder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NO_UTF8 = b"caf\xe9"
BROKEN = "broken"
LONGEST, SHORTEST = 2**63 - 1, -(2**63)


def logical(kind: str, name: str, **more: Any) -> str:
    return json.dumps({"type": kind, "logicalType": name, **more})


def unscaled(number: int) -> bytes:
    """Return a decimal of Avro: its digits as bytes."""
    content = number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
    return long(len(content)) + content


AVRO: dict[str, list[tuple[bytes, Any]]] = {
    '"int"': [(long(2**31 - 1), 2**31 - 1), (long(-(2**31)), -(2**31)), (long(LONGEST), BROKEN), (b"", BROKEN)],
    '"long"': [(long(LONGEST), LONGEST), (long(SHORTEST), SHORTEST), (long(1) + b"x", BROKEN)],
    '"float"': [(struct.pack("<f", -0.0), -0.0), (struct.pack("<f", math.inf), math.inf), (b"\0\0\0", BROKEN)],
    '"double"': [(struct.pack("<d", math.nan), math.nan), (struct.pack("<d", 5e-324), 5e-324)],
    '"string"': [
        (text(""), ""),
        (text("a\0\u00fc\U0001f600"), "a\0\u00fc\U0001f600"),
        (long(4) + NO_UTF8, BROKEN),
        (long(3) + b"\xed\xa0\x80", BROKEN),
        (long(9) + b"short", BROKEN),
        (long(-1), BROKEN),
    ],
    '"bytes"': [(long(4) + NO_UTF8, NO_UTF8), (long(0), b"")],
    '["null", "string"]': [(long(0), None), (long(1) + text("x"), "x"), (long(2), BROKEN)],
    '{"type": "enum", "name": "E", "symbols": ["A", "B"]}': [(long(1), "B"), (long(2), BROKEN)],
    '{"type": "map", "values": "int"}': [
        (long(1) + text("k") + long(7) + long(0), {"k": 7}),
        (long(1) + long(4) + NO_UTF8 + long(7) + long(0), BROKEN),
    ],
    '{"type": "array", "items": "string"}': [
        (long(2) + text("a") + text("") + long(0), ["a", ""]),
        (long(1) + long(4) + NO_UTF8 + long(0), BROKEN),
    ],
    logical("bytes", "decimal", precision=4, scale=2): [
        (unscaled(9999), Decimal("99.99")),
        (unscaled(-9999), Decimal("-99.99")),
        (unscaled(10000), BROKEN),
    ],
    logical("bytes", "decimal", precision=38, scale=0): [
        (unscaled(10**38 - 1), Decimal(10**38 - 1)),
        (unscaled(10**38), BROKEN),
    ],
    logical("int", "date"): [
        (long(-719162), datetime.date(1, 1, 1)),
        (long(2932896), datetime.date(9999, 12, 31)),
    ],
    logical("long", "local-timestamp-millis"): [
        (long(-62135596800000), datetime.datetime(1, 1, 1)),
        (long(LONGEST), BROKEN),
    ],
    logical("long", "local-timestamp-micros"): [
        (long(253402300799999999), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ],
}

PROTO = """
syntax = "proto2";
message All {
  optional string s = 1;
  optional int32 i = 2;
  optional uint64 u = 3;
  optional double d = 4;
  map<string, int32> m = 5;
  repeated string several = 6;
  optional bytes raw = 7;
}
"""
PROTOBUF: list[tuple[bytes, Any]] = [
    (b"\x0a\x00", ""),
    (b"\x0a\x03a\x00b", "a\0b"),
    (b"\x0a\x04" + NO_UTF8, BROKEN),
    (b"\x32\x04" + NO_UTF8, BROKEN),
    (b"\x2a\x08\x0a\x04" + NO_UTF8 + b"\x10\x07", BROKEN),
    (b"\x3a\x04" + NO_UTF8, NO_UTF8),
    (b"\x10\xff\xff\xff\xff\x07", 2**31 - 1),
    (b"\x10\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01", -(2**31)),
    (b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Decimal(2**64 - 1)),
    (b"\x21" + struct.pack("<d", math.nan), math.nan),
    (b"\x21" + struct.pack("<d", -0.0), -0.0),
    (b"\x0a\x09short", BROKEN),
    (b"\x10", BROKEN),
    (b"\x12\x01x", BROKEN),
]


def read(spark: SparkSession, encoding: Encoding, records: list[bytes]) -> list[tuple[Any, str | None]]:
    """Return the value and the error of each record."""
    from pyspark.sql import functions as f

    decodes = decoder(spark, "Source 'a'", encoding, encoding.schema_ddl or "", None)
    frame = spark.createDataFrame(list(enumerate(records)), "number INT, bytes BINARY")
    rows = frame.select("number", decoded(spark, f.col("bytes"), decodes).alias("read")).orderBy("number").collect()
    return [(row["read"]["value"], row["read"]["error"]) for row in rows]


def check(found: tuple[Any, str | None], wanted: Any, case: object) -> None:
    value, error = found
    if wanted is BROKEN:
        assert value is None, case
        assert error is not None, case
        assert "its bytes are no" in error or error == "more bytes follow its value"
    else:
        assert (repr(value), error) == (repr(wanted), None), case


def test_avro_is_the_value_that_its_bytes_are_or_broken(spark: SparkSession) -> None:
    for schema, cases in AVRO.items():
        records = [content for content, _ in cases]
        for found, (content, wanted) in zip(
            read(spark, Encoding(format="avro", schema=schema), records), cases, strict=True
        ):
            check(found, wanted, (schema, content))


def test_protobuf_is_the_value_that_its_bytes_are_or_broken(spark: SparkSession) -> None:
    encoding = Encoding(format="protobuf", schema=PROTO, options={"upcast.unsigned.ints": "true"})

    for (row, error), (content, wanted) in zip(
        read(spark, encoding, [content for content, _ in PROTOBUF]), PROTOBUF, strict=True
    ):
        values = [] if row is None else [each for each in row if each is not None and each not in ({}, [])]
        check((values[0] if values else None, error), wanted, content)
