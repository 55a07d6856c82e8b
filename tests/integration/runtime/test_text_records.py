"""Records of CSV and JSON are decoded to exactly the values that they write, or are broken, and the error says why."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import math
import random
import re
import struct
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamjob.errors import StreamJobError
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.encoding_spec import Encoding
from streamjob.job.model.reading import read_spec
from streamjob.job.model.spec import SourceSpec
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles
from streamjob_runtime.chain.sources.file_records import decoded_files
from streamjob_runtime.kafka.schemas import decoded, decoder
from streamjob_runtime.monitoring.query_progress import ProgressReader
from streamjob_runtime.spark.text.text_records import UnusableSchema
from streamjob_runtime.tables.reading import batch_frame, reading_table

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

UTC = datetime.UTC
FIELDS = (
    "i INT, l BIGINT, y TINYINT, b BOOLEAN, f FLOAT, x DOUBLE, n DECIMAL(4, 4), m DECIMAL(38, 0), s STRING, d DATE, "
    "ts TIMESTAMP, tz TIMESTAMP_NTZ, raw BINARY, v VARIANT, a ARRAY<INT>, c MAP<STRING, DECIMAL(3, 1)>, "
    "o STRUCT<ts: TIMESTAMP, p: ARRAY<STRUCT<q: DECIMAL(3, 1)>>>, took INTERVAL DAY TO SECOND"
)
FLAT = ", ".join(FIELDS.split(", v VARIANT")[0].split(", raw BINARY"))


def at(text: str) -> datetime.datetime:
    """Return a time as Python's, as Spark returns it in a process whose zone is UTC."""
    return datetime.datetime.fromisoformat(text).astimezone().replace(tzinfo=None)


def read(
    spark: SparkSession, form: str, fields: str, records: Sequence[bytes | str], **options: str
) -> list[tuple[Any, str | None]]:
    """Return the value and the error of each record."""
    from pyspark.sql import functions as f

    unit = {"epochUnit": options.pop("epochUnit")} if "epochUnit" in options else {}
    encoding = Encoding.model_validate({"format": form, "options": options, **unit})
    decodes = decoder(spark, "Source 'a'", encoding, fields, None)
    numbered = [(n, each.encode() if isinstance(each, str) else each) for n, each in enumerate(records)]
    frame = spark.createDataFrame(numbered, "number INT, bytes BINARY")
    rows = frame.select("number", decoded(spark, f.col("bytes"), decodes).alias("read")).orderBy("number").collect()
    return [(row["read"]["value"], row["read"]["error"]) for row in rows]


def ordered(value: Any) -> Any:
    """Return a map with its keys in order: Java hands them over in its own."""
    return dict(sorted(value.items())) if isinstance(value, dict) else value


def check(found: Sequence[tuple[Row | None, str | None]], expected: Sequence[tuple[str, Any]]) -> None:
    """Compare the only field of each record that is set, or the text of the error."""
    for (row, error), (record, wanted) in zip(found, expected, strict=True):
        if isinstance(wanted, re.Pattern):
            assert row is None, record
            assert error is not None
            assert wanted.search(error), (record, error)
            continue
        assert error is None, (record, error)
        assert row is not None
        if wanted is None:
            assert all(each is None for each in row), record
            continue
        (value,) = [each for each in row if each is not None]
        plain = value.asDict(recursive=True) if hasattr(value, "asDict") else value
        assert repr(ordered(plain)) == repr(ordered(wanted)), record


