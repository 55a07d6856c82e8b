"""Decides which objects that a source has read may go: those that each retained checkpoint has read as well.

A job may restart from any checkpoint that its log retains. From an older one it reads what that had not read, so an
object goes only after the oldest retained one has it. A fork gives the entries of a source's log other files under the
same numbers, and begins an epoch; so checkpoints of earlier epochs say nothing, and nothing goes while one is retained.

A savepoint that the log still names is behind the oldest retained checkpoint, and so has at least what that has. Of
older ones the job knows nothing, as they belong to their users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streamjob.ids import CheckpointId, OperatorUid
from streamjob.snapshot.manifest import Manifest
from streamjob_runtime.spark.checkpoint_dir.file_entries import last_read


class Covered:
    """What all retained checkpoints of one epoch have read."""

    def __init__(self) -> None:
        self._read: dict[CheckpointId, dict[OperatorUid, int]] = {}

    def completed(self, manifest: Manifest, retained: Collection[CheckpointId]) -> Mapping[OperatorUid, int]:
        """Return the last entry of each source that all retained checkpoints have read.

        It is empty while a checkpoint of an earlier epoch is retained.

        Args:
            manifest: a checkpoint or savepoint of this epoch that the log names.
            retained: the checkpoints that the log retains.
        """
        now = read_by(manifest)
        self._read[manifest.id] = now
        self._read = {each: read for each, read in self._read.items() if each in retained}
        if not retained or len(self._read) < len(retained):
            return {}
        return {uid: min(read.get(uid, -1) for read in self._read.values()) for uid in now}


def read_by(manifest: Manifest) -> dict[OperatorUid, int]:
    """Return the last entry of each source that a checkpoint has read."""
    return {each.uid: entry for each in manifest.sources if (entry := last_read(each.position)) is not None}
