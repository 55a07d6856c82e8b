"""A store below a prefix of an S3 bucket, on AWS or any compatible server that honours `If-None-Match: *`.

botocore repeats reads and puts: objects are immutable, so repetition is harmless. A conditional creation is different:
a second try may find the object of the first. It is sent by a client that never repeats, and is repeated here, where
unclear answers are remembered.

A killed process may leave parts of an upload behind, which belong to no object and appear in no listing. Give the
bucket a lifecycle rule that aborts incomplete multipart uploads: after a day, or after two weeks if a file sink writes
into the same bucket.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError
from s3transfer.exceptions import RetriesExceededError

from streamjob.ids import Key
from streamjob.store.base import ObjectInfo, StoreError, StoreUnavailable, UnsuitableStore
from streamjob.store.files import write_whole
from streamjob.store.names import RESERVED, check_key, check_prefix
from streamjob.store.s3_connection import S3Connection
from streamjob.store.s3_errors import code_of, status_of, translate

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import GetObjectRequestTypeDef

_Result = TypeVar("_Result")

_ERRORS = (ClientError, BotoCoreError, Boto3Error, RetriesExceededError)
_CHUNK = 1 << 20
_BULK = 1000
_NO_BULK_DELETION = {
    "BadDigest",
    "InvalidDigest",
    "InvalidRequest",
    "MalformedXML",
    "MethodNotAllowed",
    "MissingContentMD5",
    "NotImplemented",
}


class S3Store:
    """The objects below `prefix` in `bucket`.

    Args:
        connection: the clients; may be shared between stores.
        bucket: the bucket's name.
        prefix: with or without slashes at its ends; empty for the whole bucket.
    """

    def __init__(self, connection: S3Connection, bucket: str, prefix: str) -> None:
        self._connection = connection
        self._client = connection.client
        self._bucket = bucket
        self._prefix = f"{check_prefix(prefix.strip('/'))}/" if prefix.strip("/") else ""
        self._bulk = True
        settings = connection.settings
        self._upload = TransferConfig(
            multipart_threshold=settings.part_size,
            multipart_chunksize=settings.part_size,
            max_concurrency=settings.concurrency,
        )

    def __repr__(self) -> str:
        return f"S3Store({self.uri} at {self._connection.settings.shown})"

    @property
    def uri(self) -> str:
        """The root as `s3://bucket/prefix/`."""
        return f"s3://{self._bucket}/{self._prefix}"

    def get(self, key: Key) -> bytes:
        """Return an object's content. Raises ObjectMissing."""
        return b"".join(self._read(key))

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`. Raises ObjectMissing, and StoreError if the object is shorter."""
        if length == 0:
            self._do("read", key, lambda: self._client.head_object(Bucket=self._bucket, Key=self._key(key)))
            return b""
        content = b"".join(self._read(key, offset, length))
        if len(content) != length:
            raise StoreError(f"{self.uri}{key} ends before byte {offset + length}: it has been cut or replaced")
        return content

    def download(self, key: Key, target: Path) -> None:
        """Write an object's content to the file `target`, whose directory exists. Raises ObjectMissing."""

        def fill(file: BinaryIO) -> None:
            for chunk in self._read(key):
                file.write(chunk)

        write_whole(target, fill)

    def put(self, key: Key, content: bytes | Path) -> None:
        """Create or replace an object with bytes, or with the content of a file; large files are sent in parts.

        Raises:
            FileNotFoundError: `content` names no file.
        """
        full = self._key(key)
        if isinstance(content, Path) and content.stat().st_size > self._connection.settings.part_size:
            path = str(content)
            self._do("write", key, lambda: self._client.upload_file(path, self._bucket, full, Config=self._upload))
        else:
            body = content if isinstance(content, bytes) else content.read_bytes()
            self._do("write", key, lambda: self._client.put_object(Bucket=self._bucket, Key=full, Body=body))

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        """Create an object unless one exists; return whether this call created it. Atomic.

        A try that ended in a timeout, a broken connection or a 5xx may have been applied. If a later try of the same
        call finds the object, this code cannot tell who created it.

        Raises:
            StoreUnavailable: it is unknown whether this call created the object; read it back to find out.
            UnsuitableStore: the server does not implement conditional creates.
        """
        full = self._key(key)
        unclear: StoreError | None = None
        last: StoreError | None = None
        for attempt in range(self._connection.settings.attempts):
            if attempt:
                self._pause(attempt)
            try:
                self._connection.single.put_object(Bucket=self._bucket, Key=full, Body=content, IfNoneMatch="*")
                return True
            except (ClientError, BotoCoreError) as error:
                last = self._error(error, "create", key)
                if status_of(error) == 412 or code_of(error) == "PreconditionFailed":
                    if unclear is None:
                        return False
                    raise StoreUnavailable(
                        f"{self.uri}{key} exists, and an earlier try to create it had no clear answer: {unclear.what}",
                        "read it back and compare the owner",
                    ) from error
                if status_of(error) == 501 or code_of(error) == "NotImplemented":
                    raise UnsuitableStore(
                        f"the S3 server at {self._connection.settings.shown} has no conditional create "
                        "(If-None-Match: *), so one owner of a job cannot be fenced from another",
                        "use a server or version that has it",
                    ) from error
                if status_of(error) == 409:
                    continue
                if not isinstance(last, StoreUnavailable):
                    raise last from error
                unclear = last
        raise StoreUnavailable((unclear or last or StoreError("no try was made")).what, "read it back to find out")

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose keys begin with `prefix` and sort after `start_after`, in key order."""
        request = {"Bucket": self._bucket, "Prefix": self._prefix + check_prefix(prefix)}
        if start_after:
            request["StartAfter"] = self._prefix + start_after
        pages = iter(self._client.get_paginator("list_objects_v2").paginate(**request))  # type: ignore[arg-type]
        while (page := self._do("list", prefix, lambda: next(pages, None))) is not None:
            for entry in page.get("Contents", []):
                key = entry["Key"].removeprefix(self._prefix)
                # Consoles create objects that represent folders; our keys never end with a slash.
                if not key.endswith("/") and not key.startswith(f"{RESERVED}/"):
                    yield ObjectInfo(Key(key), entry["Size"])

    def delete(self, keys: Iterable[Key]) -> None:
        """Delete objects, a thousand per request if the server supports it; missing ones are ignored."""
        wanted = [check_key(key) for key in keys]
        for start in range(0, len(wanted), _BULK):
            batch = wanted[start : start + _BULK]
            for key in self._delete_bulk(batch) if self._bulk and len(batch) > 1 else batch:
                self._do("delete", key, partial(self._client.delete_object, Bucket=self._bucket, Key=self._key(key)))

    def delete_folder(self, name: Key) -> None:
        """Delete the object by which Hadoop and consoles represent a folder; a missing one is ignored."""
        key = f"{self._key(name)}/"
        self._do("delete", name, partial(self._client.delete_object, Bucket=self._bucket, Key=key))

    def close(self) -> None:
        """Close the connections; another store that shares them will open new ones."""
        self._connection.close()

    def _key(self, key: Key) -> str:
        return self._prefix + check_key(key)

    def _do(self, verb: str, key: str, call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except _ERRORS as error:
            raise self._error(error, verb, key) from error

    def _error(self, error: BaseException, verb: str, key: str) -> StoreError:
        return translate(error, verb, self._bucket, self._prefix + key, self._connection.settings.shown)

    def _pause(self, attempt: int) -> None:
        time.sleep(self._connection.settings.backoff * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))

    def _read(self, key: Key, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield an object's bytes; after a broken connection, continue from the last byte received."""
        request: GetObjectRequestTypeDef = {"Bucket": self._bucket, "Key": self._key(key)}
        done, expected, failures = 0, None, 0
        while expected is None or done < expected:
            if done or length is not None or offset:
                last = "" if length is None else str(offset + length - 1)
                request["Range"] = f"bytes={offset + done}-{last}"
            answer = self._do("read", key, lambda: self._client.get_object(**request))
            expected = answer["ContentLength"] + done if expected is None else expected
            try:
                for chunk in answer["Body"].iter_chunks(_CHUNK):
                    done += len(chunk)
                    yield chunk
            except (BotoCoreError, OSError) as error:
                failures += 1
                if failures >= self._connection.settings.attempts:
                    raise self._error(error, "read", key) from error
                self._pause(failures)

    def _delete_bulk(self, keys: Sequence[Key]) -> Sequence[Key]:
        """Delete keys in one request; return those that the server refused to delete this way."""
        objects: Any = [{"Key": self._key(key)} for key in keys]
        try:
            answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})
        except ClientError as error:
            if code_of(error) in _NO_BULK_DELETION or status_of(error) in (405, 501):
                self._bulk = False
                return keys
            raise self._error(error, "delete", keys[0]) from error
        except BotoCoreError as error:
            raise self._error(error, "delete", keys[0]) from error
        refused = {entry.get("Key", "") for entry in answer.get("Errors", [])}
        return [key for key in keys if self._key(key) in refused]
