"""Attempts to write values through a sink, and what its readers find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as t
from tests.integration.matrix.canonical import canonical
from tests.integration.matrix.refused import ONLY
from tests.integration.matrix.targets import EITHER, TARGETS, World
from tests.integration.matrix.values import TYPES, Value
from tests.integration.sinks.buckets import environment_of_tasks

from streamjob.ids import BatchId, CheckpointId, Epoch
from streamjob.job.model.spec import SinkSpec
from streamjob.job.query.quoting import quoted
from streamjob.sink import ChecksSchema
from streamjob.store.staging import StoreStaging
from streamjob.testing.memory_store import MemoryStore
from streamjob_runtime.sinks.factory import SinkSurroundings, build_sink

Columns = Mapping[str, Mapping[str, Value]]
"""Values by type and name."""


class Attempt:
    """A sink that is opened for rows, and the rows."""

    def __init__(self, world: World, target: str, frame: DataFrame) -> None:
        self._world = world
        self._target = TARGETS[target]
        self.frame = frame
        self.store = MemoryStore()
        spec = SinkSpec.model_validate({"name": "out", "input": "in", **self._target.spec(world, frame.schema)})
        surroundings = SinkSurroundings(
            job="matrix",
            namespace="default",
            epoch=Epoch(1),
            directory=world.directory,
            environ={},
            staging=lambda uid: StoreStaging(self.store, uid, Epoch(1), world.directory / "scratch"),
            spark=lambda: world.spark,
        )
        self._sink = build_sink(spec, surroundings)

    def check(self) -> None:
        """Let the sink check the columns."""
        if isinstance(self._sink, ChecksSchema):
            self._sink.check_schema(self.frame.schema)

    def write(self) -> None:
        """Check, stage and commit the rows."""
        self.check()
        with self._credentials():
            staged = self._sink.stage(self.frame, BatchId(0))
        self._sink.commit(CheckpointId(1), [staged.committable] if staged.committable is not None else [])

    def close(self) -> None:
        """Close the sink."""
        self._sink.close()

    def rows(self) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
        """Yield what each reader finds, by the reader's name."""
        for reader, read in self._target.readers.items():
            yield reader, [dict(row) for row in read(self._world, self.frame.schema)]

    @contextmanager
    def _credentials(self) -> Iterator[None]:
        if not self._target.in_bucket:
            yield
            return
        with environment_of_tasks(self._world.spark, self._world.bucket.server.environment):
            yield


def column_of(kind: str) -> str:
    """Return the name of the column for a type."""
    return f"c{TYPES.index(kind)}"


def frame_of(world: World, columns: Columns) -> DataFrame:
    """Return rows with a column for each type; the row number n has the n-th value of each, or its last."""

    def cell(kind: str, number: int) -> str:
        values = list(columns[kind].values())
        value = values[min(number, len(values) - 1)]
        return f"CAST({value.sql} AS {kind}) AS {quoted(column_of(kind))}"

    count = max(len(values) for values in columns.values())
    rows = [", ".join((f"SELECT {number} AS id", *(cell(kind, number) for kind in columns))) for number in range(count)]
    return world.spark.sql(" UNION ALL ".join(rows)).coalesce(1)


def differences(target: str, attempt: Attempt, columns: Columns) -> Iterator[str]:
    """Yield the cells of a matrix in which a reader finds another value than the one that was written."""
    for reader, rows in attempt.rows():
        found = {row["id"]: row for row in rows}
        for kind, values in columns.items():
            if reader not in ONLY.get((target, kind), (reader,)):
                continue
            of = attempt.frame.schema[column_of(kind)].dataType
            for number, (label, value) in enumerate(values.items()):
                raw = found.get(number, {}).get(column_of(kind), "no row")
                if not _same(raw, value.expected, of):
                    yield f"{kind}, {label}, read by {reader}: {raw!r:.200} instead of {value.expected!r:.200}"


def _same(found: Any, expected: Any, kind: t.DataType) -> bool:
    if found is EITHER:
        return expected in (None, "")
    try:
        return bool(canonical(found, kind) == canonical(expected, kind))
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
        return False
