"""Stages the parts of a batch that tasks have written: large ones from the tasks themselves, small ones together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamjob.sink import Staging, TaskStaging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = pa.schema(
    [("name", pa.string()), ("content", pa.binary()), ("records", pa.int64()), ("refusal", pa.string())]
)
_RESULT = "name string, content binary, records long, refusal string"


@dataclass(frozen=True, slots=True)
class StagedParts:
    """The staged rows of a batch.

    Args:
        names: the objects, in the order of the tasks.
        rows: the number of rows.
        refusal: why a row is refused; None if none is.
    """

    names: tuple[str, ...]
    rows: int
    refusal: str | None


def stage_parts(parts: DataFrame, staging: Staging) -> StagedParts:
    """Compute a batch in one Spark action, and stage its rows.

    Args:
        parts: the frame that `Kafka.parts` returns.
        staging: the sink's staging.

    Raises:
        StoreError: the store refused an object.
    """
    results = parts.mapInArrow(_putting(staging.in_tasks()), _RESULT).collect()
    refusal = next((row.refusal for row in results if row.refusal is not None), None)
    if refusal is not None:
        return StagedParts(tuple(row.name for row in results if row.name is not None), 0, refusal)
    names = [staging.put(part) if isinstance(part, bytes) else part for part in joined(results)]
    return StagedParts(tuple(names), sum(row.records for row in results), None)


def joined(results: Iterable[Any]) -> Iterator[str | bytes]:
    """Yield the names of staged parts, and the contents of the others, of which neighbours are joined.

    Args:
        results: rows with `name` or `content`, in the order of the tasks, which is that of the records of a key.
    """
    small: list[bytes] = []
    for row in results:
        if row.name is None:
            small.append(bytes(row.content))
            continue
        if small:
            yield b"".join(small)
            small = []
        yield row.name
    if small:
        yield b"".join(small)


def _putting(staging: TaskStaging) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def put(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([put_part(part, staging) for part in batch.to_pylist()], schema=_COLUMNS)

    return put


def put_part(part: dict[str, Any], staging: TaskStaging) -> dict[str, Any]:
    """Stage the file of a part, if it has one, and delete the file; return the part with the object's name instead.

    Args:
        part: `file`, `content`, `records` and `refusal`.
        staging: stages objects from this process.

    Raises:
        StoreError: the store refused the object.
    """
    name = None
    if part["file"] is not None:
        file = Path(part["file"])
        try:
            name = staging.put(file)
        finally:
            file.unlink(missing_ok=True)
    return {"name": name, "content": part["content"], "records": part["records"], "refusal": part["refusal"]}