no = re.compile
JSON: list[tuple[str, Any]] = [
    ('{"i": 2147483647}', 2147483647),
    ('{"i": -0}', 0),
    ('{"i": 1.5}', no(r"^the field i is 1\.5, which is no INT$")),
    ('{"i": 1.0}', no("the field i is 1.0")),
    ('{"i": 3000000000}', no("the field i is 3000000000, which is no INT")),
    ('{"i": "1"}', no('the field i is "1", which is no INT')),
    ('{"i": ""}', no('the field i is "", which is no INT')),
    ('{"i": true}', no("the field i is true, which is no INT")),
    ('{"i": {}}', no("the field i is an object, which is no INT")),
    ('{"i": null}', None),
    ('{"j": 1}', None),
    ("{}", None),
    ('{"l": 9223372036854775807}', 9223372036854775807),
    ('{"l": 9223372036854775808}', no("the field l is 9223372036854775808, which is no BIGINT")),
    ('{"y": 128}', no("the field y is 128, which is no TINYINT")),
    ('{"b": "true"}', no('the field b is "true", which is no BOOLEAN')),
    ('{"x": 1e400}', no("the field x is 1e400, which DOUBLE cannot hold")),
    ('{"x": -1e400}', no("DOUBLE cannot hold")),
    ('{"x": 1e308}', 1e308),
    ('{"x": -0.0}', -0.0),
    ('{"x": "NaN"}', math.nan),
    ('{"x": "-Infinity"}', -math.inf),
    ('{"x": NaN}', no("it is no JSON: Non-standard token 'NaN'")),
    ('{"x": "1.5"}', no('the field x is "1.5", which is no DOUBLE')),
    ('{"f": 1e39}', no("the field f is 1e39, which FLOAT cannot hold")),
    ('{"n": 0.1234}', Decimal("0.1234")),
    ('{"n": 0.12340000}', Decimal("0.1234")),
    ('{"n": "-0.1234"}', Decimal("-0.1234")),
    ('{"n": 0.12345}', no(r"the field n is 0\.12345, which DECIMAL\(4,4\) cannot hold without rounding \(the option")),
    ('{"n": 12.5}', no(r"the field n is 12\.5, which DECIMAL\(4,4\) cannot hold$")),
    ('{"n": "BAg="}', no('the field n is "BAg=", which is no DECIMAL.*decimal.handling.mode is string')),
    ('{"n": "0,5"}', no("the option locale says what a comma in it means")),
    ('{"n": 1e-999999999}', no("cannot hold without rounding")),
    ('{"n": 1e999999999}', no("cannot hold$")),
    ('{"n": 0e999999999}', Decimal("0.0000")),
    ('{"m": 99999999999999999999999999999999999999}', Decimal(10**38 - 1)),
    ('{"m": 1e37}', Decimal(10**37)),
    ('{"m": 1e38}', no("cannot hold$")),
    ('{"s": 1.10}', "1.10"),
    ('{"s": 12345678901234567890.0123456789}', "12345678901234567890.0123456789"),
    ('{"s": {"a": 1 , "b":[1.50, "x"]}, "j": 1}', '{"a": 1 , "b":[1.50, "x"]}'),
    ('{"s": "gr\u00fc\u00dfe \\u20ac \U0001f600 \\ud83d\\ude00"}', "gr\u00fc\u00dfe \u20ac \U0001f600 \U0001f600"),
    ('{"s": "a\\u0000b"}', "a\0b"),
    ('{"s": "\\ud83d"}', no("the field s has half of a surrogate pair")),
    ('{"c": {"\\udc00": 1}}', no("half of a surrogate pair")),
    ('{"s": "a\nb"}', no("it is no JSON: Illegal unquoted character")),
    ('{"s": "\ufffd"}', "\ufffd"),
    ('{"d": "2024-02-29"}', datetime.date(2024, 2, 29)),
    ('{"d": "0001-01-01"}', datetime.date(1, 1, 1)),
    ('{"d": "2023-02-29"}', no('the field d is "2023-02-29", which is no DATE')),
    ('{"d": "20240501"}', no('the field d is "20240501", which is no DATE')),
    ('{"d": 19844}', no("the field d is 19844, which is no DATE; read days since 1970 as an INT")),
    ('{"ts": "2024-05-01T10:00:00.123456Z"}', at("2024-05-01T10:00:00.123456+00:00")),
    ('{"ts": "2024-05-01 10:00:00+02:00"}', at("2024-05-01T08:00:00+00:00")),
    ('{"ts": "9999-12-31T23:59:59.999999Z"}', at("9999-12-31T23:59:59.999999+00:00")),
    ('{"ts": "10:00"}', no('the field ts is "10:00", a time without a date')),
    ('{"ts": "T10:00:00"}', no("a time without a date")),
    ('{"ts": " 1:02"}', no("a time without a date")),
    ('{"ts": "2024-02-30T10:00:00Z"}', no("which is no TIMESTAMP")),
    ('{"ts": "now"}', no("which is no TIMESTAMP")),
    ('{"ts": 1714557600000}', no("the field ts is 1714557600000, a number for TIMESTAMP: epochUnit has to say")),
    ('{"tz": 1.5}', no("a number for TIMESTAMP_NTZ: epochUnit has to say")),
    ('{"tz": "2024-05-01T10:00:00"}', datetime.datetime(2024, 5, 1, 10)),
    ('{"tz": "10:00"}', no("a time without a date")),
    ('{"raw": "aGk="}', b"hi"),
    ('{"raw": "a"}', no('the field raw is "a", which is no BINARY')),
    ('{"took": "1 02:03:04"}', datetime.timedelta(days=1, hours=2, minutes=3, seconds=4)),
    ('{"took": "soon"}', no("which is no INTERVAL DAY TO SECOND")),
    ('{"a": [1, null]}', [1, None]),
    ('{"a": [1, "2"]}', no(r'the field a\[1\] is "2", which is no INT')),
    ('{"a": 5}', no("the field a is 5, which is no ARRAY<INT>")),
    ('{"c": {"k": 1.7, "": null}}', {"k": Decimal("1.7"), "": None}),
    ('{"c": {"k": 1.75}}', no(r"the field c\.k is 1\.75, which DECIMAL\(3,1\) cannot hold without rounding")),
    ('{"c": {"k": 1, "k": 2}}', no(r"the field c\.k is there twice")),
    ('{"o": {"p": [{"q": 1.5}, {}]}}', {"ts": None, "p": [{"q": Decimal("1.5")}, {"q": None}]}),
    ('{"o": {"p": [{"q": 1.5}, {"q": 2.25}]}}', no(r"the field o\.p\[1\]\.q is 2\.25")),
    ('{"o": {"ts": 5}}', no(r"the field o\.ts is 5, a number for TIMESTAMP")),
    ('{"i": 1, "i": 1}', no("the field i is there twice .the option allowDuplicateKeys: true takes the last")),
    ('{"v": {"k": 1, "k": 2}}', no("the field v is an object, which is no VARIANT")),
    ('{"j": 1, "j": 2}', None),
    ('{"i": 1}{"i": 2}', no("more text follows its JSON value")),
    ('{"i": 1} x', no("it is no JSON: Unrecognized token 'x'")),
    ('{"i": 1} ]', no("it is no JSON: Unexpected close marker")),
    ('  {"i": 1}\r\n', 1),
    ('\ufeff{"i": 1}', 1),
    ("", no("^it is empty$")),
    ("null", no("it is no JSON object")),
    ("7", no("it is no JSON object")),
    ('[{"i": 1}]', no("it is no JSON object")),
    ("{'i': 1}", no("it is no JSON: Unexpected character")),
    ('{"i": 1 /* one */}', no("it is no JSON")),
    ('{"i": 007}', no("it is no JSON: Invalid numeric value: Leading zeroes")),
    ('{"i": 1,}', no("it is no JSON")),
    ('{"i": 1', no("it is no JSON: Unexpected end-of-input")),
    ('{"j": "\\x"}', no("it is no JSON: Unrecognized character escape")),
]


