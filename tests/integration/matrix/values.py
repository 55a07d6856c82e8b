"""The values of the matrix: each type that Spark has, at its edges, as SQL and as the value that a reader must find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """A value: the SQL expression that makes it in Spark, and what a reader must find, as `canonical` returns it."""

    sql: str
    expected: Any


def _utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, micro: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, second, micro, UTC)


_NULL = {"NULL": Value("NULL", None)}
_LONGEST = "y" * 70_000

VALUES: Mapping[str, Mapping[str, Value]] = {
    "boolean": {"true": Value("true", True), "false": Value("false", False)},
    "tinyint": {"least": Value("-128", -128), "greatest": Value("127", 127)},
    "smallint": {"least": Value("-32768", -32768), "greatest": Value("32767", 32767)},
    "int": {"least": Value("-2147483648", -(2**31)), "greatest": Value("2147483647", 2**31 - 1), "0": Value("0", 0)},
    "bigint": {
        "least": Value("-9223372036854775808", -(2**63)),
        "greatest": Value("9223372036854775807", 2**63 - 1),
        "2^53 + 1": Value("9007199254740993", 2**53 + 1),
    },
    "float": {
        "0.1": Value("float('0.1')", 0.1),
        "−0.0": Value("float('-0.0')", -0.0),
        "NaN": Value("float('NaN')", float("nan")),
        "∞": Value("float('Infinity')", float("inf")),
        "−∞": Value("float('-Infinity')", float("-inf")),
        "greatest": Value("float('3.4028235e38')", 3.4028235e38),
        "least positive": Value("float('1.4e-45')", 1.4e-45),
    },
    "double": {
        "0.1": Value("0.1D", 0.1),
        "−0.0": Value("double('-0.0')", -0.0),
        "NaN": Value("double('NaN')", float("nan")),
        "∞": Value("double('Infinity')", float("inf")),
        "−∞": Value("double('-Infinity')", float("-inf")),
        "greatest": Value("double('1.7976931348623157e308')", 1.7976931348623157e308),
        "least positive": Value("double('4.9e-324')", 5e-324),
    },
    "decimal(10,2)": {
        "negative fraction": Value("-0.50", Decimal("-0.50")),
        "greatest": Value("99999999.99", Decimal("99999999.99")),
        "0": Value("0.00", Decimal("0.00")),
    },
    "decimal(38,0)": {
        "greatest": Value("9" * 38, Decimal("9" * 38)),
        "least": Value("-" + "9" * 38, Decimal("-" + "9" * 38)),
    },
    "decimal(38,18)": {
        "greatest": Value(f"{'9' * 20}.{'9' * 18}", Decimal(f"{'9' * 20}.{'9' * 18}")),
        "least positive": Value("0.000000000000000001", Decimal("0.000000000000000001")),
    },
    "string": {
        "empty": Value("''", ""),
        "spaces around": Value("' a '", " a "),
        "quotes": Value("'say \"hi\", ok'", 'say "hi", ok'),
        "backslash": Value("r'a\\b\\\"'", 'a\\b\\"'),
        "lines": Value("'a\\nb\\r\\nc\\td'", "a\nb\r\nc\td"),
        "umlauts, emoji": Value("'Größe ☃ 😀'", "Größe ☃ 😀"),
        "highest characters": Value("'\U0010ffff\ud7ff\ue000\uffff'", "\U0010ffff\ud7ff\ue000\uffff"),
        "NUL": Value("'a\\0b'", "a\0b"),
        "no UTF-8": Value("CAST(X'61FF' AS STRING)", ...),
        "lone surrogate": Value("CAST(X'61EDA080' AS STRING)", ...),
        "the word NULL": Value("'NULL'", "NULL"),
        r"\N": Value("r'\\N'", "\\N"),
        "70,000 characters": Value("repeat('y', 70000)", _LONGEST),
    },
    "binary": {
        "empty": Value("X''", b""),
        "each half": Value("X'00FF0A0D225C80'", b'\x00\xff\n\r"\\\x80'),
    },
    "date": {
        "year 1": Value("date'0001-01-01'", date(1, 1, 1)),
        "before the Gregorian calendar": Value("date'1582-10-10'", date(1582, 10, 10)),
        "before 1970": Value("date'1969-12-31'", date(1969, 12, 31)),
        "year 9999": Value("date'9999-12-31'", date(9999, 12, 31)),
        "year 10000": Value("date'+10000-01-01'", 2932897),
        "year 0": Value("date'0000-12-31'", -719163),
    },
    "timestamp": {
        "microseconds": Value("timestamp'2024-05-01 10:00:00.123456+00:00'", _utc(2024, 5, 1, 10, 0, 0, 123456)),
        "before 1970": Value("timestamp'1969-12-31 23:59:59.999999+00:00'", _utc(1969, 12, 31, 23, 59, 59, 999999)),
        "the repeated hour": Value("timestamp'2013-11-03 01:30:00 America/New_York'", _utc(2013, 11, 3, 5, 30)),
        "before 1677": Value("timestamp'1600-01-01 00:00:00.000001+00:00'", _utc(1600, 1, 1, 0, 0, 0, 1)),
        "before the Gregorian calendar": Value("timestamp'1582-10-10 00:00:00+00:00'", _utc(1582, 10, 10)),
        "year 1": Value("timestamp'0001-01-01 00:00:00+00:00'", _utc(1, 1, 1)),
        "year 9999": Value("timestamp'9999-12-31 23:59:59.999999+00:00'", _utc(9999, 12, 31, 23, 59, 59, 999999)),
        "year 56302": Value("timestamp_seconds(1714557600000)", 1714557600000 * 10**6),
        "year 0": Value("timestamp'0000-12-31 00:00:00+00:00'", -719163 * 86400 * 10**6),
    },
    "timestamp_ntz": {
        "microseconds": Value("timestamp_ntz'2024-05-01 10:00:00.123456'", datetime(2024, 5, 1, 10, 0, 0, 123456)),
        "a skipped hour": Value("timestamp_ntz'2026-03-29 02:30:00'", datetime(2026, 3, 29, 2, 30)),
        "year 1": Value("timestamp_ntz'0001-01-01 00:00:00'", datetime(1, 1, 1)),
        "year 9999": Value("timestamp_ntz'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999)),
        "year 10000": Value("timestamp_ntz'+10000-01-01 00:00:00'", 2932897 * 86400 * 10**6),
    },
    "interval day to second": {
        "negative": Value("INTERVAL '-1 02:03:04.000005' DAY TO SECOND", -timedelta(1, 7384, 5)),
        "days": Value("INTERVAL '100 00:00:00' DAY TO SECOND", timedelta(100)),
    },
    "interval year to month": {"negative": Value("INTERVAL '-1-2' YEAR TO MONTH", -14)},
    "array<int>": {
        "empty": Value("array()", []),
        "with NULL": Value("array(1, NULL)", [1, None]),
    },
    "array<string>": {"quotes and NULL": Value("array('a\"', NULL, '')", ['a"', None, ""])},
    "map<string,int>": {
        "empty": Value("map()", {}),
        "with NULL": Value("map('a.b', 1, '', NULL)", {"a.b": 1, "": None}),
    },
    "struct<a:int,b:timestamp,c:struct<d:decimal(10,2)>>": {
        "full": Value(
            "named_struct('a', 1, 'b', timestamp'2024-05-01 10:00:00.123456+00:00', 'c', named_struct('d', 1.50))",
            {"a": 1, "b": _utc(2024, 5, 1, 10, 0, 0, 123456), "c": {"d": Decimal("1.50")}},
        ),
        "NULL inside": Value("named_struct('a', NULL, 'b', NULL, 'c', NULL)", {"a": None, "b": None, "c": None}),
    },
    "array<struct<at:timestamp,raw:binary>>": {
        "full": Value(
            "array(named_struct('at', timestamp'2024-05-01 10:00:00.123456+00:00', 'raw', X'00FF'), NULL)",
            [{"at": _utc(2024, 5, 1, 10, 0, 0, 123456), "raw": b"\x00\xff"}, None],
        )
    },
    "variant": {
        "object": Value('parse_json(\'{"a": [1, null, "x"]}\')', {"a": [1, None, "x"]}),
        "JSON null": Value("parse_json('null')", None),
    },
}
"""By type and name.

Days and microseconds since 1970 stand for times that Python does not have.
An expected value of `...` means that only some readers have the value.
"""

TYPES = tuple(VALUES)

NESTED = tuple(kind for kind in TYPES if "<" in kind)

NAMES = (
    "id", "a.b", "with space", 'quo"te', "back`tick", "Größe", "select", "a,b", "a'b", "a\\b", "100%", "_x", "1a",
    "a/b",     "a;b", "{a}", "(a)", "a=b", "a\nb", "a\tb", "n" * 64, "名前", "😀", "$a", "a:b", "-a", "#a",
)  # fmt: skip
"""Names of columns."""

TWINS = ("value", "Value")
"""Names that Spark does not tell apart."""


def labelled(kind: str) -> Mapping[str, Value]:
    """Return the values of a type by name, NULL among them."""
    return {**VALUES[kind], **_NULL}
