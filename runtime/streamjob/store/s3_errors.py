"""Translates botocore's errors into store errors. Messages name bucket, key and endpoint, and never a credential."""

from __future__ import annotations

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)

from streamjob.store.base import (
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

_MISSING = {"NoSuchKey", "404", "NotFound", "NoSuchVersion"}
_WRONG_CREDENTIALS = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "AuthorizationHeaderMalformed",
    "InvalidSecurity",
    "XAdminUserNotFound",
}
_CHECK_CREDENTIALS = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, region and endpoint"
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_NOT_ALLOWED = {"AccessDenied", "403", "Forbidden", "AllAccessDisabled", "AccountProblem", "NotSignedUp"}
_WRONG_REGION = {"PermanentRedirect", "301", "IllegalLocationConstraintException", "Redirect"}
_FULL = {"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "507", "XAmzQuotaExceeded", "NoSpaceLeft"}
# NoSuchUpload: if the answer to a completed upload is lost, the retry finds that the upload no longer exists.
_TRANSIENT = {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "OperationAborted", "NoSuchUpload"}


def code_of(error: BaseException) -> str:
    """Return the server's error code, or an empty string if no server answered."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def status_of(error: BaseException) -> int:
    """Return the HTTP status of the answer, or 0 if no server answered."""
    if not isinstance(error, ClientError):
        return 0
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def translate(error: BaseException, verb: str, bucket: str, key: str, endpoint: str) -> StoreError:
    """Return the store's error for an error of botocore or s3transfer.

    Args:
        error: the caught error; if it wraps a server's answer, the answer counts.
        verb: the operation, for the message.
        key: the full key or prefix.
        endpoint: the server, for the message.
    """
    error = _innermost(error)
    code, status = code_of(error), status_of(error)
    what = f"cannot {verb} s3://{bucket}/{key} at {endpoint}: {_reason(error, code, status)}"
    if code == "NoSuchBucket":
        return BucketMissing(
            f"the bucket {bucket} does not exist at {endpoint}", "create it, or correct the location or endpoint"
        )
    if code in _MISSING or (status == 404 and not code):
        return ObjectMissing(f"s3://{bucket}/{key} does not exist at {endpoint}")
    if code == "InvalidRange" or status == 416:
        return StoreError(f"s3://{bucket}/{key} ends before the range that was asked for: it has been cut or replaced")
    if code in _WRONG_CREDENTIALS:
        return CredentialsRejected(what, _CHECK_CREDENTIALS)
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return StoreDenied(what, _CHECK_CREDENTIALS)
    if code in _EXPIRED:
        return CredentialsExpired(
            what, "renew AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and start the process again"
        )
    if code == "RequestTimeTooSkewed":
        return StoreDenied(what, "set this machine's clock")
    if code in _FULL or status == 507:
        return StoreFull(what, f"free space or raise the quota of the bucket {bucket}")
    if code in _NOT_ALLOWED or status in (401, 403):
        return AccessDenied(
            what,
            f"allow s3:ListBucket on {bucket} and s3:GetObject, PutObject, DeleteObject, AbortMultipartUpload below it",
        )
    if code in _WRONG_REGION:
        return StoreDenied(what, f"set AWS_REGION to the region of the bucket {bucket}")
    if code in _TRANSIENT or (status >= 500 and status != 501) or status == 429:
        return StoreUnavailable(what)
    if isinstance(error, ParamValidationError):
        return StoreError(what, "correct the location")
    if isinstance(error, BotoCoreError | OSError | CredentialRetrievalError):
        return StoreUnavailable(what)
    return StoreError(what)


def _innermost(error: BaseException) -> BaseException:
    # boto3's transfers wrap the answer in an error of their own, not always as its cause.
    seen = error
    while not isinstance(seen, ClientError | BotoCoreError):
        inner = seen.__cause__ or seen.__context__
        if inner is None:
            return error
        seen = inner
    return seen


def _reason(error: BaseException, code: str, status: int) -> str:
    if isinstance(error, ClientError):
        message = str(error.response.get("Error", {}).get("Message", "")).strip()
        return f"{code or status} {message}".strip()
    return f"{type(error).__name__}: {error}"
