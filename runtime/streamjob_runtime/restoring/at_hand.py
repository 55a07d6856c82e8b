"""Keeps the files of a job's newest checkpoint on the local disk, for a process that may have to continue the job."""

from __future__ import annotations

import shutil
from pathlib import Path

from streamjob.ids import CheckpointId, LogSeq
from streamjob.protocol.log.records import JobId, read
from streamjob.protocol.manifests.stored_manifests import read_completed
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import Store
from streamjob.store.effects import drive
from streamjob.store.opening import References, open_location
from streamjob_runtime.restoring.download import download

_NEXT = "next"
_CURRENT = "current"
_FORMER = "former"


class FilesAtHand:
    """The files of a job's newest checkpoint, in a directory for each chain.

    It claims nothing, and deletes nothing in the store. A restore links those of the files that it needs as they are,
    and downloads the others.

    Args:
        store: the store at the job's root.
        directory: a directory of its own, on the file system of the job's work directory.
    """

    def __init__(self, store: Store, job: JobId, directory: Path) -> None:
        self._store = store
        self._job = job
        self._directory = directory
        self._references = References(store)
        self._seq: LogSeq | None = None
        self._manifest: str | None = None

    @property
    def directory(self) -> Path:
        """The directory with a directory of files for each chain; it exists once there is a checkpoint."""
        return self._directory / _CURRENT

    def refresh(self) -> CheckpointId | None:
        """Bring the files of the newest checkpoint; return its id if it is another one than before.

        Files that are there already are linked. In-flight data is left out: the next checkpoint has other data.

        Raises:
            CannotRestore: the log or the checkpoint is damaged, or was deleted meanwhile.
            StoreError: the store failed.
        """
        view = drive(self._store, read(self._job, checkpoints=1, hint=self._seq))
        newest = view.newest
        if newest is None or newest.manifest is None or newest.manifest == self._manifest:
            return None
        manifest = drive(self._store, read_completed(newest), find=self._references.find)
        coming = self._directory / _NEXT
        shutil.rmtree(coming, ignore_errors=True)
        self._download(manifest, newest.manifest, coming)
        former = self._directory / _FORMER
        if self.directory.exists():
            self.directory.rename(former)
        coming.rename(self.directory)
        shutil.rmtree(former, ignore_errors=True)
        self._seq, self._manifest = newest.seq, newest.manifest
        return manifest.id

    def close(self) -> None:
        """Close the connections; the files stay."""
        self._references.close()

    def _download(self, manifest: Manifest, reference: str, target: Path) -> None:
        savepoint = manifest.kind == "savepoint"
        whole = reference if "://" in reference else self._store.uri + reference
        # A savepoint's references start from its own directory.
        home = open_location(whole.rpartition("/")[0]).store() if savepoint else self._store
        references = References(home) if savepoint else self._references
        try:
            for chain in manifest.chains:
                download(chain.files, references.find, target / chain.uid, [self.directory / chain.uid])
            target.mkdir(parents=True, exist_ok=True)
        finally:
            if savepoint:
                references.close()
                home.close()
