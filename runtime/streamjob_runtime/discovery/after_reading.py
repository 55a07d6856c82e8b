"""Archives or deletes objects that a source has read; the only module that deletes objects which others wrote.

`covering` decides which objects may go. Their names are in `.read` files below `sources/K/`, which a checkpoint has
like the source's other files. Such a file exists until all its objects are gone, the newest one beyond that, since the
next one begins behind it. After a restart its objects are tried again, and those that are gone are passed over. An
object goes only if it still has the version that was read. Its copy in the archive is marked with key and version, so
that it is not copied twice. A local file is renamed, and so needs no mark.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import posixpath
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from streamjob.clock import Clock
from streamjob.errors import StreamJobError
from streamjob.store.s3_connection import S3Connection
from streamjob.store.s3_errors import status_of, translate
from streamjob_runtime.discovery.directory_lister import DirectoryLister
from streamjob_runtime.discovery.entries import entry_files, read_entry
from streamjob_runtime.discovery.objects import Found, base_of
from streamjob_runtime.spark.checkpoint_dir.file_entries import files_to_remove, newest_known
from streamjob_runtime.spark.checkpoint_dir.text_files import write_anew

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef

MOST_LISTS = 100
"""`.read` files beyond which entries wait for the next compaction, which joins many."""
_AT_A_TIME = 8
_MOST_FAILURES = 10
"""Failures after which the rest waits for the next checkpoint."""
_MARK = "streamjob-object"
"""The metadata of an archived object that has a hash of the key and version of the one that was read."""
_KEPT_HEADERS = ("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType")
_COPY = TransferConfig(multipart_threshold=5 << 30, multipart_chunksize=1 << 30, use_threads=False)
"""S3 copies at most 5 GiB in one request."""
_GONE, _REPLACED, _NOT_IMPLEMENTED = 404, 412, 501
_LOG = logging.getLogger("streamjob")


class AfterReading:
    """Removes the objects of one reading of a source, on a thread of its own.

    Args:
        who: the source, at the beginning of a message.
        folder: its folder below `sources/`.
        remove: removes an object in the version that was read; raises StreamJobError if it cannot now.
        age: seconds that an object stays after all retained checkpoints have read it.
        clock: seconds since 1970.
    """

    def __init__(self, *, who: str, folder: Path, remove: Callable[[Found], None], age: float, clock: Clock) -> None:
        self._who = who
        self._folder = folder
        self._remove = remove
        self._age = age
        self._clock = clock
        self._covered = -1
        self._done: set[int] = set()
        self._failing = False
        self._lists = threading.Lock()
        self._noted = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"after-reading-{folder.name}", daemon=True)

    def start(self) -> None:
        """Begin to wait for checkpoints."""
        self._thread.start()

    def covered(self, entry: int) -> None:
        """Note the last entry that all retained checkpoints have read; returns at once."""
        self._covered = entry
        self._noted.set()

    def stop(self) -> None:
        """Remove no more objects."""
        self._stopped = True
        self._noted.set()

    def list_until(self, entry: int) -> None:
        """Keep the names of the objects of all entries up to a committed one."""
        with self._lists:
            names = entry_files(self._folder)
            begun = max([*files_to_remove(names), newest_known(names, entry)])
            if begun >= entry:
                return
            content = b"v1" + b"".join(
                (self._folder / str(number)).read_bytes().removeprefix(b"v1") for number in range(begun + 1, entry + 1)
            )
            write_anew(self._folder / f"{entry}-{int(self._clock())}.read", content)

    def run_once(self) -> None:
        """Remove the objects that may go now."""
        if len(files_to_remove(entry_files(self._folder))) < MOST_LISTS:
            self.list_until(self._covered)
        lists = files_to_remove(entry_files(self._folder))
        failed: list[tuple[str, str]] = []
        for last, (made, name) in lists.items():
            if last > self._covered or made + self._age > self._clock():
                continue
            if last not in self._done and self._remove_all(read_entry(self._folder, name), failed):
                self._done.add(last)
            if last in self._done and last != max(lists):
                (self._folder / name).unlink(missing_ok=True)
        self._done &= lists.keys()
        self._report(failed)

    def _run(self) -> None:
        while self._noted.wait() and not self._stopped:
            self._noted.clear()
            try:
                self.run_once()
            except Exception as error:
                self._report([(str(self._folder), repr(error))])

    def _remove_all(self, objects: Sequence[Found], failed: list[tuple[str, str]]) -> bool:
        """Return whether all objects are gone, or need not go; a damaged one stays."""

        def remove(found: Found) -> bool:
            if found.damage is not None:
                return True
            if self._stopped or len(failed) >= _MOST_FAILURES:
                return False
            try:
                self._remove(found)
            except StreamJobError as error:
                failed.append((found.key, f"{error.what}: {error.fix}"))
                return False
            return True

        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            return all(list(pool.map(remove, objects)))

    def _report(self, failed: Sequence[tuple[str, str]]) -> None:
        if failed:
            message = (
                "%s: objects that were read are not removed yet, %s among them; the next checkpoint tries again: %s"
            )
            _LOG.log(logging.DEBUG if self._failing else logging.WARNING, message, self._who, *failed[0])
        self._failing = bool(failed)


class BucketRemover:
    """Archives or deletes objects of a bucket.

    Args:
        connection: of the bucket's server.
        root: what the keys of the source begin with, up to a slash.
        archive: the bucket and what keys begin with in the archive; None to delete.
    """

    def __init__(self, connection: S3Connection, bucket: str, root: str, archive: tuple[str, str] | None) -> None:
        self._connection = connection
        self._client = connection.client
        self._bucket = bucket
        self._root = root
        self._archive = archive

    def __call__(self, found: Found) -> None:
        """Remove an object, unless it is gone, or has another version than the one that was read.

        Raises:
            StoreError: S3 refuses, or does not answer.
        """
        key = found.key.removeprefix(base_of(self._bucket))
        try:
            there = self._head(self._bucket, key)
            if there is None or (there["ETag"].strip('"'), there["ContentLength"]) != (found.version, found.size):
                return
            if self._archive is not None:
                self._copy(key, there, *self._archive)
            self._delete(key, there["ETag"])
        except (ClientError, BotoCoreError) as error:
            if status_of(error) not in (_GONE, _REPLACED) or _names_no_bucket(error):
                verb = "delete" if self._archive is None else "archive"
                raise translate(error, verb, self._bucket, key, self._connection.settings.shown) from error

    def _head(self, bucket: str, key: str) -> HeadObjectOutputTypeDef | None:
        try:
            return self._client.head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if status_of(error) == _GONE:
                return None
            raise

    def _copy(self, key: str, there: HeadObjectOutputTypeDef, bucket: str, prefix: str) -> None:
        version = there["ETag"].strip('"')
        mark = hashlib.sha256(f"s3://{self._bucket}/{key} {version}".encode("utf-8", "surrogatepass")).hexdigest()
        below = _below(self._root, key)
        folder, name = posixpath.split(prefix + below)
        # Where another version, or the object of another source, has the key, none replaces the other.
        for target in (prefix + below, posixpath.join(folder, f"{version}-{name}")):
            other = self._head(bucket, target)
            if other is not None and other["Metadata"].get(_MARK) == mark:
                return
            if other is None:
                break
        given: dict[str, Any] = {name: there[name] for name in _KEPT_HEADERS if name in there}  # type: ignore[literal-required]
        given |= {"Metadata": {**there["Metadata"], _MARK: mark}, "MetadataDirective": "REPLACE"}
        given |= {"CopySourceIfMatch": there["ETag"]}
        self._client.copy({"Bucket": self._bucket, "Key": key}, bucket, target, ExtraArgs=given, Config=_COPY)

    def _delete(self, key: str, version: str) -> None:
        try:
            self._client.delete_object(Bucket=self._bucket, Key=key, IfMatch=version)
        except ClientError as error:
            if status_of(error) != _NOT_IMPLEMENTED:
                raise
            # A server without conditional deletions; the version was compared a moment ago.
            self._client.delete_object(Bucket=self._bucket, Key=key)


class FileStays(StreamJobError):
    """A local file cannot be archived or deleted now."""


class DirectoryRemover:
    """Archives or deletes local files.

    Args:
        lister: of the source.
        root: the directory below which a file keeps its path in the archive, with a slash at its end.
        archive: the directory of the archive; None to delete.
    """

    def __init__(self, lister: DirectoryLister, root: str, archive: Path | None) -> None:
        self._lister = lister
        self._root = root
        self._archive = archive

    def __call__(self, found: Found) -> None:
        """Remove a file, unless it is gone, or is another one than the one that was read.

        Raises:
            FileStays: the file system refuses, or both names in the archive are taken.
        """
        if self._lister.changed([found]) is not None:
            return
        try:
            if self._archive is None:
                Path(found.key).unlink()
            else:
                self._move(found, self._archive / _below(self._root, found.key))
        except OSError as error:
            raise FileStays(
                f"cannot {'delete' if self._archive is None else 'archive'} {found.key}: {error.strerror}",
                "let the job write into its directory"
                + ("" if self._archive is None else f" and into {self._archive}, which is on the same file system"),
            ) from error

    def _move(self, found: Found, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        for each in (target, target.with_name(f"{found.version}-{target.name}")):
            try:
                # The name is taken first, since renaming replaces what has it.
                each.touch(exist_ok=False)
            except FileExistsError:
                continue
            try:
                Path(found.key).rename(each)
            except OSError:
                each.unlink()
                raise
            return
        raise FileExistsError(errno.EEXIST, f"{each} exists as well")


def forget_lists(folder: Path) -> None:
    """Delete the `.read` files of a source whose objects stay."""
    for _, name in files_to_remove(entry_files(folder)).values():
        (folder / name).unlink(missing_ok=True)


def _below(root: str, key: str) -> str:
    """Return the path that an object keeps in an archive."""
    return key.removeprefix(root) if key.startswith(root) else posixpath.basename(key)


def _names_no_bucket(error: BaseException) -> bool:
    return isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") == "NoSuchBucket"
