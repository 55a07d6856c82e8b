"""Writes the rows of staged files as JSON lines."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, TextIO

import pyarrow.parquet as pq
from pyarrow import fs

from streamjob_runtime.sinks.delta.changes import read_changes
from streamjob_runtime.sinks.delta.commits import StagedBatch
from streamjob_runtime.spark.text.json_values import json_value

_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_FLOATS = frozenset({"float", "double"})


def write_rows(batch: StagedBatch, files: fs.FileSystem, target: TextIO) -> int:
    """Write each row of a batch as one JSON object; return their number. Raises OSError.

    Args:
        files: the table's directory.
        target: the file for the lines.
    """
    if batch.changes:
        return _write(read_changes([batch.changes], files).to_pylist(), {}, target)
    rows = 0
    for file in batch.files:
        partition = {name: _typed(text, batch.columns.get(name)) for name, text in file.partition.items()}
        with files.open_input_file(file.path) as stream:
            rows += _write(pq.read_table(stream).to_pylist(), partition, target)
    return rows


def _write(rows: list[dict[str, Any]], partition: dict[str, Any], target: TextIO) -> int:
    for row in rows:
        target.write(f"{json.dumps({**json_value(row), **partition}, ensure_ascii=False)}\n")
    return len(rows)


def _typed(text: str | None, kind: Any) -> Any:
    """Return a partition's value, which the table's log has as a text, as a JSON value."""
    if text is None:
        return None
    if kind in _INTEGERS:
        return int(text)
    if kind == "boolean":
        return text == "true"
    if kind in _FLOATS:
        return json_value(float(text))
    if isinstance(kind, str) and kind.startswith("decimal"):
        return json_value(Decimal(text))
    return text
