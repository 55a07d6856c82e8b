"""Rows become messages of Protobuf and messages rows, with the types of Spark's `from_protobuf`."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.protobuf_records import ORDER, message_class, order_file

from streamjob.job.model.encoding_spec import Encoding
from streamjob_runtime.kafka.schemas import decoded, decoder, encoded, encoder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ALL = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Color { RED = 0; BLUE = 5; }
message All {
  uint32 u = 1;
  uint64 v = 2;
  Color color = 3;
  repeated Color colors = 4;
  google.protobuf.StringValue word = 5;
  google.protobuf.UInt64Value huge = 6;
  All inner = 7;
  map<int32, All> by_number = 8;
  repeated google.protobuf.Timestamp times = 9;
  float f = 10;
  double d = 11;
  sint64 wide = 12;
  bool yes = 13;
}
"""
STRICT = """
syntax = "proto2";
enum Color { RED = 0; }
message Strict {
  required int64 id = 1;
  optional uint32 small = 2;
  optional Color color = 3;
  repeated string words = 4;
  oneof either { string a = 5; string b = 6; }
  optional string tone = 7 [default = "calm"];
}
"""


def written(rows: DataFrame, schema: str) -> DataFrame:
    from pyspark.sql import functions as f

    spark, encoding = rows.sparkSession, Encoding(format="protobuf", schema=schema)
    values = rows.select(f.struct("*").alias("value"))
    encodes = encoder(spark, "sink out", values.schema, "value", encoding, schema, None)
    return values.select(encoded(spark, f.col("value"), encodes).alias("value"))


def read(rows: DataFrame, schema: str, **options: str) -> DataFrame:
    from pyspark.sql import functions as f

    spark = rows.sparkSession
    encoding = Encoding(
        format="protobuf", schema=schema, options={name.replace("_", "."): each for name, each in options.items()}
    )
    decodes = decoder(spark, "Source 'in'", encoding, schema, None)
    return rows.select(decoded(spark, f.col("value"), decodes)["value"].alias("value")).select("value.*")


def test_what_is_written_is_read_again_with_the_types_that_the_options_choose(spark: SparkSession) -> None:
    row = """
        4294967295L AS u, 18446744073709551615 AS v, 'BLUE' AS color, array('RED', 'BLUE') AS colors, 'w' AS word,
        CAST(18446744073709551615 AS DECIMAL(20)) AS huge, named_struct('u', 1, 'yes', true) AS inner,
        map(-1, named_struct('wide', -5L)) AS by_number,
        array(TIMESTAMP '1969-12-31 23:59:59.25Z', TIMESTAMP '2026-01-01 00:00:00Z') AS times,
        CAST(1.5 AS FLOAT) AS f, CAST(2.5 AS FLOAT) AS d, -9 AS wide, false AS yes
    """
    bytes_of = written(spark.sql(f"SELECT {row}"), ALL).cache()

    chosen = read(
        bytes_of,
        ALL,
        upcast_unsigned_ints="true",
        enums_as_ints="true",
        unwrap_primitive_wrapper_types="true",
        recursive_fields_max_depth="2",
        emit_default_values="true",
    )
    plain = read(bytes_of, ALL, recursive_fields_max_depth="1")

    assert chosen.drop("inner", "by_number", "times").first() == (
        4294967295, Decimal(2**64 - 1), 5, [0, 5], "w", Decimal(2**64 - 1), 1.5, 2.5, -9, False,
    )  # fmt: skip
    nested = chosen.selectExpr(
        "inner.u", "inner.yes", "inner.wide", "by_number[-1].wide", "transform(times, each -> unix_micros(each))"
    )
    assert nested.first() == (1, True, 0, -5, [-750_000, 1767225600_000_000])
    assert plain.columns == ["u", "v", "color", "colors", "word", "huge", "times", "f", "d", "wide", "yes"]
    assert plain.select("u", "v", "color", "word.value", "huge.value", "yes").first() == (-1, -1, "BLUE", "w", -1, None)


def test_defaults_and_required_fields_of_the_second_version_are_kept(spark: SparkSession) -> None:
    rows = read(written(spark.sql("SELECT 1L AS id"), STRICT), STRICT)
    missing = read(spark.sql("SELECT x'1001' AS value"), STRICT)

    assert rows.select("id", "small", "tone").first() == (1, None, "calm")
    assert missing.select("id").first() == (None,)


def test_times_before_1970_and_negative_durations_are_written_as_other_libraries_read_them(spark: SparkSession) -> None:
    order = message_class(order_file(), "shop.Order")
    rows = spark.sql("SELECT TIMESTAMP '1969-12-31 23:59:59.25Z' AS at, INTERVAL '-0.25' SECOND AS took")
    (row,) = written(rows, ORDER).collect()

    found = order.FromString(bytes(row["value"]))

    assert found.at.ToMicroseconds() == -750_000
    assert found.took.ToTimedelta() == datetime.timedelta(seconds=-0.25)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("CAST(NULL AS BIGINT) AS id", "the required field Strict.id is NULL"),
        ("1L AS id, -1L AS small", "Strict.small cannot hold -1"),
        ("1L AS id, 'GREEN' AS color", "GREEN is no value of the enum Color"),
        ("1L AS id, array('a', NULL) AS words", "an element of Strict.words is NULL"),
        ("1L AS id, 'x' AS a, 'y' AS b", "two fields of Strict.either are not NULL"),
    ],
)
def test_a_row_that_a_message_cannot_hold_fails(spark: SparkSession, row: str, problem: str) -> None:
    encodes: Any = written(spark.sql(f"SELECT {row}"), STRICT)

    with pytest.raises(Exception, match=problem):
        encodes.collect()
