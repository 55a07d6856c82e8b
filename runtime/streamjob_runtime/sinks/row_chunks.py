"""A task's rows as tables of bounded size, and few rows on their way to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_BYTES = 64 << 20
"""A file is written of so many bytes in memory, before they are compressed."""

_HANDED_OVER_BYTES = 16 << 20


def few_of(batch: DataFrame) -> int:
    """Return the bytes up to which a task of a batch hands its rows to the driver, which then holds 16 MB or so."""
    tasks = int(batch.sparkSession.conf.get("spark.sql.shuffle.partitions") or "1")
    return _HANDED_OVER_BYTES // max(32, tasks)


def portions(batches: Iterable[pa.RecordBatch], few: int, many: int) -> Iterator[tuple[pa.Table, bool]]:
    """Yield a task's rows in tables, and whether they are all of them and few.

    Args:
        batches: the rows.
        few: bytes in memory.
        many: the same; a table has no more of them than that and a batch.
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
    """Return all rows that were packed, one behind the other; None if there are none."""
    tables = [pa.ipc.open_stream(each).read_all() for each in content]
    return pa.concat_tables(tables) if tables else None