def test_json_is_the_value_that_it_writes_or_broken(spark: SparkSession) -> None:
    check(read(spark, "json", FIELDS, [record for record, _ in JSON]), JSON)


BYTES = [
    (b'{"s": "caf\xe9"}', no("its bytes are no UTF-8 .the option encoding names another one")),
    (b'{"s": "\xed\xa0\x80"}', no("its bytes are no UTF-8")),
    ('{"s": "x"}'.encode("utf-16"), no("its bytes are no UTF-8")),
]


def test_bytes_are_texts_of_the_encoding(spark: SparkSession) -> None:
    check(read(spark, "json", FIELDS, [each for each, _ in BYTES]), [(repr(record), said) for record, said in BYTES])

    (latin,) = read(spark, "json", "s STRING", [BYTES[0][0]], encoding="ISO-8859-1")
    (broken,) = read(spark, "csv", "s STRING", [b"caf\xe9"])

    assert latin[0]["s"] == "caf\u00e9"
    assert broken == (None, "its bytes are no UTF-8 (the option encoding names another one)")


def test_options_allow_what_is_broken_without_them(spark: SparkSession) -> None:
    records = ["{'i': 1}", '{"x": NaN}', '{"i": 1, "i": 2}', '{"n": 0.12345}', '{"n": 0.99995}', '{"x": 1e400}']
    allowed = {"allowSingleQuotes": "true", "ALLOWNONNUMERICNUMBERS": "true", "allowDuplicateKeys": "true"}
    found = read(spark, "json", "i INT, x DOUBLE, n DECIMAL(4, 4)", records, **allowed, rounding="true")
    named = read(spark, "json", "x DOUBLE", ['{"x": "NaN"}'], allowNonNumericNumbers="false")
    german = {"timestampFormat": "dd.MM.yyyy", "locale": "de"}
    days = read(spark, "json", "ts TIMESTAMP, n DECIMAL(3, 1)", ['{"ts": "01.02.2026", "n": "1,5"}'], **german)

    assert [None if row is None else tuple(row) for row, _ in found[2:]] == [
        (2, None, None), (None, None, Decimal("0.1235")), None, None,
    ]  # fmt: skip
    assert found[0][0]["i"] == 1
    assert math.isnan(found[1][0]["x"])
    assert named[0][1] == 'the field x is "NaN", which is no DOUBLE'
    assert tuple(days[0][0]) == (at("2026-02-01T00:00:00+00:00"), Decimal("1.5"))


