"""Makes Delta tables, and says what is read from them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from tests.unit.runtime.lake.reading import Row, rows_by_name

from streamjob_runtime.chain.sources.lake.changes import (
    TableChange,
)
from streamjob_runtime.chain.sources.lake.delta_versions import DeltaVersions


def opened(place: Path, **more: str) -> DeltaVersions:
    return DeltaVersions("source orders", {"path": str(place), **more})


def append(place: Path, *ids: int, **more: Any) -> None:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "text": pa.array([str(number) for number in ids])})
    write_deltalake(str(place), rows, mode=more.pop("mode", "append"), **more)


def log_of(place: Path, version: int) -> Path:
    return place / "_delta_log" / f"{version:020d}.json"


def commit(place: Path, *actions: dict[str, Any]) -> None:
    """Write the next version by hand."""
    log_of(place, DeltaTable(place).version() + 1).write_text("\n".join(json.dumps(action) for action in actions))


def expire(place: Path, version: int) -> None:
    """Make a checkpoint, and remove the versions of the log before one."""
    DeltaTable(place).create_checkpoint()
    forget(place, version)


def forget(place: Path, version: int) -> None:
    for number in range(version):
        log_of(place, number).unlink(missing_ok=True)


def ids(*changes: TableChange) -> list[int]:
    columns = json.dumps({"fields": [{"name": "id"}]})
    return [row["id"] for row in rows_by_name((file for change in changes for file in change.files), columns)]


def seen(changes: list[TableChange]) -> list[tuple[str, list[int]]]:
    return [(change.kind, sorted(ids(change))) for change in changes]


class Told:
    """A table, and what each of its versions has added, by what the table says before and after it."""

    def __init__(self, place: Path, **given: Any) -> None:
        """Make the table; `given` goes to deltalake."""
        self.place = place
        self.kinds = given.pop("kinds", ("a b", None, "%2F"))
        self.versions: list[tuple[int, list[str]]] = [(0, [])]
        self._next = 0
        self._write(0, partition_by=["p"], **given)

    def step(self, name: str) -> None:
        before = self.files()
        table = DeltaTable(self.place)
        steps: dict[str, Callable[[], object]] = {
            "append": lambda: self._write(4),
            "delete": lambda: table.delete(f"id = {max(0, self._next - 2)}"),
            "update": lambda: table.update(predicate=f"id >= {self._next - 3}", updates={"text": "'changed'"}),
            "overwrite": lambda: self._write(2, mode="overwrite"),
            "merge": lambda: self._merge(table),
            "empty": lambda: table.delete(),
            "compact": table.optimize.compact,
            "add": lambda: self._write(2, more=True),
            "expire": lambda: expire(self.place, (table.version() + 1) // 2),
        }
        steps[name]()
        for version in range(len(self.versions), DeltaTable(self.place).version() + 1):
            self.versions.append((version, [] if name == "compact" else sorted(self.files() - before)))

    def files(self) -> set[str]:
        return {uri.rpartition("/")[2] for uri in DeltaTable(self.place).file_uris()}

    def content(self) -> Counter[str]:
        return counted(DeltaTable(self.place).to_pyarrow_table().to_pylist())

    def _merge(self, table: DeltaTable) -> None:
        """Change some rows, also their partition, delete one, and insert one."""
        self._next += 1
        numbers = range(max(0, self._next - 4), self._next)
        given = {"id": pa.array(numbers, pa.int64()), "text": ["merged"] * len(numbers), "p": ["moved"] * len(numbers)}
        merger = table.merge(pa.table(given), "t.id = s.id", source_alias="s", target_alias="t")
        merger = merger.when_matched_delete(f"t.id = {numbers[0]}").when_matched_update_all()
        merger.when_not_matched_insert({name: f"s.{name}" for name in given}).execute()

    def _write(self, count: int, *, more: bool = False, **further: Any) -> None:
        self._next += count
        ids = range(self._next - count, self._next)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array([str(number) for number in ids], pa.string()),
            "p": pa.array([self.kinds[number % 3] for number in ids], pa.string()),
        }
        if more:
            columns[f"more{self._next}"] = pa.array([str(number) for number in ids], pa.string())
        usual = {"mode": "append", "schema_mode": "merge"}
        write_deltalake(str(self.place), pa.table(columns), **{**usual, **further})


def counted(rows: list[Row]) -> Counter[str]:
    """Count rows; a column that is null counts as one that is not there."""
    return Counter(repr(sorted((k, v) for k, v in row.items() if v is not None)) for row in rows)
