"""The translation of botocore's errors for a store."""

from __future__ import annotations

import pytest
from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from streamjob.store import (
    AccessDenied,
    BucketMissing,
    CredentialsExpired,
    CredentialsRejected,
    ObjectMissing,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from streamjob.store.s3_errors import translate


def client_error(code: str, status: int) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "words"}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "GetObject",
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (client_error("NoSuchKey", 404), ObjectMissing),
        (client_error("404", 404), ObjectMissing),
        (client_error("NoSuchBucket", 404), BucketMissing),
        (client_error("AccessDenied", 403), AccessDenied),
        (client_error("SomethingNew", 403), AccessDenied),
        (client_error("", 401), AccessDenied),
        (client_error("InvalidAccessKeyId", 403), CredentialsRejected),
        (client_error("SignatureDoesNotMatch", 403), CredentialsRejected),
        (client_error("ExpiredToken", 400), CredentialsExpired),
        (client_error("QuotaExceeded", 403), StoreFull),
        (client_error("SlowDown", 503), StoreUnavailable),
        (client_error("SlowDown", 200), StoreUnavailable),
        (client_error("SomethingNew", 502), StoreUnavailable),
        (client_error("SomethingNew", 429), StoreUnavailable),
        (client_error("NoSuchUpload", 404), StoreUnavailable),
        (client_error("SomethingNew", 400), StoreError),
        (client_error("NotImplemented", 501), StoreError),
        (NoCredentialsError(), StoreDenied),
        (EndpointConnectionError(endpoint_url="http://host"), StoreUnavailable),
        (ReadTimeoutError(endpoint_url="http://host"), StoreUnavailable),
        (ConnectionResetError("reset"), StoreUnavailable),
    ],
)
def test_an_error_has_one_class_for_its_cause(error: BaseException, expected: type[StoreError]) -> None:
    meant = translate(error, "read", "bucket", "prefix/key", "http://host")

    assert type(meant) is expected
    assert "bucket" in meant.what
    assert "http://host" in meant.what


def test_an_error_that_wraps_a_servers_answer_stands_for_that_answer() -> None:
    wrapped = S3UploadFailedError("failed")
    wrapped.__context__ = client_error("AccessDenied", 403)

    assert type(translate(wrapped, "write", "bucket", "key", "AWS")) is AccessDenied
