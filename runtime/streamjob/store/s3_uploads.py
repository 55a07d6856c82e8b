"""Multipart uploads below a prefix of a bucket: objects that nobody sees until they are completed.

S3 creates the object in one step when an upload is completed, and the upload is gone then. This is to a bucket what a
rename is to a directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from streamjob.ids import Key
from streamjob.store.names import check_key, check_prefix
from streamjob.store.s3_connection import S3Connection
from streamjob.store.s3_errors import code_of, translate

_Result = TypeVar("_Result")

_GONE = "NoSuchUpload"


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """An upload that is neither completed nor aborted: the key of its object, and the id that the server gave it."""

    key: Key
    id: str


class S3Uploads:
    """The uploads below `prefix` in `bucket`. Every method may be called from any thread.

    All methods raise StoreUnavailable if the server gives no usable answer within its retries, StoreFull if it has no
    space, and StoreDenied if it refuses.

    Args:
        connection: the clients.
        bucket: the bucket's name.
        prefix: with or without slashes at its ends; empty for the whole bucket.
    """

    def __init__(self, connection: S3Connection, bucket: str, prefix: str) -> None:
        self._connection = connection
        self._client = connection.client
        self._bucket = bucket
        self._prefix = f"{check_prefix(prefix.strip('/'))}/" if prefix.strip("/") else ""

    def begin(self, key: Key) -> PendingUpload:
        """Begin an upload. If the reply is lost, the server may keep an upload that nobody knows of."""
        answer = self._do(
            "begin to write",
            key,
            lambda: self._client.create_multipart_upload(Bucket=self._bucket, Key=self._full(key)),
        )
        return PendingUpload(key, answer["UploadId"])

    def put_part(self, upload: PendingUpload, number: int, content: bytes | memoryview) -> str:
        """Upload a part and return its tag. All parts but the last have at least 5 MiB; numbers begin with 1."""
        answer = self._do(
            "write",
            upload.key,
            lambda: self._client.upload_part(
                Bucket=self._bucket,
                Key=self._full(upload.key),
                UploadId=upload.id,
                PartNumber=number,
                Body=bytes(content),
            ),
        )
        return answer["ETag"]

    def parts(self, upload: PendingUpload) -> Mapping[int, str] | None:
        """Return the tags of the uploaded parts by number; None if the upload was completed or aborted."""
        found: dict[int, str] = {}
        marker = 0
        try:
            while True:
                answer = self._client.list_parts(
                    Bucket=self._bucket, Key=self._full(upload.key), UploadId=upload.id, PartNumberMarker=marker
                )
                found.update({part["PartNumber"]: part["ETag"] for part in answer.get("Parts", [])})
                if not answer.get("IsTruncated"):
                    return found
                marker = answer["NextPartNumberMarker"]
        except (ClientError, BotoCoreError) as error:
            if code_of(error) == _GONE:
                return None
            raise self._error(error, "look for the parts of", upload.key) from error

    def complete(self, upload: PendingUpload, tags: Sequence[str]) -> bool:
        """Create the object from its parts, in one step; return False if the upload was completed or aborted before.

        Some servers return success for a second completion. It changes nothing.

        Args:
            tags: the tags of its parts, in order.
        """
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, start=1)]
        try:
            self._client.complete_multipart_upload(
                Bucket=self._bucket,
                Key=self._full(upload.key),
                UploadId=upload.id,
                MultipartUpload={"Parts": parts},  # type: ignore[typeddict-item]
            )
        except (ClientError, BotoCoreError) as error:
            if code_of(error) == _GONE:
                return False
            raise self._error(error, "complete", upload.key) from error
        return True

    def abort(self, upload: PendingUpload) -> None:
        """Discard an upload and its parts; do nothing if it was completed or aborted before."""
        try:
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._full(upload.key), UploadId=upload.id)
        except (ClientError, BotoCoreError) as error:
            if code_of(error) != _GONE:
                raise self._error(error, "discard the parts of", upload.key) from error

    def list(self) -> Iterator[PendingUpload]:
        """Yield the pending uploads. A server that lists uploads of whole keys only, such as MinIO, shows none."""
        pages = iter(
            self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=self._prefix)
        )
        while (page := self._do("list uploads below", Key(""), partial(next, pages, None))) is not None:
            for each in page.get("Uploads", []):
                yield PendingUpload(Key(each["Key"].removeprefix(self._prefix)), each["UploadId"])

    def _full(self, key: Key) -> str:
        return self._prefix + check_key(key)

    def _do(self, verb: str, key: Key, call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except (ClientError, BotoCoreError) as error:
            raise self._error(error, verb, key) from error

    def _error(self, error: BaseException, verb: str, key: str) -> Exception:
        return translate(error, verb, self._bucket, self._prefix + key, self._connection.settings.shown)
