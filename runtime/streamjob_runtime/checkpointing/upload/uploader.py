"""Uploads the files of a cut while the stream runs."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, fields
from pathlib import Path

from streamjob.errors import StreamJobError
from streamjob.ids import Key
from streamjob.snapshot.manifest import FileRef
from streamjob.store.base import Store
from streamjob.store.hashing import file_sha256
from streamjob_runtime.checkpointing.upload.packing import (
    PACK_BELOW,
    PACK_TARGET,
    FileIdentity,
    HeldFile,
    pieces,
    plan_upload,
)
from streamjob_runtime.spark.checkpoint_dir.hold import Hold
from streamjob_runtime.spark.checkpoint_dir.sources import grows_by_appending

KeyOf = Callable[[str], Key]
"""Returns the key of an object from the SHA-256 of its content, 64 hex digits."""


class UploadCancelled(StreamJobError):
    """The checkpoint was aborted, and its upload has stopped."""


class HeldFileChanged(StreamJobError):
    """The content of a held file does not match its hash or size."""


@dataclass(frozen=True, slots=True)
class UploadStatistics:
    """The work of an upload.

    Args:
        objects: created objects.
        upload_bytes: bytes to upload: Flink's checkpointed size.
        total_bytes: bytes of all files of the cut: Flink's full size.
    """

    objects: int = 0
    upload_bytes: int = 0
    total_bytes: int = 0


class Progress:
    """Lets other threads observe and cancel one upload."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._statistics = UploadStatistics()

    def cancel(self) -> None:
        """Make the upload stop before its next object."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether the upload was cancelled."""
        return self._cancelled.is_set()

    def statistics(self) -> UploadStatistics:
        """Return the work of this upload, and of those of other processes for the same checkpoint."""
        return self._statistics

    def include(self, more: UploadStatistics) -> None:
        """Add the work of an upload for the checkpoint."""
        with self._lock:
            one = self._statistics
            sums = (getattr(one, each.name) + getattr(more, each.name) for each in fields(UploadStatistics))
            self._statistics = UploadStatistics(*sums)

    def check(self) -> None:
        """Raise UploadCancelled if the upload was cancelled."""
        if self.cancelled:
            raise UploadCancelled("The upload was cancelled because its checkpoint was aborted")


@dataclass(frozen=True)
class Target:
    """The destination of a snapshot's files.

    Args:
        known: files that need no upload.
    """

    uploader: Uploader
    known: Mapping[FileIdentity, FileRef]
    key_of: KeyOf

    def upload(self, hold: Hold, progress: Progress | None = None) -> tuple[FileRef, ...]:
        """Upload the files of a cut; see `Uploader.upload`."""
        return self.uploader.upload(hold, self.known, self.key_of, progress)


