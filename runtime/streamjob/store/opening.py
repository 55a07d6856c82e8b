"""Opens stores and objects by the location that a user wrote: a path, `file:///…`, `s3://bucket/prefix` or a URI.

Stores for other schemes come from installed packages (`streamjob.store.plugins`).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from streamjob.errors import InvalidInput
from streamjob.ids import Key
from streamjob.snapshot.keys import CHECKPOINTS_PREFIX, SAVEPOINTS_PREFIX, job_prefix
from streamjob.store.base import Store, StoreError
from streamjob.store.files import path_uri, uri_path
from streamjob.store.local import LocalStore
from streamjob.store.names import check_key
from streamjob.store.plugins import find_plugin, open_plugin

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Location:
    """A place that holds snapshots. No server is contacted until a store is used.

    `uri` is absolute and ends with a slash.
    """

    uri: str

    def store(self, environment: Mapping[str, str] | None = None) -> Store:
        """Return a store rooted at the location itself.

        Args:
            environment: variables with the settings of the store, such as those of AWS; None for this process's.

        Raises:
            InvalidInput: the settings of the store cannot be used.
        """
        scheme = self.uri.partition(":")[0]
        if scheme == "file":
            return LocalStore(uri_path(self.uri))
        if scheme != "s3":
            return open_plugin(self.uri, os.environ if environment is None else environment)
        # Imported here, since loading boto3 would delay a local job noticeably.
        from streamjob.store.s3 import S3Store
        from streamjob.store.s3_connection import S3Connection, S3Settings

        bucket, _, prefix = self.uri.removeprefix("s3://").partition("/")
        return S3Store(S3Connection(S3Settings.from_environment(environment)), bucket, prefix)

    def below(self, path: str) -> Location:
        """Return the location at `path`, which is relative to this one and ends with a slash."""
        return Location(self.uri + path)

    def job(self, namespace: str, name: str) -> Location:
        """Return the root of a job's snapshots.

        Raises:
            InvalidInput: namespace or name cannot be part of a key.
        """
        for what, value in (("namespace", namespace), ("name", name)):
            if not _NAME.fullmatch(value):
                raise InvalidInput(
                    f"the {what} {value!r} cannot be part of a path in a store",
                    "use letters, digits, '-', '_' and '.', with a letter or digit at both ends",
                )
        return self.below(job_prefix(namespace, name))


def open_location(location: str, base: Path | None = None) -> Location:
    """Return the location that a user named.

    Args:
        location: `file:///…`, `s3://bucket/prefix`, a URI whose scheme an installed package serves, or a path.
        base: directory that relative paths start from; None for the current one.

    Raises:
        InvalidInput: it cannot be used as a location for snapshots.
    """
    help_text = "write file:///path, a path, or s3://bucket/prefix"
    if "://" not in location and not location.startswith("file:"):
        if not location:
            raise InvalidInput("the location is empty", help_text)
        path = Path(location).expanduser()
        return _local((base or Path.cwd()).absolute() / path)
    parts = urlsplit(location, allow_fragments=False)
    if parts.scheme == "file":
        try:
            return _local(uri_path(location))
        except StoreError as error:
            raise InvalidInput(f"the location {location} cannot be used: {error.what}", help_text) from error
    if parts.scheme == "s3":
        if not _BUCKET.fullmatch(parts.netloc):
            raise InvalidInput(f"the location {location} has no usable bucket name", "write it as s3://bucket/prefix")
        return _below_authority(location)
    if parts.scheme in ("s3a", "s3n"):
        raise InvalidInput(
            f"the location {location} has Hadoop's scheme", f"write it as s3{location[len(parts.scheme) :]}"
        )
    if find_plugin(parts.scheme) is not None:
        if not parts.netloc:
            raise InvalidInput(
                f"the location {location} names no place",
                f"write it as {parts.scheme}://name or {parts.scheme}://name/prefix",
            )
        return _below_authority(location)
    raise InvalidInput(
        f"the location {location} is of an unknown kind",
        f"{help_text}, or install a package that has a store for {parts.scheme}://",
    )


def open_directory_of_spark(named: str) -> Location:
    """Return the location of a directory that Spark has written, perhaps with the scheme `s3a`; see `open_location`."""
    return open_location(named.replace("s3a://", "s3://", 1))


def snapshot_reference(named: str) -> str:
    """Return the reference for a snapshot that a user named.

    Args:
        named: its directory or manifest, as a URI, as a key below the job's root (`checkpoints/…`, `savepoints/…`), or
            as a path. Relative paths start from the current directory.
    """
    if "://" in named or named.startswith(("file:", CHECKPOINTS_PREFIX, SAVEPOINTS_PREFIX)):
        return named
    path = Path.cwd() / Path(named).expanduser()
    # Symbolic links stay, as in locations: objects below the job's root are recognised by their prefix.
    return path_uri(path.resolve() if ".." in path.parts else path)


def open_object(uri: str) -> tuple[Store, Key]:
    """Return a store for the directory of an object, and the object's key there.

    Args:
        uri: absolute, `file:///…` or `s3://bucket/key`.

    Raises:
        InvalidInput: it does not name an object.
    """
    directory, _, name = uri.rpartition("/")
    if "://" not in directory or not name:
        raise InvalidInput(f"{uri} names no object", "write file:///path or s3://bucket/key")
    if uri.startswith("file:"):
        path = uri_path(uri)
        return LocalStore(path.parent), check_key(path.name)
    return open_location(directory).store(), check_key(name)


class References:
    """Resolves the references of a manifest: keys in the job's own store, or absolute URIs elsewhere.

    Safe for several threads.

    Args:
        home: the store that relative references are read from.
    """

    def __init__(self, home: Store) -> None:
        self._home = home
        self._others: dict[str, Store] = {}
        self._lock = threading.Lock()

    def find(self, reference: str) -> tuple[Store, Key]:
        """Return the store that holds the object, and its key there.

        Raises:
            InvalidKey: a relative reference is not a valid key.
            InvalidInput: an absolute reference does not name an object.
        """
        if "://" not in reference:
            return self._home, check_key(reference)
        if reference.startswith(self._home.uri):
            return self._home, check_key(_unquoted(reference, self._home.uri))
        # One store for each bucket, to share its connections; stores for directories cost nothing.
        directory = reference.rpartition("/")[0]
        root = directory if reference.startswith("file:") else "/".join(reference.split("/", 3)[:3])
        with self._lock:
            if root not in self._others:
                self._others[root] = open_location(root).store()
        return self._others[root], check_key(_unquoted(reference, f"{root}/"))

    def close(self) -> None:
        """Close the stores that this object opened; `home` stays open."""
        with self._lock:
            for store in self._others.values():
                store.close()
            self._others.clear()


def _unquoted(uri: str, root: str) -> str:
    if not uri.startswith("file:"):
        return uri.removeprefix(root)
    return str(uri_path(uri).relative_to(uri_path(root)))


def _local(path: Path) -> Location:
    if ".." in path.parts:
        path = path.resolve()
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"the location {path} is a file", "name a directory")
    return Location(path_uri(path).rstrip("/") + "/")


def _below_authority(location: str) -> Location:
    scheme, _, rest = location.partition("://")
    authority, _, prefix = rest.partition("/")
    prefix = prefix.strip("/")
    if prefix:
        try:
            check_key(prefix)
        except StoreError as error:
            raise InvalidInput(f"the location {location} cannot be used: {error.what}", error.fix) from error
    return Location(f"{scheme}://{authority}/{prefix}/" if prefix else f"{scheme}://{authority}/")
