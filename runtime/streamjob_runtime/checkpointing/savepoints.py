"""A savepoint while it is written: a directory of its own, with copies of all files, that a user may move elsewhere."""

from __future__ import annotations

from streamjob.ids import CheckpointId, Key
from streamjob.protocol.stored_manifests import MANIFEST_NAME, encode_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.store.opening import Location, open_location
from streamjob.stored.deletion import discard_savepoint
from streamjob_runtime.checkpointing.upload.uploader import Target, Uploader


class Savepoint:
    """The place of one savepoint.

    Args:
        directory: nothing else is there, nor comes there.
        root: the absolute URI of the job's root, with a slash at its end.

    Raises:
        InvalidInput: the settings of its store cannot be used.
    """

    def __init__(self, directory: Location, root: str) -> None:
        self._store = directory.store()
        self._uploader = Uploader(self._store)
        self.uri = directory.uri + MANIFEST_NAME
        self.reference = self.uri.removeprefix(root)
        """How the log names it: by a key if it is below the job's root."""

    @property
    def target(self) -> Target:
        """Where its files go: all of them, for it refers to none of any other snapshot."""
        return Target(uploader=self._uploader, known={}, key_of=keys.savepoint_file)

    def write(self, manifest: Manifest) -> None:
        """Write the manifest; all files are there. Raises StoreError."""
        self._store.put(Key(MANIFEST_NAME), encode_manifest(manifest))

    def discard(self) -> None:
        """Delete what was written; nothing writes any more. Raises StoreError if something may be left."""
        discard_savepoint(self._store)

    def close(self) -> None:
        """Wait for running uploads to end, and release the store."""
        self._uploader.close()
        self._store.close()


def savepoint_location(root: str, location: str | None, job: str, checkpoint: CheckpointId, suffix: str) -> Location:
    """Return the directory of a new savepoint.

    Args:
        root: the absolute URI of the job's root, with a slash at its end.
        location: a directory for savepoints: a URI or path; None for the job's own.
        job: the job's name.
        checkpoint: the savepoint's id.
        suffix: random.

    Raises:
        InvalidInput: the location names no place.
    """
    parent = Location(root + keys.SAVEPOINTS_PREFIX) if location is None else open_location(location)
    return parent.below(keys.savepoint_prefix(job, checkpoint, suffix))
