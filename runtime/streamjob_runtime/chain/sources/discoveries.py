"""The searches for the files of a chain's sources in buckets, from the start of its query to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.clock import Clock
from streamjob.ids import NO_BATCH, BatchId, OperatorUid
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles
from streamjob_runtime.spark.checkpoint_dir.logs import VOID_OFFSET, read_offsets

if TYPE_CHECKING:
    from streamjob_runtime.discovery.discoverer import Discoverer


class Discoveries:
    """The searches of one chain; it does nothing if no source of the chain is in a bucket.

    Args:
        discovered: the files of the sources in buckets.
        sources: the uids of all sources, in the order of Spark's positions.
        directories: Spark's numbers of their directories below `sources/`.
    """

    def __init__(
        self,
        discovered: Mapping[OperatorUid, DiscoveredFiles],
        sources: Sequence[OperatorUid],
        directories: Sequence[int],
        checkpoint: Path,
    ) -> None:
        self._directories = directories
        self._checkpoint = checkpoint
        # A union reads a source twice by one directory; a join of a source with itself has two.
        self._readings = [
            (number, uid, discovered[uid], checkpoint / "sources" / str(directory))
            for number, (uid, directory) in enumerate(zip(sources, directories, strict=True))
            if uid in discovered and directory not in directories[:number]
        ]
        self._searches: list[tuple[OperatorUid, Discoverer]] = []

    def start(self, batch: BatchId, clock: Clock) -> None:
        """Begin to look for files.

        Args:
            batch: the batch behind which the chain begins.
            clock: seconds since 1970.
        """
        if not self._readings:
            return
        lines = self._offsets(batch)
        for number, uid, files, folder in self._readings:
            search = files.discoverer(folder, lines[number], clock)
            self._searches.append((uid, search))
            search.start()

    def stop(self) -> None:
        """Look for no more files."""
        for _, search in self._searches:
            search.stop()

    @property
    def checks(self) -> Sequence[int]:
        """How many checks of each search have ended."""
        return [search.checks for _, search in self._searches]

    @property
    def are_read(self) -> bool:
        """Whether they look for no more files, and batches have taken all of them."""
        return all(search.is_read for _, search in self._searches)

    def covered(self, entries: Mapping[OperatorUid, int], completed: Mapping[OperatorUid, int]) -> None:
        """Note the last entries that all retained checkpoints have read, and the newest one; returns at once."""
        for uid, search in tuple(self._searches):
            search.covered(entries.get(uid, -1), completed.get(uid, -1))

    def check_read(self, batch: BatchId, previous: BatchId, stopped: Callable[[], bool]) -> None:
        """Refuse a batch that has read an object which was replaced meanwhile.

        Args:
            stopped: whether the answer does not matter any more.

        Raises:
            ObjectReplaced: it has read one.
            StoreError: S3 refuses, or does not answer.
        """
        if not self._readings:
            return
        before, now = self._offsets(previous), self._offsets(batch)
        for (number, _, files, folder), (_, search) in zip(self._readings, self._searches, strict=True):
            if before[number] != now[number]:
                search.was_read(files.check_read(folder, before[number], now[number], stopped))

    def _offsets(self, batch: BatchId) -> Sequence[str]:
        """Return the sources' lines in the offset log of a batch."""
        if batch == NO_BATCH:
            return [VOID_OFFSET] * len(self._directories)
        return [offset for _, offset in read_offsets(self._checkpoint, batch).offsets(self._directories)]
