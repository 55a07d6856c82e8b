"""What readers return, in one form: of Python's objects by the type of the column, of JSON, and of text."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import types as t

_DAY_TIME = re.compile(r"(?:INTERVAL ')?(-?)(\d+) (\d+):(\d+):(\d+)(?:\.(\d+))?(?:' DAY TO SECOND)?")
_YEAR = re.compile(r"([+-]?\d+)(-\d\d-\d\d.*)")
_EPOCH = datetime(1970, 1, 1)
_YEAR_MONTH = re.compile(r"(?:INTERVAL ')?(-?)(\d+)-(\d+)(?:' YEAR TO MONTH)?")


def canonical(value: Any, kind: t.DataType) -> Any:
    """Return what a reader of values found in the form of `values.VALUES`, so that equal values compare equal."""
    if value is None:
        return None
    if isinstance(kind, t.ArrayType):
        return [canonical(each, kind.elementType) for each in value]
    if isinstance(kind, t.MapType):
        pairs = value.items() if isinstance(value, Mapping) else value
        return {canonical(key, kind.keyType): canonical(each, kind.valueType) for key, each in pairs}
    if isinstance(kind, t.StructType):
        fields = value if isinstance(value, Mapping) else value.asDict()
        return {each.name: canonical(fields[each.name], each.dataType) for each in kind.fields}
    return _plain(value, kind)


def _plain(value: Any, kind: t.DataType) -> Any:
    if isinstance(kind, t.FloatType | t.DoubleType):
        number = float(value)
        packed = struct.pack("<f", number) if isinstance(kind, t.FloatType) else struct.pack("<d", number)
        return "NaN" if number != number else packed.hex()
    if isinstance(kind, t.DecimalType):
        return f"{Decimal(value):.{kind.scale}f}"
    if isinstance(kind, t.BinaryType):
        return bytes(value)
    if isinstance(value, date):
        return _number(value, kind)
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    return value


def _number(value: date, kind: t.DataType) -> int:
    """Return days or microseconds since 1970, which also count times that Python does not have."""
    if not isinstance(value, datetime):
        return value.toordinal() - _EPOCH.toordinal()
    assert (value.tzinfo is None) == isinstance(kind, t.TimestampNTZType), f"{value!r} has a wrong time zone"
    return (value.replace(tzinfo=None) - (value.utcoffset() or timedelta()) - _EPOCH) // timedelta(microseconds=1)


def from_json(value: Any, kind: t.DataType) -> Any:
    """Return a value of JSON, read with `loads`, as the object of Python that a reader would make of it."""
    if value is None:
        return None
    if isinstance(kind, t.ArrayType):
        return [from_json(each, kind.elementType) for each in value]
    if isinstance(kind, t.MapType):
        return {from_json(key, kind.keyType): from_json(each, kind.valueType) for key, each in value.items()}
    if isinstance(kind, t.StructType):
        return {each.name: from_json(value.get(each.name), each.dataType) for each in kind.fields}
    return from_text(value, kind) if isinstance(value, str) else value


def from_text(value: str, kind: t.DataType) -> Any:
    """Return a value that is a text as the object of Python that a reader would make of it."""
    if isinstance(kind, t.BooleanType):
        return {"true": True, "false": False}[value]
    if isinstance(kind, t.IntegralType):
        return int(value)
    if isinstance(kind, t.FloatType | t.DoubleType):
        return float(value)
    if isinstance(kind, t.DecimalType):
        return Decimal(value)
    if isinstance(kind, t.BinaryType):
        return base64.b64decode(value, validate=True)
    if isinstance(kind, t.DateType | t.TimestampType | t.TimestampNTZType):
        return _time(value, kind)
    if isinstance(kind, t.DayTimeIntervalType):
        sign, days, hours, minutes, seconds, fraction = _matched(_DAY_TIME, value)
        whole = timedelta(int(days), int(hours) * 3600 + int(minutes) * 60 + int(seconds))
        return (-1 if sign else 1) * (whole + timedelta(microseconds=int((fraction or "").ljust(6, "0"))))
    if isinstance(kind, t.YearMonthIntervalType):
        sign, years, months = _matched(_YEAR_MONTH, value)
        return (-1 if sign else 1) * (12 * int(years) + int(months))
    if isinstance(kind, t.ArrayType | t.MapType | t.StructType | t.VariantType):
        return from_json(loads(value), kind)
    return value


def _time(text: str, kind: t.DataType) -> Any:
    """Return a time in ISO 8601; its years may have more than four digits."""
    year, rest = _matched(_YEAR, text)
    if 1 <= int(year) <= 9999:
        return (date if isinstance(kind, t.DateType) else datetime).fromisoformat(text)
    # The calendar repeats itself every 400 years, which have 146,097 days.
    cycles = int(year) // 400 - 5
    number = canonical(_time(f"{int(year) - 400 * cycles:04}{rest}", kind), kind)
    return number + cycles * 146_097 * (1 if isinstance(kind, t.DateType) else 86_400_000_000)


def loads(text: str | bytes) -> Any:
    """Read JSON without losing digits."""
    return json.loads(text, parse_float=Decimal)


def _matched(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    found = pattern.fullmatch(text)
    assert found is not None, f"{text!r} is no interval"
    return found.groups()
