"""Buckets of one test on a real S3 server, whose directory Spark reads."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.servers.s3 import S3Server

from streamjob.store.s3 import S3Store
from streamjob.store.s3_connection import S3Connection, S3Settings
from streamjob.store.s3_uploads import S3Uploads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Bucket:
    """A bucket, and a path in it for a sink.

    Args:
        server: its server.
        name: its name.
        objects: the objects below the path.
        uploads: the pending uploads below the path.
    """

    server: S3Server
    name: str
    objects: S3Store
    uploads: S3Uploads

    @property
    def path(self) -> str:
        """The path for a sink."""
        return f"s3://{self.name}/lake/out"

    @property
    def root(self) -> Path:
        """The directory in which the server keeps the bucket, with its pending uploads."""
        return self.server.directory / "data" / self.name

    @property
    def directory(self) -> Path:
        """The directory in which the server keeps the objects below the path; Spark reads it as it reads the bucket."""
        return self.root / "lake" / "out"

    def files(self) -> list[str]:
        """Return the keys of the visible files, relative to the path."""
        return [each.key for each in self.objects.list("") if not each.key.startswith("_streamjob/")]

    def pending(self) -> list[str]:
        """Return the keys of the pending uploads, relative to the path."""
        return [upload.key for upload in self.uploads.list()]


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """Return a bucket with credentials for it in the environment of this process."""
    if not s3_server.is_versitygw:
        pytest.skip("the tests read the directory of versitygw, which is not here")
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    name = f"out-{secrets.token_hex(6)}"
    s3_server.make_bucket(name)
    connection = S3Connection(S3Settings.from_environment())
    yield Bucket(s3_server, name, S3Store(connection, name, "lake/out"), S3Uploads(connection, name, "lake/out"))
    connection.close()


@contextmanager
def environment_of_tasks(spark: SparkSession, environment: Mapping[str, str]) -> Iterator[None]:
    """Give Spark's Python workers variables; they have the environment in which the JVM was started."""
    own = dict(spark.sparkContext.environment)
    spark.sparkContext.environment.update(environment)
    try:
        yield
    finally:
        spark.sparkContext.environment.clear()
        spark.sparkContext.environment.update(own)
