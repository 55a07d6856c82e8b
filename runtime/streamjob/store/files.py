"""Local files for stores: atomic writes, `file://` URIs, and the translation of file system errors."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote, urlsplit

from streamjob.store.base import StoreDenied, StoreError, StoreFull, StoreUnavailable

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_CLASH = {errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG}


def store_error(verb: str, path: Path, error: OSError) -> StoreError:
    """Return the store error for an error of the file system."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    what = f"cannot {verb} {path}: {reason}"
    if error.errno in _FULL:
        return StoreFull(what, f"free space on the file system of {path.parent}, or choose another place")
    if error.errno in _CLASH:
        return StoreError(what, "an object cannot be below another object: a/b if there is a")
    if error.errno in _DENIED:
        return StoreDenied(what, f"give this user (uid {os.getuid()}) the right to write below {path.parent}")
    return StoreUnavailable(what)


def write_whole(target: Path, fill: Callable[[BinaryIO], None]) -> None:
    """Write a file that appears completely or not at all.

    Args:
        target: the file, in an existing directory; an existing file is replaced.
        fill: writes the content.

    Raises:
        StoreFull: no space is left; the previous content is still there.
        StoreError: the file cannot be written.
    """
    temporary = target.with_name(f".{target.name[:80]}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            fill(file)
        temporary.replace(target)
    except OSError as error:
        raise store_error("write", target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable; do nothing if it has disappeared. Raises OSError."""
    with suppress(FileNotFoundError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def path_uri(path: Path) -> str:
    """Return the `file://` URI of an absolute path."""
    return "file://" + quote(path.as_posix())


def uri_path(uri: str) -> Path:
    """Return the path that a `file:///…` URI names.

    Raises:
        StoreError: `uri` is not a `file://` URI of this machine.
    """
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise StoreError(f"{uri} is not a file on this machine", "write it as file:///path")
    return Path(unquote(parts.path))