class Uploader:
    """Uploads cuts of any chain of a job with a limited number of threads; thread-safe.

    Args:
        store: the store for the objects, at the job's root.
        threads: number of objects uploaded at a time, over all checkpoints.
    """

    def __init__(self, store: Store, threads: int = 4) -> None:
        self.store = store
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="upload")

    def upload(
        self,
        hold: Hold,
        known: Mapping[FileIdentity, FileRef],
        key_of: KeyOf,
        progress: Progress | None = None,
        *,
        pack_below: int = PACK_BELOW,
        pack_target: int = PACK_TARGET,
    ) -> tuple[FileRef, ...]:
        """Upload the files that the store lacks; return the files of the cut in the manifest's form, by path.

        Blocks until everything is uploaded, or until an object has failed and running uploads have ended.

        Args:
            hold: the cut; do not release it before this returns.
            known: reusable files of earlier completed checkpoints.
            progress: reports progress, and cancels.
            pack_below: files smaller than this are packed, in bytes.
            pack_target: see `plan_upload`.

        Raises:
            HeldFileChanged: a file of the hold was damaged.
            UploadCancelled: `progress.cancel` was called; some objects may have been created.
            StoreError: the store failed; some objects may have been created.
        """
        progress = progress or Progress()
        files = held_files(hold)
        plan = plan_upload(files, known, pack_below=pack_below, pack_target=pack_target)
        progress.include(UploadStatistics(plan.objects, plan.size, sum(file.size for file in files)))
        # Large ones first: the last one to end decides the duration of the upload.
        alone = sorted(plan.alone, key=lambda file: file.size, reverse=True)
        tasks = [
            *(self._pool.submit(self._alone, hold.directory, file, key_of, progress) for file in alone),
            *(self._pool.submit(self._pack, hold.directory, pack, key_of, progress) for pack in plan.packs),
        ]
        refs = {(ref.path, ref.at): ref for ref in (*plan.reused, *_results(tasks))}
        for (path, at), twin in plan.twins.items():
            refs[path, at] = refs[twin].model_copy(update={"path": path, "at": at})
        return tuple(refs[position] for position in sorted(refs))

    def close(self) -> None:
        """Wait for running uploads to end; drop those that have not begun."""
        self._pool.shutdown(cancel_futures=True)

    def _alone(self, directory: Path, file: HeldFile, key_of: KeyOf, progress: Progress) -> list[FileRef]:
        # A piece is never larger than a pack.
        content = _content(directory, file) if file.size <= PACK_TARGET else directory / file.path
        sha256 = hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else file_sha256(content)
        key = key_of(sha256)
        progress.check()
        self.store.put(key, content)
        return [FileRef(path=file.path, object=key, length=file.size, sha256=sha256, at=file.at)]

    def _pack(self, directory: Path, files: tuple[HeldFile, ...], key_of: KeyOf, progress: Progress) -> list[FileRef]:
        contents = [_content(directory, file) for file in files]
        whole = b"".join(contents)
        key = key_of(hashlib.sha256(whole).hexdigest())
        progress.check()
        self.store.put(key, whole)
        refs = []
        offset = 0
        for file, content in zip(files, contents, strict=True):
            sha256 = hashlib.sha256(content).hexdigest()
            if file.sha256 not in (None, sha256):
                raise HeldFileChanged(
                    f"The file {file.path} in {directory} has changed: its SHA-256 is {sha256} instead of "
                    f"{file.sha256}",
                    "look for errors of the disk; the checkpoints before are whole",
                )
            refs.append(
                FileRef(path=file.path, object=key, offset=offset, length=len(content), sha256=sha256, at=file.at)
            )
            offset += len(content)
        return refs


def held_files(hold: Hold) -> tuple[HeldFile, ...]:
    """Return the files of a hold with their sizes, and with a hash if the name does not identify the content.

    Files that grow by appending are returned in pieces.
    """
    unique = (HeldFile(path, (hold.directory / path).stat().st_size) for path in hold.files.unique)
    return (*(held for path in hold.files.per_checkpoint for held in _hashed(hold.directory, path)), *unique)


def _hashed(directory: Path, path: str) -> Iterator[HeldFile]:
    with (directory / path).open("rb") as stream:
        if not grows_by_appending(path):
            size = os.fstat(stream.fileno()).st_size
            yield HeldFile(path, size, hashlib.file_digest(stream, "sha256").hexdigest())
            return
        for at, length in pieces(os.fstat(stream.fileno()).st_size):
            yield HeldFile(path, length, hashlib.sha256(stream.read(length)).hexdigest(), at)


def _content(directory: Path, file: HeldFile) -> bytes:
    with (directory / file.path).open("rb") as stream:
        stream.seek(file.at)
        return stream.read(file.size)


def _results(tasks: Iterable[Future[list[FileRef]]]) -> list[FileRef]:
    tasks = list(tasks)
    _, pending = wait(tasks, return_when=FIRST_EXCEPTION)
    for task in pending:
        task.cancel()
    wait(tasks)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()):
            raise error
    return [ref for task in tasks for ref in task.result()]
