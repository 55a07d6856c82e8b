"""A store in a directory: each object is a file, and its key is the path below the root.

An object appears completely or not at all. It is written and synced below `.tmp`, then linked (put-if-absent) or
renamed (put) into place, and the directory is synced. So a completed write survives a power cut, and the file system
lets exactly one of several racing creators win. The next store that opens the root removes the remains of a killed
writer below `.tmp`: a writer locks its file, so an unlocked file has no writer.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from streamjob.ids import Key
from streamjob.store.base import (
    ObjectInfo,
    ObjectMissing,
    StoreError,
    StoreUnavailable,
    UnsuitableStore,
)
from streamjob.store.files import path_uri, store_error, sync_directory, write_whole
from streamjob.store.names import RESERVED, check_key, check_prefix

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)

# A directory vanishes under a writer only if a concurrent deletion emptied and pruned it. Many times in a row means
# that another program removes the store.
_TRIES = 100


class LocalStore:
    """A store in the directory `root`, which is created with the first object.

    Args:
        root: an absolute path on a file system with hard links, or a symbolic link to one.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_absolute():
            raise ValueError(f"{root} is not absolute")
        self._root = root
        self._temporary = root / RESERVED
        self._synced: set[Path] = set()
        self._swept = False

    def __repr__(self) -> str:
        return f"LocalStore({self.uri})"

    @property
    def uri(self) -> str:
        """The root as `file:///…/`."""
        return path_uri(self._root).rstrip("/") + "/"

    def get(self, key: Key) -> bytes:
        """Return an object's content. Raises ObjectMissing."""
        path = self._path(key)
        with self._reading(path):
            return path.read_bytes()

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`. Raises ObjectMissing, and StoreError if the object is shorter."""
        path = self._path(key)
        with self._reading(path), path.open("rb") as file:
            file.seek(offset)
            content = file.read(length)
        if len(content) != length:
            raise StoreError(f"{path} ends before byte {offset + length}: it has been cut or replaced")
        return content

    def download(self, key: Key, target: Path) -> None:
        """Write an object's content to the file `target`, whose directory exists. Raises ObjectMissing."""
        path = self._path(key)
        with self._reading(path), path.open("rb") as source:
            write_whole(target, lambda file: shutil.copyfileobj(source, file, 1 << 20))

    def put(self, key: Key, content: bytes | Path) -> None:
        """Create or replace an object with bytes, or with the content of a file.

        Raises:
            FileNotFoundError: `content` names no file.
            StoreFull: no space is left; nothing was replaced.
        """
        path = self._path(key)
        if isinstance(content, bytes):
            self._create(path, lambda file: _write(file, content), _replace)
        else:
            with content.open("rb") as source:

                def fill(file: BinaryIO) -> None:
                    source.seek(0)
                    shutil.copyfileobj(source, file, 1 << 20)

                self._create(path, fill, _replace)

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        """Create an object unless one exists; return whether this call created it. Atomic.

        Raises:
            UnsuitableStore: the file system has no hard links, so it cannot create a complete file atomically.
        """
        return self._create(self._path(key), lambda file: _write(file, content), _link)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose keys begin with `prefix` and sort after `start_after`, in key order."""
        folder = check_prefix(prefix).rpartition("/")[0]
        yield from self._walk(f"{folder}/" if folder else "", prefix, start_after)

    def delete(self, keys: Iterable[Key]) -> None:
        """Delete objects, and directories that become empty; missing objects are ignored."""
        touched: set[Path] = set()
        for key in keys:
            path = self._path(key)
            with _failures("delete", path), contextlib.suppress(*_ABSENT):
                path.unlink()
                touched.add(path.parent)
        for directory in touched:
            with _failures("delete", directory):
                sync_directory(self._prune(directory))

    def close(self) -> None:
        """Remove the temporary directory if it is empty."""
        with contextlib.suppress(OSError):
            self._temporary.rmdir()

    def _path(self, key: Key) -> Path:
        return self._root / check_key(key)

    def _walk(self, folder: str, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
        with _failures("list", self._root / folder):
            try:
                with os.scandir(self._root / folder) as found:
                    # A directory sorts like its keys: with a slash at its end.
                    entries = sorted((folder + entry.name + "/" * entry.is_dir(), entry) for entry in found)
            except _ABSENT:
                return
        for name, entry in entries:
            if not folder and name.rstrip("/") == RESERVED:
                continue
            if name.endswith("/"):
                within = name.startswith(prefix) or prefix.startswith(name)
                behind = name > start_after or start_after.startswith(name)
                if within and behind:
                    yield from self._walk(name, prefix, start_after)
            elif name.startswith(prefix) and name > start_after:
                with _failures("list", self._root / name):
                    try:
                        size = entry.stat().st_size
                    except _ABSENT:
                        continue
                yield ObjectInfo(Key(name), size)

    def _create(self, path: Path, fill: Callable[[BinaryIO], None], place: Callable[[Path, Path], bool]) -> bool:
        self._sweep_once()
        with _failures("write", path):
            for _ in range(_TRIES):
                self._make(self._temporary)
                temporary = self._temporary / uuid.uuid4().hex
                try:
                    with temporary.open("xb") as file:
                        fcntl.flock(file, fcntl.LOCK_EX)
                        fill(file)
                        file.flush()
                        os.fsync(file.fileno())
                        self._make(path.parent)
                        created = place(temporary, path)
                    sync_directory(path.parent)
                    return created
                except FileNotFoundError:
                    self._synced.clear()
                finally:
                    temporary.unlink(missing_ok=True)
        raise StoreUnavailable(f"the directory of {path} keeps disappearing", "find the process that removes it")

    def _make(self, directory: Path) -> None:
        """Create a directory and its parents durably."""
        if directory in self._synced and directory.is_dir():
            return
        inside = directory != self._root and directory.is_relative_to(self._root)
        if inside or not directory.is_dir():
            self._make(directory.parent)
            with contextlib.suppress(FileExistsError):
                # Private, since snapshots contain the job's data.
                directory.mkdir(mode=0o700)
            # Even if it existed: its creator may not have synced it yet.
            sync_directory(directory.parent)
        self._synced.add(directory)

    def _prune(self, directory: Path) -> Path:
        """Remove empty directories, upwards to the root; return the first one that stays."""
        while directory != self._root:
            self._synced.discard(directory)
            try:
                directory.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                break
            directory = directory.parent
        return directory

    def _sweep_once(self) -> None:
        if self._swept:
            return
        self._swept = True
        with _failures("clean", self._temporary), contextlib.suppress(*_ABSENT):
            for left in list(self._temporary.iterdir()):
                with contextlib.suppress(*_ABSENT), left.open("rb") as file, contextlib.suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    left.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        with _failures("read", path):
            try:
                yield
            except _ABSENT as error:
                raise ObjectMissing(f"{path} does not exist") from error


@contextlib.contextmanager
def _failures(verb: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise store_error(verb, path, error) from error


def _write(file: BinaryIO, content: bytes) -> None:
    file.write(content)


def _replace(temporary: Path, path: Path) -> bool:
    temporary.replace(path)
    return True


def _link(temporary: Path, path: Path) -> bool:
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise UnsuitableStore(
                f"the file system of {path.parent} has no hard links ({os.strerror(error.errno)}), "
                "so a record of the log cannot be created whole and by one owner only",
                "choose a location on a local file system, NFS or S3",
            ) from error
        raise
    return True
