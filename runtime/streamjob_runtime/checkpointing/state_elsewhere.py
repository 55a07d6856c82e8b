"""The requests of a checkpoint to other processes that have the files of a cut, each on its own disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.protocol.segment_places import SegmentNames
from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.checkpointing.upload.uploader import Progress, Target
from streamjob_runtime.spark.checkpoint_dir.files import StoreVersion

Kept = Mapping[str, SegmentNames]
"""The segments in flight that are held for a checkpoint, by process."""


class StateElsewhere(Protocol):
    """The processes that have the state and the segments of channels."""

    def keep(self, checkpoint: CheckpointId, chain: ChainUid, segments: SegmentNames, progress: Progress) -> Kept:
        """Let the owners hold the segments in flight of a cut; return them when they do.

        Args:
            chain: the chain that stores them.
        """
        ...

    def store(
        self,
        checkpoint: CheckpointId,
        chain: ChainUid,
        batch: BatchId,
        stores: Sequence[StoreVersion],
        kept: Kept,
        target: Target,
        progress: Progress,
    ) -> Callable[[], tuple[FileRef, ...]]:
        """Ask the owners to hold and upload the files of a cut; return a function that waits for the files.

        Args:
            batch: the batch of the cut.
            kept: the segments in flight.
        """
        ...

    def complete(self, checkpoint: CheckpointId) -> None:
        """Ask the owners to hold the files of a completed checkpoint, and none of earlier ones."""
        ...

    def abort(self, checkpoint: CheckpointId) -> None:
        """Ask the owners to drop the files that they hold for a checkpoint."""
        ...
