"""Reads the in-flight segments of a channel. They are Arrow streams, so no Spark is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.snapshot.manifest import ChannelSegment
from streamjob_runtime.spark.text.json_values import json_value

if TYPE_CHECKING:
    import pyarrow as pa


def columns(folder: Path, segments: Sequence[ChannelSegment]) -> list[str]:
    """Return the column names; empty if nothing is in flight."""
    from pyarrow import ipc

    if not segments:
        return []
    with ipc.open_stream(_path(folder, segments[0])) as reader:
        return list(reader.schema.names)


def read_rows(folder: Path, segments: Sequence[ChannelSegment], limit: int) -> list[dict[str, Any]]:
    """Return the first rows in flight as JSON values, in reading order.

    Args:
        folder: the directory with the segments' files.
        limit: maximum number of rows.
    """
    rows: list[dict[str, Any]] = []
    for batch in _batches(folder, segments):
        rows += (json_value(row) for row in batch.slice(0, limit - len(rows)).to_pylist())
        if len(rows) >= limit:
            break
    return rows


def read_table(folder: Path, segments: Sequence[ChannelSegment]) -> pa.Table:
    """Return everything that is in flight; there must be something."""
    import pyarrow as pa

    return pa.Table.from_batches(_batches(folder, segments))


def _batches(folder: Path, segments: Sequence[ChannelSegment]) -> Iterator[pa.RecordBatch]:
    from pyarrow import ipc

    for segment in segments:
        with ipc.open_stream(_path(folder, segment)) as reader:
            yield from reader


def _path(folder: Path, segment: ChannelSegment) -> str:
    return str(folder / segment.path.rpartition("/")[2])
