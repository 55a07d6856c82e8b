"""Changes as lake sinks stage them: with their positions, of which the last one of each key counts.

A change may leave out columns, which then keep their values. Of a checkpoint's changes of a key, each column has the
value of the last one that does not leave it out; if there is none, the value is in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from streamjob_runtime.sinks.rows.unavailable import nothing_to_keep

DELETED = "_streamjob_deleted"
"""Column of staged changes: whether the row with this key is to be deleted."""
POSITION = "_streamjob_position"
"""Column of staged changes: the change's position in its batch."""
LEFT_OUT = "_streamjob_left_out"
"""Column of staged changes: the names of the columns that the change leaves out; only if one of the batch may do so."""
KEY_FIX = "give it a value in the job, or leave such rows out"
"""What to do about a change without a key."""


def last_changes(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the last change of each key, in the order of these changes.

    Args:
        changes: changes in their order.
        key: the columns that identify a row.
    """
    positions = pa.array(range(changes.num_rows), pa.int64())
    numbered = changes.select(key).append_column(POSITION, positions)
    last = numbered.group_by(list(key), use_threads=False).aggregate([(POSITION, "max")])
    return in_order(changes, last.column(f"{POSITION}_max"))


def with_values(rows: pa.Table, column: str, left_out: pa.ChunkedArray | None) -> pa.Table:
    """Return the rows in which NULL in a column is a value: all but those that leave it out.

    Args:
        column: the column's name; rows may lack it.
        left_out: the names of the columns that each row leaves out; None if no row does.
    """
    if left_out is None or column not in rows.column_names or not rows.column(column).null_count:
        return rows
    return rows.filter(pa.array([column not in names for names in left_out.to_pylist()], pa.bool_()))


def folded_changes(changes: pa.Table, key: Sequence[str], table: str) -> pa.Table:
    """Return the last change of each key, in the order of these changes.

    What it leaves out has the value of the change of its key before, and so on. The columns that all of them leave out
    stay those of the stored row; only then has the result the column of their names.

    Args:
        changes: changes in their order.
        key: the columns that identify a row.
        table: the table in messages.

    Raises:
        RowsRefused: a change needs the stored row, and one before it deletes that.
    """
    if LEFT_OUT not in changes.column_names:
        return last_changes(changes, key)
    names = left_out_columns(changes)
    if not names:
        return last_changes(changes.drop_columns([LEFT_OUT]), key)
    keys, deleted, left_out = keys_of(changes, key), *(changes.column(c).to_pylist() for c in (DELETED, LEFT_OUT))
    last: dict[tuple[object, ...], int] = {}
    gone: set[tuple[object, ...]] = set()
    # Where each column's value is among the changes; None if it is in the table.
    values: dict[tuple[object, ...], dict[str, int | None]] = {}
    for place, each in enumerate(keys):
        known = values.get(each, {})
        values[each] = {name: known.get(name) if name in left_out[place] else place for name in names}
        last[each] = place
        if deleted[place]:
            values[each] = {}
            gone.add(each)
    places = sorted(last.values())
    kept = [[] if deleted[n] else [name for name in names if values[keys[n]][name] is None] for n in places]
    for place, columns in zip(places, kept, strict=True):
        if columns and keys[place] in gone:
            raise nothing_to_keep(table, row_of(changes, key, place), columns)
    folded = changes.take(pa.array(places, pa.int64()))
    for name in names:
        sources = [n if (found := values[keys[n]].get(name)) is None else found for n in places]
        column = changes.column(name).take(pa.array(sources, pa.int64()))
        folded = folded.set_column(folded.column_names.index(name), name, column)
    folded = folded.drop_columns([LEFT_OUT])
    return folded.append_column(LEFT_OUT, pa.array(kept, pa.list_(pa.string()))) if any(kept) else folded


def left_out_columns(changes: pa.Table) -> list[str]:
    """Return the columns that changes leave out."""
    return sorted(set(chain.from_iterable(changes.column(LEFT_OUT).to_pylist())))


def keys_of(rows: pa.Table, key: Sequence[str]) -> list[tuple[object, ...]]:
    """Return the key of each row, to compare."""

    def comparable(column: pa.ChunkedArray) -> list[object]:
        # Python takes two moments for one if a zone's clocks show the same time twice.
        return list((column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist())

    return list(zip(*(comparable(rows.column(name)) for name in key), strict=True))


def row_of(rows: pa.Table, key: Sequence[str], place: int) -> dict[str, object]:
    """Return the key of a row by its columns, for messages."""
    return {name: rows.column(name)[place].as_py() for name in key}


def without(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows whose key no other row has, in their order.

    Args:
        others: the other rows; their key has the same types.
        key: the columns that identify a row.
    """
    positions = pa.array(range(rows.num_rows), pa.int64())
    numbered = rows.select(key).append_column(POSITION, positions)
    kept = numbered.join(others.select(key), list(key), join_type="left anti", use_threads=False)
    return in_order(rows, kept.column(POSITION))


def in_order(rows: pa.Table, positions: pa.ChunkedArray) -> pa.Table:
    """Return the rows at some positions, in their order."""
    return rows.take(positions.take(pc.sort_indices(positions)))
