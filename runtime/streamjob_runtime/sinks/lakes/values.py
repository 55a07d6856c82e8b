"""Finds values that a lake table, or the readers of one, cannot hold; pure.

Spark's types hold more than Python's, Iceberg's and Delta's: years up to 294247, and texts that are not UTF-8. Such a
value makes a data file unreadable, or is read as another one, so the rows are refused before they are staged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamjob_runtime.sinks.errors import RowsRefused

_FIRST_DAY, _LAST_DAY = -719162, 2932896
_DAY = 86_400_000_000
_SHOWN = 300

Check = Callable[[pa.Array], str | None]
"""Returns what is wrong with a column's values, as the end of a sentence; None if nothing is."""


def refuse_rows(sink: str, rows: pa.Table, column: str, check: Check, fix: str) -> None:
    """Refuse rows whose column fails a check; the error names the sink, the column and the first such row.

    Args:
        fix: what to do about such a value.

    Raises:
        RowsRefused: a value fails the check.
    """
    values = rows.column(column).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks else pa.array([], values.type)
    if check(values) is None:
        return
    first, beyond = 0, len(values)
    while beyond - first > 1:
        middle = (first + beyond) // 2
        first, beyond = (first, middle) if check(values.slice(first, middle - first)) else (middle, beyond)
    raise refused(sink, rows, column, str(check(values.slice(first, 1))), first, fix)


def refused(sink: str, rows: pa.Table, column: str, what: str, number: int, fix: str) -> RowsRefused:
    """Return the error for a row.

    Args:
        what: what is wrong with the value, as the end of a sentence.
        fix: what to do about it.
    """
    return RowsRefused(f"{sink}: the column {column!r} {what}, in the row {_shown(rows, number)}", fix)


def holds_text(rows: pa.Table, text: str) -> bool:
    """Return whether a text is part of any text in rows, also inside other types."""
    for name in rows.column_names:
        for chunk in rows.column(name).chunks:
            for inner in _primitive(chunk):
                if _is_text(inner) and pc.any(pc.match_substring(inner, text)).as_py():
                    return True
    return False


def refuse_nulls(sink: str, rows: pa.Table, columns: Iterable[str], role: str, fix: str) -> None:
    """Refuse rows with null in some of their columns.

    Args:
        columns: the columns' names; rows may lack them.
        role: why null is not allowed, as in "is required".
        fix: what to do about it.

    Raises:
        RowsRefused: there is a null.
    """

    def check(values: pa.Array) -> str | None:
        return f"{role}, and has NULL" if values.null_count else None

    for name in columns:
        if name in rows.column_names:
            refuse_rows(sink, rows, name, check, fix)


def refuse_unreadable(sink: str, rows: pa.Table) -> None:
    """Refuse rows with values that the files of a lake table or their readers cannot hold.

    Raises:
        RowsRefused: there is such a value.
    """
    for name in rows.column_names:
        refuse_rows(sink, rows, name, _unreadable, "correct the value in the job, or leave such rows out")


def _unreadable(values: pa.Array) -> str | None:
    for inner in _primitive(values):
        if pa.types.is_date32(inner.type) and not _within(inner.cast(pa.int32()), _FIRST_DAY, _LAST_DAY):
            return "has a date outside the years 1 to 9999"
        if pa.types.is_timestamp(inner.type):
            micros = inner.cast(pa.timestamp("us", inner.type.tz)).cast(pa.int64())
            if not _within(micros, _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1):
                return "has a time outside the years 1 to 9999"
        if _is_text(inner):
            try:
                inner.validate(full=True)
            except pa.ArrowInvalid:
                return "has a text that is not valid UTF-8"
    return None


def _is_text(values: pa.Array) -> bool:
    return bool(pa.types.is_string(values.type) or pa.types.is_large_string(values.type))


def _within(values: pa.Array, least: int, greatest: int) -> bool:
    found = pc.min_max(values).as_py()
    return found["min"] is None or (least <= found["min"] and found["max"] <= greatest)


def _primitive(values: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays inside nested ones, without the values below a null."""
    kind = values.type
    if pa.types.is_struct(kind):
        for field in values.flatten():
            yield from _primitive(field)
    elif pa.types.is_map(kind):
        entries = values.drop_null()
        start, end = _extent(entries)
        yield from _primitive(entries.keys.slice(start, end - start))
        yield from _primitive(entries.items.slice(start, end - start))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _primitive(values.flatten())
    else:
        yield values


def _extent(entries: pa.MapArray) -> tuple[int, int]:
    return (entries.offsets[0].as_py(), entries.offsets[-1].as_py()) if len(entries) else (0, 0)


def _shown(rows: pa.Table, number: int) -> str:
    row = rows.slice(number, 1)
    text = ", ".join(f"{name}: {_text(row.column(name))}" for name in row.column_names)
    return f"{{{text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}}}"


def _text(column: pa.ChunkedArray) -> str:
    try:
        value: Any = column[0].as_py()
    except (OverflowError, ValueError):
        if pa.types.is_timestamp(column.type):
            return f"{column.cast(pa.int64())[0].as_py()} microseconds since 1970"
        return "a value that cannot be shown"
    if value is None:
        return "NULL"
    return repr(value) if isinstance(value, str | bytes | list | dict) else str(value)
