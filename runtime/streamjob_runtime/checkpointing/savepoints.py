"""Writes a savepoint: a separate directory with copies of all files, which a user may move elsewhere."""

from __future__ import annotations

from streamjob.ids import CheckpointId, Key
from streamjob.protocol.manifests.stored_manifests import MANIFEST_NAME, encode_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.store.opening import Location, open_location
from streamjob.stored.deletion import discard_savepoint
from streamjob_runtime.checkpointing.upload.uploader import Target, Uploader


class Savepoint:
    """The place of one savepoint.

    Args:
        directory: its directory, for its files only.
        root: the absolute URI of the job's root, with a slash at its end.

    Raises:
        InvalidInput: the settings of its store cannot be used.
    """

    def __init__(self, directory: Location, root: str) -> None:
        self._store = directory.store()
        self._uploader = Uploader(self._store)
        self.uri = directory.uri + MANIFEST_NAME
        self.reference = self.uri.removeprefix(root)
        """The log's reference: a key if it is below the job's root."""

    @property
    def target(self) -> Target:
        """The target of its files: all of them, since it shares none with other snapshots."""
        return Target(uploader=self._uploader, known={}, key_of=keys.savepoint_file)

    def write(self, manifest: Manifest) -> None:
        """Write the manifest; all files must be there. Raises StoreError."""
        self._store.put(Key(MANIFEST_NAME), encode_manifest(manifest))

    def discard(self) -> None:
        """Delete its files; all writers have ended. Raises StoreError if some may remain."""
        discard_savepoint(self._store)

    def close(self) -> None:
        """Wait for running uploads to end, and release the store."""
        self._uploader.close()
        self._store.close()


def savepoint_location(root: str, location: str | None, job: str, checkpoint: CheckpointId, suffix: str) -> Location:
    """Return the directory of a new savepoint.

    Args:
        root: the absolute URI of the job's root, with a slash at its end.
        location: a directory for savepoints, as URI or path; None for the job's own.
        suffix: random.

    Raises:
        InvalidInput: the location is invalid.
    """
    parent = Location(root + keys.SAVEPOINTS_PREFIX) if location is None else open_location(location)
    return parent.below(keys.savepoint_prefix(job, checkpoint, suffix))
