"""Reads the segments in flight in a channel, which are Arrow streams: no Spark is needed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.snapshot.manifest import ChannelSegment

if TYPE_CHECKING:
    import pyarrow as pa


def columns(folder: Path, segments: Sequence[ChannelSegment]) -> list[str]:
    """Return the names of the columns; none if nothing is in flight."""
    from pyarrow import ipc

    if not segments:
        return []
    with ipc.open_stream(_path(folder, segments[0])) as reader:
        return list(reader.schema.names)


def read_rows(folder: Path, segments: Sequence[ChannelSegment], limit: int) -> list[dict[str, Any]]:
    """Return the first rows in flight, JSON-able, in the order in which they will be read.

    Args:
        folder: where the segments' files are.
        segments: the segments.
        limit: how many rows at most.
    """
    rows: list[dict[str, Any]] = []
    for batch in _batches(folder, segments):
        rows += (_plain(row) for row in batch.slice(0, limit - len(rows)).to_pylist())
        if len(rows) >= limit:
            break
    return rows


def read_table(folder: Path, segments: Sequence[ChannelSegment]) -> pa.Table:
    """Return everything that is in flight, of which there is something."""
    import pyarrow as pa

    return pa.Table.from_batches(_batches(folder, segments))


def _batches(folder: Path, segments: Sequence[ChannelSegment]) -> Iterator[pa.RecordBatch]:
    from pyarrow import ipc

    for segment in segments:
        with ipc.open_stream(_path(folder, segment)) as reader:
            yield from reader


def _path(folder: Path, segment: ChannelSegment) -> str:
    return str(folder / segment.path.rpartition("/")[2])


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(row, default=_as_spark_writes_it))
    return plain


def _as_spark_writes_it(value: object) -> object:
    if isinstance(value, datetime):
        text = value.isoformat(timespec="milliseconds")
        return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)
