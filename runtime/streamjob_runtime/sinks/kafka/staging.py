"""Stages the parts of a batch that tasks have written: each large one by itself, small ones together.

On executors, a task stages its large part. That takes a Python worker for each task, even if its part is small. Where
the tasks run in the driver's Java, the driver stages all parts, which is faster for small batches.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.sink import Puts, StagedRowsGone, Staging, TaskStaging
from streamjob.store.base import StoreError
from streamjob_runtime.sinks.kafka.topics import TopicUse, uses

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Part = dict[str, Any]
"""A part of a batch: `file` or `content`, or its object's `name`; `records`, `topics`, and why a row is refused."""

_UPLOADS = 4
_RESULT = "name string, content binary, records long, topics string, refusal string"


@dataclass(frozen=True, slots=True)
class StagedParts:
    """The staged rows of a batch.

    Args:
        names: the objects, in the order of the tasks.
        rows: the number of rows.
        topics: what the rows need of each topic, with its name.
        refusal: why a row is refused; None if none is.
    """

    names: tuple[str, ...]
    rows: int
    topics: Mapping[str, TopicUse]
    refusal: str | None


def stage_parts(parts: DataFrame, staging: Staging) -> StagedParts:
    """Compute a batch in one Spark action, whose tasks stage large parts.

    Args:
        parts: the frame that `Kafka.parts` returns.
        staging: the sink's staging.

    Raises:
        StoreError: the store refused an object.
    """
    results = parts.mapInArrow(_putting(staging.in_tasks()), _RESULT).collect()
    return _staged([row.asDict() for row in results], staging)


def stage_parts_here(write: Callable[[Path], DataFrame], staging: Staging) -> StagedParts:
    """Compute a batch in one Spark action, whose tasks run in this process's Java, and stage its parts behind it.

    Args:
        write: returns the frame of `Kafka.parts` for a directory.
        staging: the sink's staging.

    Raises:
        StoreError: the store refused an object.
    """
    directory = staging.scratch / f"parts-{uuid.uuid4().hex}"
    directory.mkdir()
    try:
        parts = [row.asDict() for row in write(directory).collect()]
        with ThreadPoolExecutor(_UPLOADS, thread_name_prefix="stage") as pool:
            return _staged(list(pool.map(lambda part: put_part(part, staging), parts)), staging)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class ComputedParts:
    """The rows of a batch in local files, in the order of the tasks; `parts` has no names."""

    parts: StagedParts
    files: tuple[Path, ...]


@contextmanager
def parts_here(
    write: Callable[[Path | None], DataFrame], staging: Staging, *, on_executors: bool
) -> Iterator[ComputedParts]:
    """Compute a batch in one Spark action, and yield its parts in files of this machine, until the context ends.

    Args:
        write: returns the frame of `Kafka.parts` for a directory, or for none.
        staging: the sink's staging.
        on_executors: whether tasks run there, so that large parts come by way of the store.

    Raises:
        StoreError: the store refused an object.
    """
    directory = staging.scratch / f"parts-{uuid.uuid4().hex}"
    directory.mkdir()
    names: list[str] = []
    try:
        if not on_executors:
            parts = [row.asDict() for row in write(directory).collect()]
        else:
            results = write(None).mapInArrow(_putting(staging.in_tasks()), _RESULT).collect()
            parts = [{**row.asDict(), "file": None} for row in results]
            names = [part["name"] for part in parts if part["name"] is not None]
        refusal = next((part["refusal"] for part in parts if part["refusal"] is not None), None)
        files = () if refusal is not None else tuple(_file(part, directory, staging) for part in parts)
        found = StagedParts((), sum(part["records"] for part in parts), uses(part["topics"] for part in parts), refusal)
        yield ComputedParts(found, files)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        with suppress(StoreError):
            staging.delete(names)


def _file(part: Part, directory: Path, staging: Staging) -> Path:
    if part["file"] is not None:
        return Path(part["file"])
    file = directory / uuid.uuid4().hex
    if part["content"] is not None:
        file.write_bytes(part["content"])
    elif not staging.fetch(part["name"], file):
        raise StagedRowsGone(f"the store lost the rows {part['name']} that a task has just staged")
    return file


def _staged(parts: Sequence[Part], staging: Staging) -> StagedParts:
    refusal = next((part["refusal"] for part in parts if part["refusal"] is not None), None)
    if refusal is not None:
        return StagedParts(tuple(part["name"] for part in parts if part["name"] is not None), 0, {}, refusal)
    names = [staging.put(each) if isinstance(each, bytes) else each for each in joined(parts)]
    used = uses(part["topics"] for part in parts)
    return StagedParts(tuple(names), sum(part["records"] for part in parts), used, None)


def joined(parts: Iterable[Part]) -> Iterator[str | bytes]:
    """Yield the names of staged parts, and the contents of the others, of which neighbours are joined.

    Args:
        parts: those with `name` or `content`, in the order of the tasks, which is that of the records of a key.
    """
    small: list[bytes] = []
    for part in parts:
        if part["name"] is None:
            small.append(bytes(part["content"]))
            continue
        if small:
            yield b"".join(small)
            small = []
        yield part["name"]
    if small:
        yield b"".join(small)


def _putting(staging: TaskStaging) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def put(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Importing it takes a quarter of a second and 50 MB, which only the tasks on executors need.
        import pyarrow as pa

        texts = {"topics": pa.string(), "refusal": pa.string()}
        schema = pa.schema({"name": pa.string(), "content": pa.binary(), "records": pa.int64(), **texts})
        for batch in batches:
            yield pa.RecordBatch.from_pylist([put_part(part, staging) for part in batch.to_pylist()], schema=schema)

    return put


def put_part(part: Part, staging: Puts) -> Part:
    """Stage the file of a part, if it has one, and delete the file; return the part with the object's name instead.

    Args:
        part: `file`, `content`, `records`, `topics` and `refusal`.
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
    return {"name": name, **{field: part[field] for field in ("content", "records", "topics", "refusal")}}
