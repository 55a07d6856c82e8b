"""Splits a task's rows into tables of bounded size, and packs small results for the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

FILE_BYTES = 64 << 20
"""Size of a file's rows in memory, in bytes, before compression."""


def chunks(batches: Iterable[pa.RecordBatch], few: int, many: int) -> Iterator[tuple[pa.Table, bool]]:
    """Yield a task's rows as tables, each with a flag that it contains all rows and they are few.

    Args:
        batches: the rows.
        few: size in memory up to which rows are few, in bytes.
        many: size in memory at which a table ends, in bytes; it may exceed this by one batch.
    """
    held: list[pa.RecordBatch] = []
    size, whole = 0, True
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= many:
            yield pa.Table.from_batches(held), False
            held, size, whole = [], 0, False
    if held:
        yield pa.Table.from_batches(held), whole and size <= few


def packed(rows: pa.Table) -> bytes:
    """Return rows as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def unpacked(content: Iterable[bytes]) -> pa.Table | None:
    """Return all packed rows as one table; None if there are none."""
    tables = [pa.ipc.open_stream(each).read_all() for each in content]
    return pa.concat_tables(tables) if tables else None
