"""Statistics and partition values of data files, in the form that Delta's log stores them; pure.

Readers leave out files by these values, so bounds that a reader would misread are left out themselves: always both,
since deltalake takes a single one for a range without values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from math import isfinite, isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_INDEXED = 32
"""Columns with statistics, as in Delta's own writers."""
_TEXT = 32
_HIGHEST = "\U0010ffff"


def statistics_of(rows: pa.Table) -> str:
    """Return the statistics of a data file as JSON: the number of rows, and bounds and nulls of its first columns."""
    columns = {name: rows.column(name) for name in rows.column_names[:_INDEXED]}
    flat = [name for name in rows.column_names if not pa.types.is_nested(rows.column(name).type)]
    bounds = {name: _bounds(column) for name, column in columns.items()}
    # If one column has bounds, deltalake gives pyarrow null as those of the others, and filters by them find no row.
    complete = all(bounds.get(name, (None, None))[0] is not None for name in flat)
    least, greatest = (
        {name: _json_text(each[end]) for name, each in bounds.items() if complete and each[end] is not None}
        for end in (0, 1)
    )
    nulls = {name: str(column.null_count) for name, column in columns.items() if not pa.types.is_nested(column.type)}
    stats = {"numRecords": str(rows.num_rows), "nullCount": _json_object(nulls)}
    if least:
        stats |= {"minValues": _json_object(least), "maxValues": _json_object(greatest)}
    return _json_object(stats)


def partition_value(value: Any) -> str | None:
    """Return the text of a partition value; an empty text would be read as null, and has to be refused before."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, datetime):
        # Without a zone, a reader takes the text for its own time.
        return _time(value) if value.tzinfo else _time(value).replace("T", " ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)


def partition_problem(values: pa.Array) -> str | None:
    """Return why values cannot be partition values; None if they can."""
    if pa.types.is_string(values.type) and pc.any(pc.equal(values, "")).as_py():
        return "partitions the table and has an empty text, which is read as NULL"
    if pa.types.is_decimal(values.type) and values.type.scale:
        negative = pc.less(values, pa.scalar(Decimal(0), values.type))
        fractions = pc.not_equal(values, pc.trunc(values))
        if pc.any(pc.and_(negative, fractions)).as_py():
            # deltalake renders -0.500 as 0.-500, also when it writes the file again, and then opens the table no more.
            return "partitions the table and has a negative number with a fraction, which deltalake cannot read"
    return None


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any]:
    kind = column.type
    if pa.types.is_floating(kind):
        return _float_bounds(column)
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_string(kind)
    ):
        return None, None
    found = pc.min_max(column).as_py()
    least, greatest = found["min"], found["max"]
    if isinstance(least, str):
        upper = _upper(greatest)
        return (None, None) if upper is None else (least[:_TEXT], upper)
    return _json_value(least), _json_value(greatest)


def _float_bounds(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """Return bounds without NaN, which readers order in different ways, and with a zero of the outer sign."""
    if column.null_count == len(column) or pc.any(pc.is_nan(column)).as_py():
        return None, None
    found = pc.min_max(column).as_py()
    least, greatest = found["min"], found["max"]
    if not (isfinite(least) and isfinite(greatest)):
        return None, None
    return least or -0.0, greatest or 0.0


def _upper(text: str) -> str | None:
    """Return a text that is not less than any text that begins like this one."""
    if len(text) <= _TEXT:
        return text
    return None if text[_TEXT] == _HIGHEST else text[:_TEXT] + _HIGHEST


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return _time(value)
    return value.isoformat() if isinstance(value, date) else value


def _time(at: datetime) -> str:
    text = at.replace(tzinfo=None).isoformat(timespec="microseconds")
    return text if at.tzinfo is None else f"{text}Z"


def _float_text(value: float) -> str:
    if isnan(value):
        return "NaN"
    return repr(value) if isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _json_text(value: Any) -> str:
    """Return a value as JSON, with all digits. Readers decode escaped surrogate pairs wrongly, so none is escaped."""
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _json_object(values: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{_json_text(name)}:{text}" for name, text in values.items()) + "}"