@pytest.mark.parametrize(
    ("unit", "number", "micros"),
    [
        ("ms", "1714557600000", 1714557600000000),
        ("s", "1714557600", 1714557600000000),
        ("s", "-1.000000001", -1000001),
        ("us", "-62135596800000000", -62135596800000000),
        ("ns", "1714557600123456789", 1714557600123456),
        ("ns", "-1", -1),
        ("ms", "99999999999999999", None),
    ],
)
def test_numbers_are_times_in_the_unit_that_the_source_says(
    spark: SparkSession, unit: str, number: str, micros: int | None
) -> None:
    fields = "ts TIMESTAMP_NTZ, o STRUCT<ts: TIMESTAMP_NTZ>"
    (found,) = read(spark, "json", fields, [f'{{"ts": {number}, "o": {{"ts": {number}}}}}'], epochUnit=unit)
    (flat,) = read(spark, "csv", "ts TIMESTAMP_NTZ", [number], epochUnit=unit)

    if micros is None:
        said = f"the field ts is {number}, which TIMESTAMP_NTZ cannot hold with epochUnit: {unit}"
        assert (found, flat) == ((None, said), (None, said))
        return
    expected = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    assert (found[0]["ts"], found[0]["o"]["ts"], flat[0]["ts"]) == (expected, expected, expected)


