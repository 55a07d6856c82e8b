"""Records the commits that have begun, in the bucket: a missing upload is then known to be completed, not lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from streamjob.errors import CannotRestore
from streamjob.ids import CheckpointId, Key
from streamjob.store.base import Store, StoreError
from streamjob_runtime.sinks.bucket.layout import COMMITTED, record_key
from streamjob_runtime.sinks.files.commit_records import CommitRecord, commit_record, read_commit_record

_KEPT = 1000
_DELETED_AT_ONCE = 100


class CommitRecords:
    """An object for each checkpoint, created when all of its uploads are known to exist, before the first completion.

    The newest 1,000 or somewhat more are kept. Only the newest completion is committed again; the others serve a
    superseded process that wakes up, and a job that returns to a former location.

    Args:
        objects: the objects below the sink's path.
        clock: seconds since 1970.
    """

    def __init__(self, objects: Store, clock: Callable[[], float]) -> None:
        self._objects = objects
        self._clock = clock
        self._known: list[Key] | None = None
        """Oldest first; None until the first record, which lists the existing ones."""

    def covers(self, checkpoint: CheckpointId, batches: Sequence[str]) -> bool:
        """Return whether a commit of these batches has begun; all of their uploads existed then.

        Raises:
            UnreadableRecord: the record is damaged.
            StoreError: the bucket does not answer or refuses.
        """
        return any(
            set(batches) <= set(self._read(each.key).batches)
            for each in self._objects.list(COMMITTED)
            if is_record_of(each.key, checkpoint, batches[0])
        )

    def add(self, checkpoint: CheckpointId, batches: Sequence[str]) -> None:
        """Record that all uploads of these batches exist and are about to be completed. Raises StoreError."""
        if self._known is None:
            self._known = [each.key for each in self._objects.list(COMMITTED)]
        key = record_key(self._clock(), checkpoint, batches[0])
        self._objects.put(key, commit_record(checkpoint, batches))
        self._known.append(key)
        if len(self._known) >= _KEPT + _DELETED_AT_ONCE:
            with suppress(StoreError):
                self._objects.delete(self._known[:_DELETED_AT_ONCE])
                del self._known[:_DELETED_AT_ONCE]

    def newest(self) -> CheckpointId | None:
        """Return the checkpoint of the newest record; None if there is none.

        Raises:
            UnreadableRecord: the record is damaged.
            StoreError: the bucket does not answer or refuses.
        """
        keys = [each.key for each in self._objects.list(COMMITTED)]
        return self._read(keys[-1]).checkpoint if keys else None

    def problems(self) -> Iterator[CannotRestore]:
        """Yield an error for each damaged record. Raises StoreError."""
        for each in self._objects.list(COMMITTED):
            try:
                self._read(each.key)
            except CannotRestore as error:
                yield error

    def _read(self, key: Key) -> CommitRecord:
        return read_commit_record(self._objects.get(key), key, self._objects.uri)


def is_record_of(key: str, checkpoint: CheckpointId, first_batch: str) -> bool:
    """Return whether a key is that of a record of the commit."""
    return key.endswith(f"-{checkpoint}-{first_batch}")
