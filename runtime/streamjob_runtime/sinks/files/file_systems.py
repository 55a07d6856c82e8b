"""The place of a file sink: a directory."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from streamjob.store.files import sync_directory
from streamjob.store.hashing import file_sha256
from streamjob_runtime.sinks.errors import PlaceFull, UnusablePlace
from streamjob_runtime.sinks.rows.staged_hashes import READERS, sha256_of
from streamjob_runtime.spark.gateway import has_class
from streamjob_runtime.spark.jvm import OUTPUT_FILE_SYSTEM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file: its name relative to the place, its size in bytes, and the SHA-256 of its content."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Move:
    """A staged file and its visible name after commit, both relative to the place."""

    staged: str
    visible: str


class LocalPlace:
    """A directory on a local or shared file system with atomic renames; names are relative to it.

    Args:
        directory: the directory; it need not exist.
    """

    def __init__(self, directory: Path) -> None:
        self._root = directory.absolute()

    @property
    def label(self) -> str:
        """Its name in messages."""
        return str(self._root)

    def writer_options(self, session: SparkSession) -> Mapping[str, str]:
        """Return the options for Spark's writer."""
        # A Spark session that streamjob did not start lacks this class, and writes the same files more slowly.
        fast = has_class(session, OUTPUT_FILE_SYSTEM)
        file_system = OUTPUT_FILE_SYSTEM if fast else "org.apache.hadoop.fs.RawLocalFileSystem"
        # Hadoop caches a file system per process; the rest of Spark keeps its own.
        return {"fs.file.impl": file_system, "fs.file.impl.disable.cache": "true"}

    def uri(self, name: str) -> str:
        """Return the URI of a name, for Spark's writer."""
        # Hadoop takes paths literally, without percent-encoding.
        return f"file://{self._root / name}"

    def prepare(self) -> None:
        """Create the place, or check that it is writable.

        Raises:
            UnusablePlace: it is not a directory, or not writable.
            PlaceFull: no space is left.
        """
        with _explained(self._root):
            self._root.mkdir(parents=True, exist_ok=True)
            probe = self._temporary()
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"")
            probe.unlink()

    def check(self) -> None:
        """Check without side effects whether `prepare` would succeed. Raises the errors of `prepare`."""
        with _explained(self._root):
            above = next(each for each in (self._root, *self._root.parents) if each.exists())
            if not above.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if not os.access(above, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def create(self, name: str, content: bytes) -> bool:
        """Create a file unless it exists, atomically; return whether this call created it."""
        with _explained(self._root), self._written(content) as temporary:
            target = self._root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.hardlink_to(temporary)
            except FileExistsError:
                return False
            sync_directory(target.parent)
            return True

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a file atomically."""
        with _explained(self._root), self._written(content) as temporary:
            target = self._root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.replace(target)
            sync_directory(target.parent)

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None if it does not exist."""
        with _explained(self._root):
            try:
                return (self._root / name).read_bytes()
            except FileNotFoundError:
                return None

    def exists(self, directory: str) -> bool:
        """Return whether a directory contains anything."""
        return (self._root / directory).exists()

    def size(self, name: str) -> int | None:
        """Return a file's size in bytes; None if it does not exist."""
        try:
            return (self._root / name).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def sha256(self, name: str) -> str | None:
        """Return the SHA-256 of a file's content in hexadecimal; None if it does not exist."""
        try:
            return file_sha256(self._root / name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def directories(self, directory: str) -> Sequence[str]:
        """Return the names of a directory's subdirectories, without parents."""
        try:
            with os.scandir(self._root / directory) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return ()

    def files(self, directory: str) -> Sequence[str]:
        """Return the names of a directory's files, without parents, oldest first."""
        try:
            with os.scandir(self._root / directory) as entries:
                found = [(entry.stat().st_mtime_ns, entry.name) for entry in entries if entry.is_file()]
        except FileNotFoundError:
            return ()
        return [name for _, name in sorted(found)]

    def remove(self, name: str) -> None:
        """Delete a file, if it exists."""
        (self._root / name).unlink(missing_ok=True)

    def secure(self, directory: str) -> Sequence[PlacedFile]:
        """Make the files below a directory durable, and return them with their hashes.

        Files whose names begin with `_` or `.` are not data, and are left out.
        """
        top = self._root / directory
        with _explained(self._root):
            walked = [(Path(parent), names) for parent, _, names in os.walk(top)]
            files = [parent / name for parent, names in walked for name in names if not name.startswith(("_", "."))]
            with ThreadPoolExecutor(READERS, thread_name_prefix="secure") as pool:
                found = list(pool.map(self._secured, files))
            for parent, _ in walked:
                sync_directory(parent)
            if found:
                for above in top.relative_to(self._root).parents:
                    sync_directory(self._root / above)
        return sorted(found, key=lambda file: file.name)

    def move(self, moves: Sequence[Move]) -> None:
        """Make staged files visible, each atomically, and durably; skip missing ones.

        The caller knows that each file existed, so a missing one has been committed before.
        """
        with _explained(self._root):
            for move in moves:
                self._rename(self._root / move.staged, self._root / move.visible)
            # A later checkpoint may complete before the file system has made these renames durable.
            for parent in sorted({above for move in moves for above in Path(move.visible).parents}):
                sync_directory(self._root / parent)

    def discard(self, directory: str) -> None:
        """Delete a directory and its content, if it exists."""
        # A superseded process may still write there; the next epoch deletes what it adds.
        shutil.rmtree(self._root / directory, ignore_errors=True)

    def _secured(self, file: Path) -> PlacedFile:
        """Make a file's content durable, and describe it."""
        with file.open("rb", buffering=0) as opened:
            os.fsync(opened.fileno())
            size = os.fstat(opened.fileno()).st_size
            return PlacedFile(file.relative_to(self._root).as_posix(), size, sha256_of(opened))

    def _rename(self, staged: Path, visible: Path) -> None:
        while True:
            try:
                staged.rename(visible)
                return
            except FileNotFoundError:
                if not staged.exists():
                    return
                # A consumer may remove a partition's directory at any time.
                visible.parent.mkdir(parents=True, exist_ok=True)

    def _temporary(self) -> Path:
        return self._root / "_streamjob" / f".{uuid4().hex}.tmp"

    @contextmanager
    def _written(self, content: bytes) -> Iterator[Path]:
        """Yield a temporary file with the content; remove it if it still exists afterwards."""
        temporary = self._temporary()
        temporary.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_DIRECTORY = frozenset({errno.ENOTDIR, errno.EEXIST})


def place_full(label: str) -> PlaceFull:
    """Return the error for a place without free space."""
    return PlaceFull(f"sink path {label}: no space is left", "free space there; the job continues from its checkpoint")


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise place_full(str(root)) from error
        if error.errno in _DENIED:
            raise UnusablePlace(
                f"sink path {root}: may not be written ({error.strerror})",
                f"give user {os.geteuid()} the right to write there, or choose another path",
            ) from error
        if error.errno in _NO_DIRECTORY:
            raise UnusablePlace(f"sink path {root}: is not a directory", "choose a directory, or none yet") from error
        raise