def single(number: float) -> float:
    """Return a number as FLOAT holds it; the infinity if it is too large."""
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        return math.inf
    return float(rounded)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_numbers_of_any_size_are_read_exactly_or_not_at_all(spark: SparkSession, form: str) -> None:
    draw = random.Random(7)
    numbers = []
    for _ in range(600):
        digits = "".join(draw.choices("0123456789", k=draw.choice([1, 3, 10, 19, 30, 40])))
        point = draw.randrange(len(digits) + 1)
        text = (digits[:point].lstrip("0") or "0") + ("." + digits[point:] if point < len(digits) else "")
        exponent = draw.choice(["", "", "", "e5", "E-7", "e38", "e310"])
        numbers.append(draw.choice(["", "-"]) + text + exponent)
    types = {"i": "INT", "l": "BIGINT", "f": "FLOAT", "x": "DOUBLE", "n": "DECIMAL(38, 6)"}
    for name, kind in types.items():
        records = [f'{{"{name}": {each}}}' if form == "json" else each for each in numbers]
        for text, (row, error) in zip(numbers, read(spark, form, f"{name} {kind}", records), strict=True):
            wanted: object = None
            if kind in ("INT", "BIGINT"):
                bits = 31 if kind == "INT" else 63
                whole = re.fullmatch("-?[0-9]+", text) is not None
                wanted = int(text) if whole and -(2**bits) <= int(text) < 2**bits else None
            elif kind == "DECIMAL(38, 6)":
                fits = abs(Fraction(text)) < 10**32 and (Fraction(text) * 10**6).denominator == 1
                wanted = Decimal(text) if fits else None
            else:
                value = float(text) if kind == "DOUBLE" else single(float(text))
                wanted = None if math.isinf(value) else value
            found = None if row is None else row[name]
            assert (found, error is None) == (wanted, wanted is not None), (kind, text, error)


CSV_FIELDS = (
    "i INT, x DOUBLE, n DECIMAL(4, 2), s STRING, ts TIMESTAMP, d DATE, b BOOLEAN, f FLOAT, raw BINARY, "
    "tz TIMESTAMP_NTZ, took INTERVAL DAY TO SECOND"
)
CSV: list[tuple[str, str, Any]] = [
    ("i", "1", 1),
    ("i", "1.5", no('the field i is "1.5", which is no INT')),
    ("i", " 1", no('the field i is " 1", which is no INT')),
    ("i", "", None),
    ("i", '""', None),
    ("x", "1e400", no("the field x is 1e400, which DOUBLE cannot hold")),
    ("x", "-Inf", -math.inf),
    ("x", "NaN", math.nan),
    ("x", "Infinity", no("which is no DOUBLE")),
    ("x", "1.5d", no('the field x is "1.5d", which is no DOUBLE')),
    ("x", '"1,234.5"', no('the field x is "1,234.5", which is no DOUBLE')),
    ("x", "1e5", 100000.0),
    ("f", "1e39", no("the field f is 1e39, which FLOAT cannot hold")),
    ("n", "1.25", Decimal("1.25")),
    ("n", "1.255", no("cannot hold without rounding")),
    ("n", "100", no("cannot hold$")),
    ("n", '"1,5"', no("the option locale says")),
    ("s", "", None),
    ("s", '""', ""),
    ("s", " sp ", " sp "),
    ("s", '"say ""hi"", ok"', 'say "hi", ok'),
    ("raw", '""', b""),
    ("s", '""""', '"'),
    ("s", '"a\r\nb"', "a\r\nb"),
    ("s", '"a""""b"', 'a""b'),
    ("s", "back\\", "back\\"),
    ("s", '"line\nbreak"', "line\nbreak"),
    ("s", '"line', no("a quote in it is not closed .*multiLine: true")),
    ("s", r'"say \"hi\""', no("its quotes are not as the options quote and escape say")),
    ("s", '"a"b', no("its quotes are not as the options quote and escape say")),
    ("s", 'in"side', 'in"side'),
    ("ts", "2024-05-01T10:00:00Z", at("2024-05-01T10:00:00+00:00")),
    ("ts", "10:00", no('the field ts is "10:00", a time without a date')),
    ("ts", "01/05/2024", no("which is no TIMESTAMP")),
    ("ts", "1714557600000", no("which is no TIMESTAMP")),
    ("tz", "10:00", no("a time without a date")),
    ("d", "20240501", no("which is no DATE")),
    ("b", "yes", no("which is no BOOLEAN")),
    ("raw", "hi", b"hi"),
    ("took", "soon", no("which is no INTERVAL")),
]


