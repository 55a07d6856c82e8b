"""Reads the in-flight segments of a channel. They are Arrow streams, so no Spark is needed."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.snapshot.manifest import ChannelSegment

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
        segments: the segments.
        limit: maximum number of rows.
    """
    rows: list[dict[str, Any]] = []
    for batch in _batches(folder, segments):
        rows += (_plain(row) for row in batch.slice(0, limit - len(rows)).to_pylist())
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


def exact_number(text: str) -> float | str:
    """Return a number with digits after the point, as JSON values have it; as text if a float would lose digits."""
    number = float(text)
    return number if math.isfinite(number) and Decimal(repr(number)) == Decimal(text) else text


def _plain(value: Any) -> Any:
    """Return a value as Spark writes it to JSON."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(json.dumps(value))
        case Decimal():
            return exact_number(str(value))
        case datetime():
            text = value.isoformat(timespec="microseconds")
            return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {name: _plain(each) for name, each in value.items()}
        case [*pairs] if pairs and all(isinstance(each, tuple) for each in pairs):
            return {str(_plain(key)): _plain(each) for key, each in pairs}
        case [*_]:
            return [_plain(each) for each in value]
    return str(value)
