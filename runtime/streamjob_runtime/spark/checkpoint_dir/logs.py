"""Parses Spark's offset log, commit log and operator metadata.

`offsets/<batch>` has the plan of a batch, and is written before it runs. `commits/<batch>` says that it ran, and names
the version of the state that it wrote. Both consist of a line with the format's version and a line of JSON; the offset
log adds a line per source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import (
    CheckpointFileMissing,
    NotCommitted,
    UnreadableCheckpointFile,
)
from streamjob_runtime.spark.checkpoint_dir.text_files import json_object

PARTITIONS = "spark.sql.shuffle.partitions"
"""The setting that a checkpoint fixes: the number of partitions of its state."""
VOID_OFFSET = "-"
"""The offset log's entry for a source that has delivered nothing yet."""


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """The plan of a batch.

    Args:
        version: `v1` (a line per source, by position) or `v2` (by name).
        metadata: watermark and timestamp of the batch in ms since 1970, and the settings fixed by the checkpoint.
        sources: a line per source, as Spark wrote it.
    """

    version: str
    metadata: dict[str, Any]
    sources: tuple[str, ...]

    def offsets(self, directories: Sequence[int] | None = None) -> tuple[tuple[str, str], ...]:
        """Return each source's name (its directory below `sources/`) and its offset as JSON, or `-` for none.

        Args:
            directories: the directory of each line in `v1`; None if no source occurs twice in the query.
        """
        if self.version == "v2":
            return tuple((name, offset) for name, _, offset in (line.partition(":") for line in self.sources))
        numbers = range(len(self.sources)) if directories is None else directories
        return tuple((str(number), offset) for number, offset in zip(numbers, self.sources, strict=True))

    @property
    def partitions(self) -> int | None:
        """The number of state partitions that the checkpoint fixes, or None if it names none."""
        text = str((self.metadata.get("conf") or {}).get(PARTITIONS, ""))
        return int(text) if text.isdigit() else None

    def with_partitions(self, partitions: int) -> OffsetEntry:
        """Return the entry with another number of state partitions."""
        return replace(self, metadata={**self.metadata, "conf": {**self.metadata["conf"], PARTITIONS: str(partitions)}})

    def render(self) -> str:
        """Return the entry in Spark's form."""
        return "\n".join((self.version, json.dumps(self.metadata, separators=(",", ":")), *self.sources))


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """The result of a committed batch.

    Args:
        next_watermark_ms: the watermark of the next batch, in ms since 1970.
        state_ids: for each operator id and partition, the unique ids of its stores' versions; empty without state. None
            if the state has no such ids (state checkpoint format 1).
    """

    next_watermark_ms: int
    state_ids: dict[int, tuple[tuple[str, ...], ...]] | None


@dataclass(frozen=True, slots=True)
class OperatorMetadata:
    """Spark's metadata of a stateful operator.

    Args:
        files: the metadata's own file and the schema files that it names, relative to the checkpoint.
        stores: the names of its state stores; `default` is in the partition's directory itself.
        name: Spark's name for it.
        partitions: the number of partitions of its state.
        prefixes: by store, the number of columns of the key by which it looks for rows; 0 for whole keys.
    """

    files: tuple[str, ...]
    stores: tuple[str, ...]
    name: str
    partitions: int = 0
    prefixes: Mapping[str, int] = field(default_factory=dict)


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
    """Return the plan of `batch`.

    Raises:
        CheckpointFileMissing: the offset log has no such entry.
        UnreadableCheckpointFile: the entry does not have the format of Spark 4.3.
    """
    path = f"offsets/{batch}"
    return parse_offsets(_text(checkpoint, path, batch), checkpoint / path)


def parse_offsets(text: str, file: Path) -> OffsetEntry:
    """Return the plan of a batch from its text.

    Args:
        text: the entry in the offset log.
        file: its place, for errors.

    Raises:
        UnreadableCheckpointFile: it does not have the format of Spark 4.3.
    """
    lines = text.split("\n")
    if lines[0] not in ("v1", "v2") or len(lines) < 2:
        raise UnreadableCheckpointFile(file, f"unknown version {lines[0]!r}")
    return OffsetEntry(lines[0], json_object(file, lines[1]), tuple(lines[2:]))


def read_commit(checkpoint: Path, batch: BatchId) -> CommitEntry:
    """Return the result of `batch`.

    Raises:
        NotCommitted: the batch has no entry in the commit log.
        UnreadableCheckpointFile: the entry does not have the format of Spark 4.3.
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
    """Return Spark's metadata of a stateful operator as of `batch`.

    Raises:
        CheckpointFileMissing: the operator has no metadata.
        UnreadableCheckpointFile: the metadata does not have the format of Spark 4.3.
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
        partitions=max((int(info.get("numPartitions", 0)) for info in infos), default=0),
        prefixes={info["storeName"]: int(info.get("numColsPrefixKey", 0)) for info in infos},
    )


def _relative_schema(file: Path, schema: str) -> str:
    """Schema paths are absolute, with the directory that once contained the checkpoint."""
    head, separator, tail = schema.rpartition("/_stateSchema/")
    operator = head.rpartition("/")[2]
    if not separator or not operator.isdigit():
        raise UnreadableCheckpointFile(file, f"it names the schema file {schema!r}")
    return f"state/{operator}/_stateSchema/{tail}"


def _lines(checkpoint: Path, path: str, batch: BatchId) -> list[str]:
    return _text(checkpoint, path, batch).split("\n")


def _text(checkpoint: Path, path: str, batch: BatchId) -> str:
    try:
        return (checkpoint / path).read_text("utf-8")
    except FileNotFoundError:
        raise CheckpointFileMissing(checkpoint, path, batch) from None