def test_csv_is_the_value_that_it_writes_or_broken(spark: SparkSession) -> None:
    names = [each.split()[0] for each in CSV_FIELDS.split(", ") if not each[0].isdigit()]
    records = [",".join(text if name == each else "" for each in names) for name, text, _ in CSV]
    expected = [(record, wanted) for record, (_, _, wanted) in zip(records, CSV, strict=True)]

    check(read(spark, "csv", CSV_FIELDS, records), expected)


def test_a_csv_record_has_each_field_once_and_is_one_line(spark: SparkSession) -> None:
    found = read(spark, "csv", "a INT, b STRING", ["1,x\n", "1", "1,x,extra", "1,a\n2,b", "", "1,x\r\n"])

    assert [error for _, error in found] == [
        None,
        "it has 1 column instead of 2",
        "it has 3 columns instead of 2",
        "more lines follow its first one (a value with line breaks needs quotes)",
        "it is empty",
        None,
    ]
    assert [tuple(row) for row, _ in (found[0], found[5])] == [(1, "x"), (1, "x")]


@pytest.mark.parametrize(
    ("form", "fields", "options", "said"),
    [
        ("json", "id BIGINT, name VARCHAR(3)", {}, "char"),
        ("json", "id BIGINT", {"allowComments": "soon"}, "with its options: For input string: .soon"),
        ("json", "ids MAP<INT, INT>", {}, "the keys of a map in JSON are texts, and not INT"),
        ("csv", "ids ARRAY<INT>", {}, "ARRAY<INT>"),
        ("csv", "id INT", {"sep": ""}, "delimiter|empty"),
    ],
)
def test_fields_and_options_that_make_no_sense_are_refused_at_the_start(
    spark: SparkSession, form: str, fields: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(UnusableSchema, match=f"(?i){said}"):
        read(spark, form, fields, ["{}"], **options)


def table(spark: SparkSession, directory: Path, form: str, schema: str, **options: Any) -> list[tuple[Any, ...]]:
    """Return the rows of the files in a directory, as the job's tables and sources read them."""
    given = {"name": "t", "format": form, "schema": schema, "options": {"path": str(directory), **options}}
    spec = read_spec({"name": "job", "tables": [given]}).spec
    assert spec is not None
    loaded = LoadedJob(spec, directory, "job.yaml")
    with reading_table(spark, loaded, spec.tables[0]) as resolved:
        return [tuple(row) for row in batch_frame(spark, spec.tables[0], resolved).collect()]


def test_csv_files_are_read_as_other_libraries_write_them(spark: SparkSession, tmp_path: Path) -> None:
    draw = random.Random(3)
    pieces = ['"', ",", "\n", "\\", " ", "a", "\u00fc", "\U0001f600", "'", ";", "\t", "#"]
    rows = [(str(n), "".join(draw.choices(pieces, k=draw.randrange(1, 6))), f"z{n}") for n in range(300)]
    out = io.StringIO()
    csv.writer(out).writerows([("id", "s", "z"), *rows])
    (tmp_path / "a.csv").write_text(out.getvalue(), newline="")

    found = table(spark, tmp_path, "csv", "id STRING, s STRING, z STRING", header=True, multiLine=True)

    assert sorted(found) == sorted(rows)


def test_only_the_first_line_of_each_file_is_a_header_also_if_tasks_read_parts_of_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, first in (("a", 0), ("b", 1000), ("c", 2000)):
        lines = ["", "# made today", "id,x", *(f"{n},{n}.5" for n in range(first, first + 1000))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "empty.csv").write_text("id,x\n")
    (tmp_path / "blank.csv").write_text("\n")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "2000b")
    try:
        found = table(spark, tmp_path, "csv", "id INT, x DOUBLE", header=True, comment="#")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")

    assert sorted(found) == [(n, n + 0.5) for n in range(3000)]


