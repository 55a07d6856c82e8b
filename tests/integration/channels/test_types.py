"""Every type that a column may have goes through a channel unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.integration.channels.chains import Chain, Transport
from tests.integration.core import core

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS = {
    "boolean": "true",
    "byte": "127Y",
    "short": "-32768S",
    "int": "2147483647",
    "long": "-9223372036854775808L",
    "float": "float('NaN')",
    "double": "-0.0D",
    "decimal": "12345678901234567890123456789.123456789BD",
    "small_decimal": "-1.50BD",
    "string": "'naïve 日本 🚀'",
    "empty": "''",
    "collated": "'Same' COLLATE UTF8_LCASE",
    "fixed": "cast('ab' AS char(4))",
    "binary": "X'00FF10'",
    "date": "DATE'0001-01-01'",
    "timestamp": "TIMESTAMP'2026-03-29 01:59:59.123456Z'",
    "early": "TIMESTAMP'0001-01-01 00:00:00Z'",
    "timestamp_ntz": "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    "months": "INTERVAL '-7' MONTH",
    "years": "INTERVAL '3-11' YEAR TO MONTH",
    "duration": "INTERVAL '-12 03:04:05.123456' DAY TO SECOND",
    "calendar": "make_interval(1, 2, 3, 4, 5, 6, 7.654321)",
    "null": "NULL",
    "array": "array(1, NULL, 3)",
    "nested": "array(array('a'), NULL, array())",
    "structs": "array(named_struct('x', 1, 'y', 'b'), NULL)",
    "struct": "named_struct('x', 1, 'y', named_struct('z', array(1.5D), 'none', cast(NULL AS string)))",
    "map": "map('a', 1, 'b', NULL)",
    "map_of_structs": "map(named_struct('k', 1), array(map(1, 'x')))",
    "variant": 'parse_json(\'{"a":[1,2.5,null],"b":"text"}\')',
}


def as_text(frame: DataFrame) -> list[tuple[str | None, ...]]:
    columns = [f"cast(`{name}` AS string)" for name in frame.columns]
    return [tuple(row) for row in frame.selectExpr(*columns).collect()]


@pytest.mark.parametrize("name", core(COLUMNS, "string", "decimal", "array"))
def test_a_value_comes_out_as_it_went_in(
    spark: SparkSession, transport: Callable[..., Transport], chain: Callable[..., Chain], name: str
) -> None:
    value = COLUMNS[name]
    frame = spark.sql(f"SELECT {value} AS `{name}` UNION ALL SELECT NULL UNION ALL SELECT {value}").coalesce(1)
    stream = transport()
    stream.put(frame)
    stream.serve("reader")
    read: list[tuple[str | None, ...]] = []

    def look(_: Chain, batch: DataFrame, number: int) -> None:
        read.extend(as_text(batch))

    reader = stream.stream.reader("reader", frame.schema).frame
    chain(reader, on_batch=look).catch_up()

    assert [(field.name, field.dataType) for field in reader.schema] == [
        (field.name, field.dataType) for field in frame.schema
    ]
    assert read == as_text(frame)
    assert len(read) == 3


def test_rows_may_have_many_columns_and_columns_odd_names(
    spark: SparkSession, transport: Callable[..., Transport], chain: Callable[..., Chain]
) -> None:
    frame = spark.sql("SELECT 1 AS `a.b`, 'x' AS `back``tick`, TIMESTAMP'2026-01-01 00:00:00Z' AS `the time`")
    stream = transport()
    stream.put(frame)
    stream.serve("reader")

    reading = stream.stream.reader("reader", frame.schema, ["the time"])
    run = chain(reading.frame)
    run.catch_up()

    assert reading.frame.columns == frame.columns
    assert run.rows == [tuple(row) for row in frame.collect()]
