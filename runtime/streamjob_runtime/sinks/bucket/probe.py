"""Tests, before a sink first writes to a place, whether the bucket's multipart uploads can carry exactly-once."""

from __future__ import annotations

import contextlib

from streamjob.errors import InvalidInput
from streamjob.ids import Key
from streamjob.store.base import Store, StoreError
from streamjob.store.s3_uploads import S3Uploads

_FIX = "use another S3 server (AWS, MinIO and other current ones keep uploads as S3 does), or a directory"


class UnsuitableBucket(InvalidInput):
    """The bucket's multipart uploads do not behave as in S3: rows could be lost, or seen twice; nothing was started."""


def probe_uploads(uploads: S3Uploads, objects: Store, key: Key) -> None:
    """Return normally if uploads stay invisible until they are completed, and take effect once; sends 16 requests.

    Args:
        uploads: the uploads below the sink's path.
        objects: the objects there.
        key: of an object that no other prober uses.

    Raises:
        UnsuitableBucket: the server has other rules.
        StoreDenied: it refuses the credentials, or they lack a right.
        StoreError: it gives no usable answer, so the result is unknown.
    """
    try:
        _complete_twice(uploads, objects, key)
        _complete_after_abort(uploads, objects, key)
    finally:
        # The first error is the relevant one.
        with contextlib.suppress(StoreError):
            objects.delete([key])


def _complete_twice(uploads: S3Uploads, objects: Store, key: Key) -> None:
    upload = uploads.begin(key)
    tag = uploads.put_part(upload, 1, b"probe")
    if _exists(objects, key):
        raise UnsuitableBucket(f"{objects.uri} shows an upload that is not completed", _FIX)
    if uploads.parts(upload) != {1: tag}:
        raise UnsuitableBucket(f"{objects.uri} does not know the parts of an upload", _FIX)
    if not uploads.complete(upload, [tag]) or objects.get(key) != b"probe":
        raise UnsuitableBucket(f"{objects.uri} does not make an object of a completed upload", _FIX)
    if uploads.parts(upload) is not None:
        raise UnsuitableBucket(f"{objects.uri} keeps an upload that was completed", _FIX)
    objects.delete([key])
    with contextlib.suppress(StoreError):
        # It may answer with success, or with an error of its own, as long as it does nothing.
        uploads.complete(upload, [tag])
    if _exists(objects, key):
        raise UnsuitableBucket(f"{objects.uri} completes an upload twice: files that a reader removed return", _FIX)


def _complete_after_abort(uploads: S3Uploads, objects: Store, key: Key) -> None:
    upload = uploads.begin(key)
    tag = uploads.put_part(upload, 1, b"probe")
    uploads.abort(upload)
    with contextlib.suppress(StoreError):
        uploads.complete(upload, [tag])
    if _exists(objects, key):
        raise UnsuitableBucket(f"{objects.uri} completes an upload that was aborted", _FIX)


def _exists(objects: Store, key: Key) -> bool:
    return any(each.key == key for each in objects.list(key))