def test_files_are_read_in_each_of_their_forms(spark: SparkSession, tmp_path: Path) -> None:
    def files(name: str, content: dict[str, bytes], form: str, schema: str, **options: Any) -> list[tuple[Any, ...]]:
        for path, each in content.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(each)
        return sorted(table(spark, tmp_path / name, form, schema, **options))

    lines = b'\xef\xbb\xbf{"i": 1}\r\n\r\n[{"i": 2}, {"i": 3}]\n[]\n'
    assert files("lines", {"a.json": lines, "b.json.gz": gzip.compress(b'{"i": 4}')}, "json", "i INT") == [
        (1,), (2,), (3,), (4,)
    ]  # fmt: skip
    whole = {"a.json": b'{\n"i": 1\n}', "b.json": b'[{"i": 2},\n{"i": 3}]'}
    assert files("whole", whole, "json", "i INT", multiLine=True) == [(1,), (2,), (3,)]
    wide = '{"i": 1, "s": "\u00fc"}|{"i": 2}'.encode("utf-16-le")
    assert files("wide", {"a.json": wide}, "json", "i INT, s STRING", encoding="UTF-16LE", lineSep="|") == [
        (1, "\u00fc"), (2, None)
    ]  # fmt: skip
    by_year = {"year=007/a.csv": b"x,1\n", "year=8/b.csv": b"y,2\n"}
    assert files("parts", by_year, "csv", "year STRING, s STRING, i INT") == [("x", 1, "007"), ("y", 2, "8")]
    latin = {"a.csv": "1;'it''s';caf\u00e9\n".encode("latin-1")}
    options = {"sep": ";", "quote": "'", "encoding": "ISO-8859-1"}
    assert files("latin", latin, "csv", "i INT, s STRING, t STRING", **options) == [(1, "it's", "caf\u00e9")]
    escaped = {"a.csv": b'1,"say \\"hi\\", ok"\n'}
    assert files("spark", escaped, "csv", "i INT, s STRING", escape="\\") == [(1, 'say "hi", ok')]
    assert files("by-spark", {"a.csv": b"x,1\n"}, "csv", "i INT, j INT", mode="PERMISSIVE") == [(None, 1)]
    cr = {"a.csv": b"1,a\r2,c\r"}
    assert files("returns", cr, "csv", "i INT, s STRING", multiLine=True) == [(1, "a"), (2, "c")]


def test_records_of_files_are_counted_and_not_their_lines(spark: SparkSession, tmp_path: Path) -> None:
    def counted(form: str, content: str, **options: Any) -> list[tuple[int, tuple[int, ...]]]:
        directory = tmp_path / form
        directory.mkdir()
        (directory / "a").write_text(content)
        (directory / "b").write_text(content)
        source = SourceSpec(name="rows", format=form, schema="i INT", options={"path": str(directory), **options})
        options = {**source.options, "maxFilesPerTrigger": "1"}
        files = DiscoveredFiles(spark, source, options)
        rows = decoded_files(spark, source, options, partial(files.stream, "text"))
        files.offer_sample()
        query = rows.writeStream.format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
        return [(each.rows_in, each.rows_by_source) for each in ProgressReader().new_batches([query])]

    assert counted("csv", "i\n1\n\n2\n3\n", header="true") == [(3, (3,)), (3, (3,))]
    assert counted("json", '[{"i": 1},\n{"i": 2}]', multiLine="true") == [(2, (2,)), (2, (2,))]


