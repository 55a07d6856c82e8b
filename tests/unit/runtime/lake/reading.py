"""Reads the files that a lake table gives, as Spark would, but with pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.parquet as pq

from streamjob_runtime.chain.sources.lake.changes import LakeFile, LakeTable, Position, TableChange

Row = dict[str, Any]


def rows_by_id(files: Iterable[LakeFile], columns: str) -> list[Row]:
    """Return the rows of files whose columns are found by their field ids."""
    names = {field["metadata"]["parquet.field.id"]: field["name"] for field in json.loads(columns)["fields"]}
    rows = []
    for file in files:
        table = pq.ParquetFile(file.key.removeprefix("file://")).read()
        ids = [int((field.metadata or {})[b"PARQUET:field_id"]) for field in table.schema]
        found = [dict(zip(ids, row.values(), strict=True)) for row in table.to_pylist()]
        rows += [{name: row.get(number) for number, name in names.items()} for row in found]
    return rows


def rows_by_name(files: Iterable[LakeFile], columns: str) -> list[Row]:
    """Return the rows of files whose columns are found by their names; some values are not in the files."""
    names = [field["name"] for field in json.loads(columns)["fields"]]
    rows = []
    for file in files:
        found = pq.ParquetFile(file.key.removeprefix("file://")).read().to_pylist()
        rows += [{name: file.values.get(name, row.get(name)) for name in names} for row in found]
    return rows


def read(table: LakeTable, position: Position | None) -> list[TableChange]:
    """Return what follows a position that was kept as JSON."""
    kept = position and Position.from_json(json.loads(json.dumps(position.to_json())))
    return list(table.changes(kept))


def in_steps(changes: Iterable[TableChange], step: int) -> Iterator[tuple[Position, list[LakeFile]]]:
    """Yield files in groups of at most `step`, each with the position behind it."""
    for change in changes:
        for start in range(0, max(1, len(change.files)), step):
            yield change.after(start + step), list(change.files[start : start + step])
