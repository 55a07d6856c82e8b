"""What a checkpoint asks for if other processes have the files of state, each on its own disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.checkpointing.upload.uploader import Progress, Target
from streamjob_runtime.spark.checkpoint_dir.files import StoreVersion


class StateElsewhere(Protocol):
    """The processes that have the state."""

    def store(
        self,
        checkpoint: CheckpointId,
        chain: ChainUid,
        batch: BatchId,
        stores: Sequence[StoreVersion],
        target: Target,
        progress: Progress,
    ) -> Callable[[], tuple[FileRef, ...]]:
        """Let the owners hold and upload state stores of a cut; return a function that waits for the files.

        Args:
            checkpoint: the checkpoint.
            chain: the chain.
            batch: the batch of the cut.
            stores: the stores.
            target: the destination of the files.
            progress: reports progress, and cancels.
        """
        ...

    def complete(self, checkpoint: CheckpointId) -> None:
        """Let the owners hold the files of a completed checkpoint, and none of earlier ones."""
        ...

    def abort(self, checkpoint: CheckpointId) -> None:
        """Let the owners drop the files that they hold for a checkpoint."""
        ...