@pytest.mark.parametrize(
    ("form", "content", "options", "said"),
    [
        ("json", b'{"i": 1}\n{"i": 2}{"i": 3}\n', {}, 'more text follows its JSON value: {"i": 2}{"i": 3}'),
        ("json", b'{"i": 1}\n{"i": 2}\n', {"multiLine": True}, "more text follows its JSON value"),
        ("json", b'{"i": 1}\n[{"i": 2}, 3]\n', {}, "it is no JSON object: "),
        ("json", b'{"i": "\xff"}\n', {}, "its bytes are no UTF-8"),
        ("csv", b"1,x\n2\n", {}, "it has 1 column instead of 2: 2"),
        ("csv", b'1,"x\ny"\n', {}, "a quote in it is not closed (a value with line breaks needs the option multiLine"),
        ("csv", b'1,x\n2,"y" z\n3,"a\nb"\n', {"multiLine": True}, "its quotes are not as the options quote and escape"),
        ("csv", b'1,x\n2,"y\n3,z\n', {"multiLine": True}, "a quote in it is not closed"),
        ("csv", b"1,caf\xe9\n", {}, "its bytes are no UTF-8"),
    ],
)
def test_the_error_about_a_broken_record_of_a_file_has_the_file_the_cause_and_the_text(
    spark: SparkSession, tmp_path: Path, form: str, content: bytes, options: dict[str, Any], said: str
) -> None:
    (tmp_path / f"a.{form}").write_bytes(content)

    with pytest.raises(StreamJobError) as error:
        table(spark, tmp_path, form, "i INT, s STRING" if form == "csv" else "i INT", **options)

    assert f"a.{form} is not {form} with the columns " in str(error.value)
    assert said in str(error.value)


HEADERS = {
    "i,s\n": None,
    "I,S\n": None,
    "i, s\n": None,
    "\ufeffi,s\n": None,
    '\n# a comment\n"i",s\n': None,
    "s,i\n": "s, i",
    "i,s,x\n": "i, s, x",
    "i\n": "i",
    "i;s\n": "i;s",
    ",i,s\n": '"", i, s',
    "1,x\n": "1, x",
}
"""The beginnings of files, and the columns that they name, if these are not the schema's."""


@pytest.mark.parametrize("options", [{}, {"multiLine": True}, {"mode": "PERMISSIVE"}], ids=str)
def test_a_header_must_have_the_columns_of_the_schema(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    headers = {name: columns for name, columns in HEADERS.items() if "mode" not in options or name != "i, s\n"}
    for number, (header, columns) in enumerate(headers.items()):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "a.csv").write_text(header + "1,x\n")
        if columns is None:
            assert table(spark, directory, "csv", "i INT, s STRING", header=True, comment="#", **options) == [(1, "x")]
            continue
        with pytest.raises(StreamJobError) as error:
            table(spark, directory, "csv", "i INT, s STRING", header=True, comment="#", **options)

        assert "enforceSchema: true" in str(error.value.fix), header
        if "mode" in options:
            assert f"CSV file: file://{directory}/a.csv" in str(error.value)
        else:
            said = f"the header of file://{directory}/a.csv has the columns {columns} instead of i, s"
            assert said in str(error.value)


def test_a_header_whose_names_mean_nothing_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,x\n")

    for options in ({}, {"mode": "PERMISSIVE"}):
        given = {"header": True, "EnforceSchema": True, **options}
        assert table(spark, tmp_path, "csv", "i INT, s STRING", **given) == [(1, "x")]


def test_columns_that_differ_by_case_alone_are_two_where_spark_takes_them_for_two(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("I,i\n1,2\n")
    spark.conf.set("spark.sql.caseSensitive", True)
    try:
        with pytest.raises(StreamJobError, match="has the columns I, i instead of i, I"):
            table(spark, tmp_path, "csv", "i INT, I INT", header=True)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_columns_of_nested_files_have_the_types_of_the_schema(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"o": {"k": [1, 2]}, "value": "x"}))

    assert table(spark, tmp_path, "json", "o STRUCT<k: ARRAY<BIGINT>>, value STRING, `a.b` INT") == [
        ((([1, 2]),), "x", None)
    ]
