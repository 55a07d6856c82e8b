"""Spark's access to buckets: Hadoop's S3A, with the server, the region and the credentials of the snapshot store.

Its jars are `artifacts.S3A`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing

from streamjob.errors import InvalidInput, StreamJobError
from streamjob.job.connectors import iceberg
from streamjob.job.connectors.file_source import in_bucket
from streamjob.job.connectors.options import option, substitute
from streamjob.job.model.formats import FILE_FORMATS
from streamjob.job.model.spec import JobSpec, SinkSpec, TableSpec

S3A = "s3a"
"""The name of this connector: no format, but a scheme of paths; `s3://` means the same."""
_PATTERN = re.compile(r"[\\{}\[\]*?]")
_ELSEWHERE = re.compile(r"/|(?!s3a?:)[a-z][a-z0-9+.-]*:/", re.IGNORECASE)
_FILE_SYSTEM = "org.apache.hadoop.fs.s3a.S3AFileSystem"


def reaches_buckets(spec: JobSpec, environment: Mapping[str, str]) -> bool:
    """Return whether Spark itself reads or writes a path in a bucket; our exactly-once sink does not use Spark.

    Where the files of an Iceberg table are, its catalog may know alone: then they are taken to be in a bucket.
    """
    tables = [each.options.get("catalog.warehouse", "") for each in spec.sources if each.format == iceberg.FORMAT]
    if any(not _ELSEWHERE.match(_resolved(each, environment)) for each in tables):
        return True
    spark_does = (
        each for each in spec.connectors() if not isinstance(each, SinkSpec) or each.delivery == "at-least-once"
    )
    return any(in_bucket(_resolved(option(each.options, "path") or "", environment)) for each in spark_does)


class NothingInBucket(InvalidInput):
    """A path in a bucket cannot be read as a whole, since no object is there."""

    @classmethod
    def at(cls, who: str, path: str) -> NothingInBucket:
        """Return the error for a source or table."""
        return cls(f"{who}: there is no object at {path}", "correct the path, or put the first object there")


def ensure_objects(table: TableSpec, options: Mapping[str, str]) -> None:
    """Check that a table is in no bucket, or that an object is there; Hadoop would report it after many attempts.

    Args:
        options: its options, resolved.

    Raises:
        NothingInBucket: no object is there.
        BucketMissing, CredentialsRejected, CredentialsExpired, AccessDenied: S3 refuses.
        StoreUnavailable: S3 does not answer.
    """
    path = option(options, "path") or ""
    if table.format not in FILE_FORMATS or not in_bucket(path):
        return
    label = f"Table {table.name!r}"
    from streamjob.store.base import StoreError
    from streamjob.store.s3 import S3Store
    from streamjob.store.s3_connection import S3Connection, S3Settings

    bucket, _, key = path.partition("://")[2].partition("/")
    directory, _, name = _PATTERN.split(key)[0].rpartition("/")
    with closing(S3Store(S3Connection(S3Settings.from_environment()), bucket, directory)) as objects:
        try:
            first = next(objects.list(name), None)
        except StoreError as error:
            raise type(error)(f"{label}: {error.what}", error.fix) from error
        if first is None:
            raise NothingInBucket.at(label, path)


class AccessMissing(InvalidInput):
    """No environment variable says how to access the bucket of a source."""


def access_of(who: str, name: str | None, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the AWS variables for a source, from those whose names begin with its option `access`.

    Raises:
        AccessMissing: there is none.
    """
    if name is None:
        return environment
    found = {each.removeprefix(f"{name}_"): value for each, value in environment.items() if each.startswith(f"{name}_")}
    if not (found.get("AWS_ACCESS_KEY_ID") and found.get("AWS_SECRET_ACCESS_KEY")):
        raise AccessMissing(
            f"{who} has access: {name}, and {name}_AWS_ACCESS_KEY_ID or {name}_AWS_SECRET_ACCESS_KEY is not set",
            f"set both, and what else differs, such as {name}_AWS_ENDPOINT_URL and {name}_AWS_REGION",
        )
    return found


def settings_of_bucket(bucket: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's settings for one bucket, from AWS variables.

    Raises:
        InvalidInput: a variable has a value that cannot be used.
    """
    # Without a value, those of the snapshot store would count.
    settings = {"endpoint": "", "endpoint.region": "", **_settings(environment)}
    from streamjob.store.s3_connection import S3Credentials

    if (given := S3Credentials.from_environment(environment)) is not None:
        kind = "SimpleAWSCredentialsProvider" if given.session_token is None else "TemporaryAWSCredentialsProvider"
        settings |= {
            "aws.credentials.provider": f"org.apache.hadoop.fs.s3a.{kind}",
            "access.key": given.access_key,
            "secret.key": given.secret_key,
        }
        if given.session_token is not None:
            settings["session.token"] = given.session_token
    return {f"fs.{S3A}.bucket.{bucket}.{name}": value for name, value in settings.items()}


def s3a_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings for S3A, from the AWS variables that the snapshot store uses.

    Raises:
        InvalidInput: a variable has a value that cannot be used.
    """
    settings = {"impl": _FILE_SYSTEM, **_settings(environment)}
    return {f"spark.hadoop.fs.{S3A}.{name}": value for name, value in settings.items()} | {
        "spark.hadoop.fs.s3.impl": _FILE_SYSTEM
    }


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    # It loads boto3, which a local job does without.
    from streamjob.store.s3_connection import S3Settings

    given = S3Settings.from_environment(environment)
    custom = given.endpoint is not None
    path_style = custom if given.path_style is None else given.path_style
    settings = {
        # Variables, the profile, a web identity, the container's and the machine's role, as boto3 does.
        "aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        "path.style.access": str(path_style).lower(),
        # Hadoop's default, which reads ahead in Parquet, takes more CPU for whole files.
        "input.stream.type": "classic",
        "connection.establish.timeout": f"{given.connect_timeout:g}s",
        "connection.timeout": f"{given.read_timeout:g}s",
    }
    if given.endpoint is not None:
        settings["endpoint"] = given.endpoint
    if region := given.region or ("us-east-1" if custom else None):
        settings["endpoint.region"] = region
    return settings


def _resolved(path: str, environment: Mapping[str, str]) -> str:
    try:
        return substitute(path, environment)
    except StreamJobError:
        # The start names the variable that is missing.
        return path
