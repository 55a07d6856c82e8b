"""Downloads the files of a plain query's checkpoint that a restart at the last committed batch needs.

The checkpoint is only read. State of checkpoint format 1, Spark's default, has no ids in its names: a version consists
of the last snapshot, with RocksDB a zip and the files listed in it, and of the changes since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from streamjob.ids import BatchId, Key
from streamjob.store.base import Store
from streamjob_runtime.restoring.from_spark.errors import IncompleteCheckpoint
from streamjob_runtime.spark.checkpoint_dir.lineage import snapshot_files

_THREADS = 8
_LOG = re.compile(r"(offsets|commits)/(\d+)")
_SNAPSHOTS = (".zip", ".snapshot")
_CHANGES = (".changelog", ".delta")
"""The names of files of RocksDB and of Spark's default provider; HDFS-backed."""
_DESCRIPTION = re.compile(r"state/\d+/(?:_metadata|_stateSchema)/.+|state/\d+/\d+/(?:[^/]+/)?_metadata/schema")


class Listing:
    """The files of a checkpoint."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = frozenset(
            key for key in keys if not any(part.startswith(".") for part in key.split("/")) and not key.endswith(".crc")
        )

    def batches(self, log: str) -> list[int]:
        """Return the batches with an entry in `offsets` or `commits`, ascending."""
        matches = (_LOG.fullmatch(key) for key in self.keys)
        return sorted(int(match[2]) for match in matches if match is not None and match[1] == log)

    def logs(self, batch: BatchId) -> list[str]:
        """Return the logs of a batch and of the previous one, the sources' files, and descriptions of state."""
        wanted = {"metadata", *(f"{log}/{each}" for log in ("offsets", "commits") for each in (batch - 1, batch))}
        return sorted(
            key for key in self.keys if key in wanted or key.startswith("sources/") or _DESCRIPTION.fullmatch(key)
        )

    def version(self, store: str, version: int, uri: str) -> list[str]:
        """Return the files of a version of a store without ids, newest first: changes, and the snapshot before them.

        Args:
            store: its directory.
            uri: the checkpoint's name in messages.

        Raises:
            IncompleteCheckpoint: the checkpoint lacks one of them.
        """
        files = []
        for number in range(version, 0, -1):
            stem = f"{store}/{number}"
            there = [stem + kind for kind in (*_SNAPSHOTS, *_CHANGES) if stem + kind in self.keys]
            if not there:
                raise _incomplete(uri, f"{stem}.zip, .snapshot, .changelog or .delta")
            files.append(there[0])
            if there[0].endswith(_SNAPSHOTS):
                break
        return files

    def partitions(self, operator: int) -> int:
        """Return the number of partitions of which an operator has state."""
        prefix = f"state/{operator}/"
        there = {key.removeprefix(prefix).partition("/")[0] for key in self.keys if key.startswith(prefix)}
        return sum(each.isdigit() for each in there)

    def state(self) -> list[str]:
        """Return all state files."""
        return sorted(key for key in self.keys if key.startswith("state/"))


def _incomplete(uri: str, missing: str) -> IncompleteCheckpoint:
    return IncompleteCheckpoint(
        f"The checkpoint at {uri} is incomplete: there is no {missing}",
        "copy it again as a whole, with the query stopped",
    )


class Fetching:
    """Downloads files of a checkpoint.

    Args:
        store: the store, at the checkpoint's root.
        target: the local directory.
        uri: the checkpoint's name in messages.
        tables: False to create empty files in place of RocksDB's tables, which contain the state and no description of
            it.
    """

    def __init__(self, store: Store, listing: Listing, target: Path, uri: str, *, tables: bool) -> None:
        self._store = store
        self._listing = listing
        self._target = target
        self._uri = uri
        self._tables = tables

    def fetch(self, keys: Sequence[str]) -> None:
        """Download some files.

        Raises:
            IncompleteCheckpoint: the checkpoint lacks one of them.
            StoreError: the store failed.
        """
        for key in keys:
            if key not in self._listing.keys:
                raise _incomplete(self._uri, key)
        for folder in {(self._target / key).parent for key in keys}:
            folder.mkdir(parents=True, exist_ok=True)
        missing = [key for key in keys if not (self._target / key).exists()]
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="take-over") as pool:
            for done in [pool.submit(self._bring, key) for key in missing]:
                done.result()

    def fetch_snapshots(self, zips: Sequence[str]) -> None:
        """Download zips and the files listed in them.

        Raises:
            UnreadableCheckpointFile: a zip cannot be read.
            IncompleteCheckpoint: the checkpoint lacks one of the files.
            StoreError: the store failed.
        """
        self.fetch(zips)
        listed = [f"{key.rpartition('/')[0]}/{file}" for key in zips for file in snapshot_files(self._target / key)]
        self.fetch(sorted(set(listed)))

    def _bring(self, key: str) -> None:
        if self._tables or not key.endswith(".sst"):
            self._store.download(Key(key), self._target / key)
        else:
            (self._target / key).touch()
