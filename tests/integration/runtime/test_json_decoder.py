"""JSON of records is decoded as Spark's `from_json` decodes it, and a text that it cannot read as a whole is NULL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamjob.job.encoding_spec import Encoding
from streamjob_runtime.kafka.schemas import UnusableSchema, decoded, decoder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIELDS = (
    "id BIGINT, name STRING, at TIMESTAMP, day DATE, amount DECIMAL(10, 2), tags ARRAY<STRING>, "
    "counts MAP<STRING, INT>, inner STRUCT<x: DOUBLE, y: BOOLEAN>, raw BINARY"
)
TEXTS = (
    b'{"id": 1, "name": "a", "at": "2026-01-01T12:00:00+02:00", "day": "2026-01-01", "amount": 12.345}',
    b'{"tags": ["a", null], "counts": {"x": 1}, "inner": {"x": 1e3, "y": true}, "raw": "aGk="}',
    b'{"name": "gr\xc3\xbc\xc3\x9fe \\u20ac \xf0\x9f\x98\x80", "more": [{}]}',
    b'{"name": "\xff is no UTF-8"}',
    b'{"name": {"an": "object"}, "id": null}',
    b'{"name": "%s", "id": 7}' % (b"long " * 10_000),
    b'  {"id": 3}  behind it',
    b'{"id": 4, "id": 5}',
    b'{"at": "01.02.2026"}',
    b"{}",
    b'[{"id": 6}]',
    b"",
    b"null",
    b"7",
    b'\xef\xbb\xbf{"id": 8}',
    b'{"id": "nine"}',
    b'{"id": 9.5}',
    b'{"id": 10, "inner": {"x": "wide"}}',
    b'{"id": 11, "amount": 123456789.12}',
    b'{"id": 12',
    b"{'id': 13}",
    b'{"id": 99999999999999999999}',
    None,
)


@pytest.mark.parametrize(
    "options",
    [{}, {"timestampFormat": "dd.MM.yyyy", "allowSingleQuotes": "false"}, {"primitivesAsString": "true"}],
    ids=["defaults", "formats", "texts"],
)
def test_a_text_is_decoded_as_from_json_decodes_it(spark: SparkSession, options: dict[str, str]) -> None:
    from pyspark.sql import functions as f

    ours = decoder(spark, "Source 'a'", Encoding(format="json", options=options), FIELDS, None)
    frame = spark.createDataFrame(list(enumerate(TEXTS)), "number INT, bytes BINARY")
    theirs = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_broken"}
    read = f.from_json(f.col("bytes").cast("string"), f"{FIELDS}, _broken STRING", theirs)
    whole = f.when(f.col("read._broken").isNull(), f.col("read").dropFields("_broken"))

    rows = (
        frame.withColumn("read", read)
        .select("number", whole.alias("theirs"), decoded(spark, f.col("bytes"), ours).getField("value").alias("ours"))
        .orderBy("number")
        .collect()
    )

    assert [row["ours"] for row in rows] == [row["theirs"] for row in rows]
    assert 8 < sum(row["ours"] is not None for row in rows) < len(TEXTS)


@pytest.mark.parametrize(
    ("fields", "options", "said"),
    [
        ("id BIGINT, name VARCHAR(3)", {}, "char"),
        ("id BIGINT", {"allowComments": "soon"}, "with its options: For input string: .soon"),
    ],
)
def test_fields_and_options_that_make_no_sense_are_refused_at_the_start(
    spark: SparkSession, fields: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(UnusableSchema, match=f"(?i){said}"):
        decoder(spark, "Source 'a'", Encoding(format="json", options=options), fields, None)
