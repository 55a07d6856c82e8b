"""Every writer of JSON and CSV on values of every type: readers find what was written, or the rows are refused."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from pyspark.errors import PySparkException
from tests.integration.sinks.by_hand import opened
from tests.unit.runtime.rows_in_flight import InFlight

from streamjob.ids import BatchId, CheckpointId
from streamjob.job.model.spec import SinkSpec
from streamjob.sink import Staged
from streamjob_runtime.sinks.at_least_once.batch import AtLeastOnceSink, BatchSink
from streamjob_runtime.sinks.bucket.encoding import Encoding
from streamjob_runtime.sinks.bucket.rows import encoding_of, mismatches, prepared
from streamjob_runtime.sinks.encoding import EncodingSink
from streamjob_runtime.sinks.errors import UnusableSink
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink
from streamjob_runtime.sinks.postgresql.copying import csv_line
from streamjob_runtime.sinks.rows.readable_rows import readable_rows, unwritable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

AT = "'2024-05-01 10:00:00.123456'"
VALUES: Sequence[tuple[str, str, Any]] = [
    ("t1", f"TIMESTAMP{AT}", "2024-05-01T10:00:00.123456Z"),
    ("t2", "TIMESTAMP'2024-05-01 10:00:00'", "2024-05-01T10:00:00.000000Z"),
    ("t3", "TIMESTAMP'0001-01-01 00:00:00.000001'", "0001-01-01T00:00:00.000001Z"),
    ("t4", "TIMESTAMP'1582-10-10 00:00:00'", "1582-10-10T00:00:00.000000Z"),
    ("t5", "TIMESTAMP'9999-12-31 23:59:59.999999'", "9999-12-31T23:59:59.999999Z"),
    ("t6", "TIMESTAMP'1969-12-31 23:59:59.999999'", "1969-12-31T23:59:59.999999Z"),
    ("n1", f"TIMESTAMP_NTZ{AT}", "2024-05-01T10:00:00.123456"),
    ("n2", "TIMESTAMP_NTZ'0001-01-01 00:00:00'", "0001-01-01T00:00:00.000000"),
    ("d1", "DATE'0001-01-01'", "0001-01-01"),
    ("d2", "DATE'1582-10-10'", "1582-10-10"),
    ("d3", "DATE'9999-12-31'", "9999-12-31"),
    ("f1", "DOUBLE('NaN')", "NaN"),
    ("f2", "DOUBLE('-Infinity')", "-Infinity"),
    ("f3", "DOUBLE('-0.0')", "-0.0"),
    ("f4", "DOUBLE('1.7976931348623157E308')", "1.7976931348623157E308"),
    ("f5", "FLOAT('0.1')", "0.1"),
    ("m1", "12345678901234567890.123456789012345678BD", "12345678901234567890.123456789012345678"),
    ("m2", "CAST('-0.0000001' AS DECIMAL(10,7))", "-1E-7"),
    ("i1", "-9223372036854775808L", "-9223372036854775808"),
    ("i2", "CAST(-128 AS TINYINT)", "-128"),
    ("b1", "true", True),
    ("s1", "''", ""),
    ("s2", "' \"naïve\", \\\\ \\n😀 '", ' "naïve", \\ \n😀 '),
    ("y1", "INTERVAL '1 02:03:04.123456' DAY TO SECOND", "INTERVAL '1 02:03:04.123456' DAY TO SECOND"),
]
NESTED: Sequence[tuple[str, str, Any]] = [
    ("x1", "X'00FF80'", "AP+A"),
    ("a1", f"array(TIMESTAMP{AT}, NULL)", ["2024-05-01T10:00:00.123456Z", None]),
    ("r1", f"struct(TIMESTAMP{AT} AS at)", {"at": "2024-05-01T10:00:00.123456Z"}),
    ("k1", f"map('k', TIMESTAMP_NTZ{AT})", {"k": "2024-05-01T10:00:00.123456"}),
    ("k2", "map(1.50BD, DATE'1582-10-10')", {"1.50": "1582-10-10"}),
    ("v1", f"to_variant_object(struct(TIMESTAMP{AT} AS at))", {"at": "2024-05-01 10:00:00.123456+00:00"}),
]
PLAIN = [each for each in VALUES if each[0] != "y1"]
"""What a bucket takes: no intervals."""


def expected(values: Sequence[tuple[str, str, Any]]) -> dict[str, Any]:
    return {name: value for name, _, value in values}


def rows(spark: SparkSession, values: Sequence[tuple[str, str, Any]]) -> DataFrame:
    return spark.sql(f"SELECT {', '.join(f'{sql} AS {name}' for name, sql, _ in values)}").coalesce(1)


def parsed(text: str | bytes) -> Any:
    """Return JSON with its numbers as they are written."""
    return json.loads(text, parse_float=str, parse_int=str)


class Kept(AtLeastOnceSink):
    """Keeps the rows that another sink hands to it."""

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        self.rows = batch.collect()
        return Staged(None)


def file_of(path: Path, form: str, batch: DataFrame, partition_by: Sequence[str] = (), **options: str) -> Path:
    """Write a batch with the exactly-once sink for directories; return its only file."""
    sink = opened(FileSink(form, LocalPlace(path), partition_by), {**options, "path": str(path)})
    sink.check_schema(batch.schema)
    sink.commit(CheckpointId(1), [sink.stage(batch, BatchId(0)).committable])
    (file,) = (each for each in path.rglob("part-*") if "_streamjob" not in each.parts)
    return file


def at_least_once(path: Path, form: str, batch: DataFrame, **options: str) -> Path:
    sink = opened(BatchSink(form), {**options, "path": str(path)})
    sink.check_schema(batch.schema)
    sink.stage(batch, BatchId(0))
    (file,) = path.rglob("part-*")
    return file


def bucket_file(batch: DataFrame, form: str, **options: str) -> bytes:
    """Return the content of the file that a task would upload."""
    assert list(mismatches(form, batch.schema, [])) == []
    encoding: Encoding = encoding_of(batch, form, options, [])
    return bytes(encoding.encode(prepared(batch, form, options, []).toArrow()))


def records(batch: DataFrame, form: str, **options: str) -> list[str]:
    spec = {"name": "k", "input": "r", "format": "kafka", "value": {"format": form, "options": options}}
    kept = Kept()
    sink = EncodingSink(SinkSpec.model_validate(spec), kept, lambda: batch.sparkSession, {})
    sink.check_schema(batch.schema)
    sink.stage(batch, BatchId(0))
    return [row.value for row in kept.rows]


def test_every_writer_of_json_writes_the_value_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    full = [*VALUES, *NESTED]
    in_bucket = [*PLAIN, *(each for each in NESTED if each[0] != "v1")]

    assert parsed(file_of(tmp_path / "a", "json", rows(spark, full)).read_bytes()) == expected(full)
    assert parsed(at_least_once(tmp_path / "b", "json", rows(spark, full)).read_bytes()) == expected(full)
    assert parsed(bucket_file(rows(spark, in_bucket), "json")) == expected(in_bucket)
    assert parsed(records(rows(spark, full), "json")[0]) == expected(full)


def test_jsonb_in_postgresql_has_all_digits(spark: SparkSession) -> None:
    batch = rows(spark, [*VALUES, *NESTED]).selectExpr("struct(*) AS j")
    ((line,),) = batch.select(csv_line(batch)).collect()

    assert parsed(next(csv.reader(io.StringIO(line)))[1]) == expected([*VALUES, *NESTED])


def test_two_moments_a_microsecond_apart_are_two_keys(spark: SparkSession) -> None:
    spec = SinkSpec.model_validate({
        "name": "k", "input": "r", "format": "kafka", "key": {"format": "json"}, "value": {"format": "json"},
        "options": {"mode": "upsert", "key": "id, at"},
    })  # fmt: skip
    kept = Kept()
    batch = spark.sql(f"SELECT 1 AS id, TIMESTAMP{AT} + make_dt_interval(0, 0, 0, id / 1000000) AS at FROM range(2)")
    EncodingSink(spec, kept, lambda: spark, {}).stage(batch, BatchId(0))

    assert sorted(row.key for row in kept.rows) == [
        '{"id":1,"at":"2024-05-01T10:00:00.123456Z"}',
        '{"id":1,"at":"2024-05-01T10:00:00.123457Z"}',
    ]


def test_the_job_s_own_formats_win_whatever_the_case_of_their_names(spark: SparkSession, tmp_path: Path) -> None:
    batch = rows(spark, VALUES[:1])

    assert records(batch, "json", TIMESTAMPFORMAT="yyyy") == ['{"t1":"2024"}']
    assert records(batch, "csv", timestampFormat="yyyy") == ["2024"]
    assert file_of(tmp_path / "a", "csv", batch, timestampFormat="yyyy").read_text() == "2024\n"
    assert bucket_file(batch, "json", TimestampFormat="yyyy") == b'{"t1":"2024"}\n'


def test_an_offset_with_seconds_is_written_whole(spark: SparkSession) -> None:
    batch = rows(spark, [("at", "TIMESTAMP'1883-11-18 12:00:00.5Z'", "")])

    assert records(batch, "json", timeZone="America/New_York") == ['{"at":"1883-11-18T07:03:58.500000-04:56:02"}']


def test_inspect_shows_all_digits(spark: SparkSession, tmp_path: Path) -> None:
    in_flight = InFlight(tmp_path)
    in_flight.add({
        "at": datetime(2024, 5, 1, 10, 0, 0, 123456, tzinfo=UTC),
        "m": Decimal("12345678901234567890.123456789012345678"),
        "half": Decimal("0.5"),
        "nan": float("nan"),
        "day": date(1, 1, 1),
    })  # fmt: skip
    shown = {
        "at": "2024-05-01T10:00:00.123456Z",
        "m": "12345678901234567890.123456789012345678",
        "half": 0.5,
        "nan": "NaN",
        "day": "0001-01-01",
    }

    assert in_flight.read()[0].rows == (shown,)
    assert in_flight.read(spark=spark, sql="SELECT * FROM in_flight")[0].rows == (shown,)


TEXTS = [
    "", None, " lead", "trail ", "\ttab", 'a"b', '"', '\\"', "\\", "x\\", "nl\nx", "cr\rx", "crlf\r\nx", "#comment",
    "a,b", "null", "\x00", "é😀", "\u2028x", "\ufeffx", " ", "'", "\r", "\n", '""', '"a', "\\n", "NaN", "-",
]  # fmt: skip


def test_a_csv_file_has_the_same_texts_for_every_reader(spark: SparkSession, tmp_path: Path) -> None:
    batch = spark.createDataFrame(list(enumerate(TEXTS)), 'id int, `a "text", or none` string').coalesce(1)
    file = file_of(tmp_path / "a", "csv", batch, header="true")
    without_null = [text or "" for text in TEXTS]

    assert bucket_file(batch, "csv", header="true") == file.read_bytes()
    assert at_least_once(tmp_path / "b", "csv", batch, header="true").read_bytes() == file.read_bytes()
    assert "\n".join(records(batch, "csv")) + "\n" == file.read_bytes().decode().partition("\n")[2]
    with file.open(newline="", encoding="utf-8") as lines:
        header, *found = csv.reader(lines)
    assert header == ["id", 'a "text", or none']
    assert [text for _, text in found] == without_null
    # The parser in C, which is pandas' default, ends a text at NUL.
    by_pandas = pd.read_csv(file, keep_default_na=False, engine="python")
    assert list(by_pandas.iloc[:, 1]) == without_null
    by_arrow = arrow_csv.read_csv(
        file,
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    assert by_arrow.column(1).to_pylist() == TEXTS
    as_documented: dict[str, bool | str] = {"header": True, "escape": '"', "multiLine": True, "nullValue": "\\N"}
    by_spark = spark.read.schema("id INT, text STRING").options(**as_documented).csv(str(file)).orderBy("id")
    assert [row.text for row in by_spark.collect()] == TEXTS


def test_every_writer_of_csv_writes_the_value_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    def texts(values: Sequence[tuple[str, str, Any]]) -> list[str]:
        return ["true" if value is True else value for _, _, value in values]

    assert next(csv.reader(file_of(tmp_path / "a", "csv", rows(spark, VALUES)).open(newline=""))) == texts(VALUES)
    assert next(csv.reader(io.StringIO(bucket_file(rows(spark, PLAIN), "csv").decode()))) == texts(PLAIN)
    assert next(csv.reader(io.StringIO(records(rows(spark, VALUES), "csv")[0]))) == texts(VALUES)


def test_null_in_the_only_column_of_a_csv_file_fails_its_batch(spark: SparkSession, tmp_path: Path) -> None:
    batch = spark.sql("SELECT EXPLODE(ARRAY('', NULL)) AS s, 1 AS part").coalesce(1)
    lost = "has NULL in 's', the only column of its CSV file"

    with pytest.raises(PySparkException, match=lost):
        file_of(tmp_path / "a", "csv", batch, ["PART"])
    with pytest.raises(PySparkException, match=lost):
        at_least_once(tmp_path / "b", "csv", batch.select("s"))
    with pytest.raises(PySparkException, match=lost):
        readable_rows(batch, "sink b", "csv", options={}, partition_by=["part"]).collect()
    assert file_of(tmp_path / "c", "csv", batch.select("s"), nullValue="-").read_text() == '""\n-\n'
    assert records(batch.select("s"), "csv") == ['""', ""]


@pytest.mark.parametrize(
    ("form", "kind", "problem"),
    [
        ("json", "map<date,int>", "a map whose keys are DATE"),
        ("json", "array<struct<x: map<binary,int>>>", "a map whose keys are BINARY"),
        ("json", "map<string,map<timestamp,int>>", "a map whose keys are TIMESTAMP"),
        ("json", "map<struct<x: int>,int>", "a map whose keys are STRUCT<X:INT>"),
        ("csv", "binary", "is binary, which CSV does not hold"),
        ("csv", "array<int>", "is array<int>, which CSV does not hold"),
        ("csv", "variant", "is variant, which CSV does not hold"),
        ("csv", "interval", "is interval, which CSV does not hold"),
    ],
)
def test_what_readers_would_not_find_is_refused_before_the_first_batch(
    spark: SparkSession, tmp_path: Path, form: str, kind: str, problem: str
) -> None:
    batch = spark.createDataFrame([], f"id int, x {kind}")

    for write in (file_of, at_least_once):
        with pytest.raises(UnusableSink, match=problem):
            write(tmp_path, form, batch)
    with pytest.raises(UnusableSink, match=problem):
        records(batch, form)
    assert problem in str(list(unwritable(form, batch.schema.fields)))


def test_parquet_in_a_directory_has_microseconds_that_pyarrow_reads(spark: SparkSession, tmp_path: Path) -> None:
    moments = [each for each in VALUES if each[0][0] in "tnd"]
    table = parquet.read_table(file_of(tmp_path / "a", "parquet", rows(spark, moments)))

    found = {name: values[0] for name, values in table.to_pydict().items()}
    assert found == {
        name: date.fromisoformat(value) if name[0] == "d" else datetime.fromisoformat(value)
        for name, value in expected(moments).items()
    }
    assert str(table.schema.field("t1").type) == "timestamp[us, tz=UTC]"
