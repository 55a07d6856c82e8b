"""Spark's offset log, commit log and operator metadata, as values.

`offsets/<batch>` says what a batch is to read, and is written before it runs; `commits/<batch>` says that it ran, and
names the version of the state that it left. Both are a line with the format's version, a line of JSON, and in the
offset log a line per source.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import (
    CheckpointFileMissing,
    NotCommitted,
    UnreadableCheckpointFile,
)
from streamjob_runtime.spark.checkpoint_dir.text_files import json_object

VOID_OFFSET = "-"
"""What the offset log holds for a source that has delivered nothing yet."""


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """What a batch is to read.

    Args:
        version: `v1` (a line per source, by position) or `v2` (by name).
        metadata: watermark and timestamp of the batch in ms since 1970, and the settings fixed in the checkpoint.
        sources: a line per source, as Spark wrote it.
    """

    version: str
    metadata: dict[str, Any]
    sources: tuple[str, ...]

    def offsets(self, directories: Sequence[int] | None = None) -> tuple[tuple[str, str], ...]:
        """Return each source's name (its directory below `sources/`) and the JSON of its offset, or `-` for none.

        Args:
            directories: the directory of each line in `v1`; None if no source stands in the query twice.
        """
        if self.version == "v2":
            return tuple((name, offset) for name, _, offset in (line.partition(":") for line in self.sources))
        numbers = range(len(self.sources)) if directories is None else directories
        return tuple((str(number), offset) for number, offset in zip(numbers, self.sources, strict=True))

    def render(self) -> str:
        """Return the entry in the form that Spark reads."""
        return "\n".join((self.version, json.dumps(self.metadata, separators=(",", ":")), *self.sources))


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """What a committed batch left behind.

    Args:
        next_watermark_ms: the watermark of the next batch, in ms since 1970.
        state_ids: per operator id and partition, the unique ids of its stores' versions; empty without state; None if
            the state has no such ids (state checkpoint format 1).
    """

    next_watermark_ms: int
    state_ids: dict[int, tuple[tuple[str, ...], ...]] | None


@dataclass(frozen=True, slots=True)
class OperatorMetadata:
    """What Spark says of a stateful operator.

    Args:
        files: the metadata's own file and the schema files that it names, relative to the checkpoint.
        stores: the names of its state stores; `default` lies in the partition's directory itself.
        name: what Spark calls it.
    """

    files: tuple[str, ...]
    stores: tuple[str, ...]
    name: str


def batches(log: Path) -> tuple[BatchId, ...]:
    """Return the batches that have an entry in a log directory, ascending; none if the directory is missing."""
    try:
        return tuple(sorted(BatchId(int(entry.name)) for entry in log.iterdir() if entry.name.isdigit()))
    except FileNotFoundError:
        return ()


def last_committed(checkpoint: Path) -> BatchId | None:
    """Return the last batch that Spark has committed, or None."""
    return max(batches(checkpoint / "commits"), default=None)


def read_offsets(checkpoint: Path, batch: BatchId) -> OffsetEntry:
    """Return what `batch` was to read.

    Raises:
        CheckpointFileMissing: the offset log has no such entry.
        UnreadableCheckpointFile: the entry is not one that Spark 4.3 writes.
    """
    path = f"offsets/{batch}"
    lines = _lines(checkpoint, path, batch)
    if lines[0] not in ("v1", "v2") or len(lines) < 2:
        raise UnreadableCheckpointFile(checkpoint / path, f"unknown version {lines[0]!r}")
    return OffsetEntry(lines[0], json_object(checkpoint / path, lines[1]), tuple(lines[2:]))


def read_commit(checkpoint: Path, batch: BatchId) -> CommitEntry:
    """Return what `batch` left behind.

    Raises:
        NotCommitted: the batch has no entry in the commit log.
        UnreadableCheckpointFile: the entry is not one that Spark 4.3 writes.
    """
    path = f"commits/{batch}"
    try:
        lines = _lines(checkpoint, path, batch)
    except CheckpointFileMissing:
        raise NotCommitted(checkpoint, batch) from None
    if lines[0] not in ("v1", "v2") or len(lines) < 2:
        raise UnreadableCheckpointFile(checkpoint / path, f"unknown version {lines[0]!r}")
    entry = json_object(checkpoint / path, lines[1])
    ids = entry.get("stateUniqueIds")
    if ids is None and lines[0] == "v2":
        ids = {}
    return CommitEntry(
        next_watermark_ms=int(entry.get("nextBatchWatermarkMs", 0)),
        state_ids=None if ids is None else {int(op): tuple(map(tuple, parts)) for op, parts in ids.items()},
    )


def read_operator_metadata(checkpoint: Path, operator: int, batch: BatchId) -> OperatorMetadata:
    """Return what Spark says of a stateful operator as of `batch`.

    Raises:
        CheckpointFileMissing: there is no metadata of the operator.
        UnreadableCheckpointFile: the metadata is not of a form that Spark 4.3 writes.
    """
    folder = f"state/{operator}/_metadata"
    newest = max((b for b in batches(checkpoint / folder / "v2") if b <= batch), default=None)
    path = f"{folder}/metadata" if newest is None else f"{folder}/v2/{newest}"
    lines = _lines(checkpoint, path, batch)
    if len(lines) < 2:
        raise UnreadableCheckpointFile(checkpoint / path, "it has no content")
    metadata = json_object(checkpoint / path, lines[1])
    infos = metadata.get("stateStoreInfo", [])
    schemas = (schema for info in infos for schema in info.get("stateSchemaFilePaths") or ())
    return OperatorMetadata(
        files=(path, *dict.fromkeys(_relative_schema(checkpoint / path, schema) for schema in schemas)),
        stores=tuple(dict.fromkeys(info["storeName"] for info in infos)),
        name=str(metadata.get("operatorInfo", {}).get("operatorName", "")),
    )


def _relative_schema(file: Path, schema: str) -> str:
    """Schema paths are absolute, of the directory that the checkpoint once lay in."""
    head, separator, tail = schema.rpartition("/_stateSchema/")
    operator = head.rpartition("/")[2]
    if not separator or not operator.isdigit():
        raise UnreadableCheckpointFile(file, f"it names the schema file {schema!r}")
    return f"state/{operator}/_stateSchema/{tail}"


def _lines(checkpoint: Path, path: str, batch: BatchId) -> list[str]:
    try:
        return (checkpoint / path).read_text("utf-8").split("\n")
    except FileNotFoundError:
        raise CheckpointFileMissing(checkpoint, path, batch) from None
