"""Reads the values in a test's rows by the types of their columns, and writes them for Spark's JSON source."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TypeVar

from streamjob.job.model.suggest import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_Time = TypeVar("_Time")

_CLOSE = 1e-9
"""Relative difference below which two floating-point numbers are the same: sums depend on the order of the rows."""
_BASE64 = "base64"


class BadValue(Exception):
    """A value does not fit the type of its column.

    Args:
        what: the problem, without the column.
        fix: what to write instead.
    """

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


def read_value(value: Any, kind: DataType, zone: tzinfo) -> Any:
    """Return a value in the one form that its type has in Python.

    Timestamps are in UTC, structs and maps are dictionaries.

    Args:
        value: as a test gives it, or as a sink has collected it.
        zone: the time zone of timestamps without one.

    Raises:
        BadValue: it does not fit.
    """
    from pyspark.sql import types as t

    if value is None:
        return None
    match kind:
        case t.BooleanType():
            return _checked(value, bool, "true or false")
        case t.ByteType() | t.ShortType() | t.IntegerType() | t.LongType():
            return _integer(value)
        case t.FloatType() | t.DoubleType():
            return _float(value)
        case t.DecimalType():
            return _decimal(value)
        case t.StringType() | t.CharType() | t.VarcharType():
            return _checked(value, str, "a text; put it in quotes")
        case t.BinaryType():
            return _binary(value)
        case t.DateType():
            return _date(value)
        case t.TimestampType():
            at = _datetime(value)
            return (at if at.tzinfo is not None else at.replace(tzinfo=zone)).astimezone(UTC)
        case t.TimestampNTZType():
            return _datetime(value).replace(tzinfo=None)
        case t.ArrayType():
            if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
                raise _expected(value, "a list")
            return [read_value(each, kind.elementType, zone) for each in value]
        case t.MapType():
            pairs = value.items() if isinstance(value, Mapping) else value
            if isinstance(pairs, str) or not _are_pairs(pairs):
                raise _expected(value, "a mapping")
            return {read_value(key, kind.keyType, zone): read_value(each, kind.valueType, zone) for key, each in pairs}
        case t.StructType():
            return read_row(value, kind, zone)
    return value


def read_row(row: Any, columns: StructType, zone: tzinfo) -> dict[str, Any]:
    """Return a row or struct with all its columns; those that it does not name are null. Raises BadValue."""
    if hasattr(row, "asDict"):
        row = row.asDict()
    if not isinstance(row, Mapping):
        raise _expected(row, "a mapping of columns to values")
    names = columns.names
    for name in row:
        if name not in names:
            raise BadValue(f"there is no column {name!r}", did_you_mean(str(name), names, "columns"))
    result = {}
    for field in columns.fields:
        try:
            result[field.name] = read_value(row.get(field.name), field.dataType, zone)
        except BadValue as error:
            raise BadValue(f"{field.name}: {error.what}", error.fix) from None
    return result


def json_of(value: Any) -> Any:
    """Return a value of `read_value` in the form in which Spark's JSON source reads it."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return value if math.isfinite(value) else _NAMES[str(value)]
        case Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case date():
            return value.isoformat()
        case Mapping():
            return {str(json_of(key)): json_of(each) for key, each in value.items()}
        case Sequence():
            return [json_of(each) for each in value]
    return str(value)


def same(one: Any, other: Any) -> bool:
    """Return whether two values of `read_value` are equal; floating-point numbers may differ in the tenth digit."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_CLOSE) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(each, other[key]) for key, each in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def shown(value: Any) -> str:
    """Return a value of `read_value` as a test's file would have it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case bytes():
            return _shown_bytes(value)
        case Mapping():
            return "{" + ", ".join(f"{key}: {shown(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(shown(each) for each in value) + "]"
    return str(value)


_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_FLOATS = {name: float(text) for text, name in _NAMES.items()}


def _expected(value: Any, what: str) -> BadValue:
    text = repr(value)
    return BadValue(f"{text if len(text) <= 60 else text[:60] + '…'} does not fit its type", f"write {what}")


def _checked(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise _expected(value, what)
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _expected(value, "a whole number")
    return value


def _float(value: Any) -> float:
    if isinstance(value, str) and value in _FLOATS:
        return _FLOATS[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _expected(value, "a number, or NaN, Infinity or -Infinity")
    return float(value)


def _decimal(value: Any) -> Decimal:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
            raise InvalidOperation
        return Decimal(str(value))
    except InvalidOperation:
        raise _expected(value, "a decimal number") from None


def _binary(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, Mapping) and set(value) == {_BASE64}:
        try:
            return base64.b64decode(value[_BASE64], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise _expected(value, "base64") from None
    if isinstance(value, Mapping):
        return json.dumps(value, default=json_of, ensure_ascii=False).encode()
    raise _expected(value, "a text, which becomes UTF-8, a mapping, which becomes JSON, or {base64: …}")


def _shown_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"{{{_BASE64}: {base64.b64encode(value).decode()}}}"


def _date(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    return _from_iso(value, date.fromisoformat, "a date like 2026-01-31")


def _datetime(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    return _from_iso(value, datetime.fromisoformat, "a time like 2026-01-31T12:00:00Z")


def _from_iso(value: Any, read: Callable[[str], _Time], what: str) -> _Time:
    try:
        return read(value)
    except (TypeError, ValueError):
        raise _expected(value, what) from None


def _are_pairs(pairs: Any) -> bool:
    try:
        return all(len(pair) == 2 for pair in pairs)
    except TypeError:
        return False
