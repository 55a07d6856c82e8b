"""Finds exactly those files of Spark's checkpoint directory that a restart at a batch needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import CheckpointFileMissing, UnsupportedStateFormat
from streamjob_runtime.spark.checkpoint_dir.lineage import store_files
from streamjob_runtime.spark.checkpoint_dir.logs import (
    read_commit,
    read_offsets,
    read_operator_metadata,
)
from streamjob_runtime.spark.checkpoint_dir.sources import source_files


@dataclass(frozen=True, slots=True)
class StoreVersion:
    """The version of a state store in a cut.

    Args:
        path: the store's directory, relative to the checkpoint directory.
        ids: the unique ids of all stores of its partition; one of them is the store's.
    """

    path: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CutFiles:
    """The files of a cut, relative to the checkpoint directory.

    Args:
        batch: the committed batch of the cut.
        unique: state files; their names contain unique ids, so a name always has the same content.
        per_checkpoint: logs, metadata and schemas; another attempt may write different content under the same name.
        elsewhere: state stores whose files other processes have.
    """

    batch: BatchId
    unique: tuple[str, ...]
    per_checkpoint: tuple[str, ...]
    elsewhere: tuple[StoreVersion, ...] = ()

    def __iter__(self) -> Iterator[str]:
        yield from self.per_checkpoint
        yield from self.unique

    def __len__(self) -> int:
        return len(self.unique) + len(self.per_checkpoint)


def files_for(
    checkpoint: Path, batch: BatchId, directories: Sequence[int] | None = None, *, state_elsewhere: bool = False
) -> CutFiles:
    """Return the files that a restart at the committed `batch` needs.

    Args:
        checkpoint: Spark's checkpoint directory of a chain; its query may be running.
        batch: the last batch that the restart remembers.
        directories: see `OffsetEntry.offsets`.
        state_elsewhere: whether other processes have the files of state.

    Raises:
        NotCommitted: Spark has not committed the batch, or has deleted its commit.
        CheckpointFileMissing: a file is missing, perhaps because Spark has just deleted it; list again.
        UnsupportedStateFormat: the state was not written in checkpoint format 2.
        UnreadableCheckpointFile: a file does not have the format of Spark 4.3.
    """
    commit = read_commit(checkpoint, batch)
    state_ids = commit.state_ids
    if state_ids is None:
        if (checkpoint / "state").exists():
            raise UnsupportedStateFormat(checkpoint, "is not in checkpoint format 2")
        state_ids = {}
    logs = list(_log_files(checkpoint, batch))
    try:
        logs += source_files(checkpoint, read_offsets(checkpoint, batch), directories)
    except FileNotFoundError as error:
        raise CheckpointFileMissing(checkpoint, f"sources/*: {error}", batch) from None
    stores: list[StoreVersion] = []
    for operator, partitions in state_ids.items():
        metadata = read_operator_metadata(checkpoint, operator, batch)
        logs += metadata.files
        for partition, ids in enumerate(partitions):
            for name in metadata.stores:
                path = f"state/{operator}/{partition}" + ("" if name == "default" else f"/{name}")
                stores.append(StoreVersion(path, ids))
                if (checkpoint / path / "_metadata" / "schema").exists():
                    logs.append(f"{path}/_metadata/schema")
    return CutFiles(
        batch,
        unique=() if state_elsewhere else state_files(checkpoint, batch, stores),
        per_checkpoint=tuple(dict.fromkeys(logs)),
        elsewhere=tuple(stores) if state_elsewhere else (),
    )


def state_files(checkpoint: Path, batch: BatchId, stores: Iterable[StoreVersion]) -> tuple[str, ...]:
    """Return the files of state stores that a restart at the committed `batch` needs.

    Args:
        checkpoint: Spark's checkpoint directory of a chain.
        batch: the last batch that the restart remembers.

    Raises:
        CheckpointFileMissing: a file is missing, perhaps because Spark has just deleted it; list again.
        UnreadableCheckpointFile: a file does not have the format of Spark 4.3.
    """
    return tuple(
        file
        for store in stores
        for file in _store_files(checkpoint, store.path, batch, _unique_id(checkpoint, store, batch))
    )


def is_uniquely_named(path: str) -> bool:
    """Return whether a file of a cut is a state file, whose name always has the same content."""
    parts = path.split("/")
    return parts[0] == "state" and not {"_metadata", "_stateSchema"} & set(parts)


def _log_files(checkpoint: Path, batch: BatchId) -> Iterator[str]:
    """On start, Spark reads the last batch's entries and the offsets of the one before."""
    if not (checkpoint / "metadata").exists():
        raise CheckpointFileMissing(checkpoint, "metadata", batch)
    yield "metadata"
    if batch > 0:
        if not (checkpoint / f"offsets/{batch - 1}").exists():
            raise CheckpointFileMissing(checkpoint, f"offsets/{batch - 1}", batch)
        yield f"offsets/{batch - 1}"
        if (checkpoint / f"commits/{batch - 1}").exists():
            yield f"commits/{batch - 1}"
    yield f"offsets/{batch}"
    yield f"commits/{batch}"


def _unique_id(checkpoint: Path, store: StoreVersion, batch: BatchId) -> str:
    """Return a store's own unique id: the commit log does not tell which id belongs to which store."""
    folder = checkpoint / store.path
    matches = [unique_id for unique_id in dict.fromkeys(store.ids) if _has_version(folder, batch, unique_id)]
    if len(matches) != 1:
        raise CheckpointFileMissing(checkpoint, f"{store.path}/{batch + 1}_{'|'.join(store.ids)}.changelog", batch)
    return matches[0]


def _has_version(store: Path, batch: BatchId, unique_id: str) -> bool:
    stem = f"{batch + 1}_{unique_id}"
    return (store / f"{stem}.changelog").exists() or (store / f"{stem}.zip").exists()


def _store_files(checkpoint: Path, store: str, batch: BatchId, unique_id: str) -> Iterator[str]:
    try:
        for file in store_files(checkpoint / store, batch + 1, unique_id):
            yield f"{store}/{file}"
    except FileNotFoundError as error:
        missing = Path(error.filename or error.args[0]).relative_to(checkpoint)
        raise CheckpointFileMissing(checkpoint, missing.as_posix(), batch) from None
