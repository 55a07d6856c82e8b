"""The file sink for buckets passes the kit on a real S3 server, in each format and with partition directories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.integration.sinks.buckets import Bucket, environment_of_tasks

from streamjob.sink import Sink
from streamjob.store.s3 import S3Store
from streamjob.store.s3_uploads import S3Uploads
from streamjob.testing.sink_harness import Row
from streamjob.testing.sink_kit import SinkConformance
from streamjob_runtime.sinks.bucket.sink import BucketSink

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]


class BucketSinkConformance(SinkConformance):
    """The parts common to all formats."""

    # Before the record of the commit, and before each completion.
    effects = ((S3Store, "put"), (S3Uploads, "complete"))
    file_format = "parquet"
    options_of_format: Mapping[str, str] = {}
    partition_by: Sequence[str] = ()

    @pytest.fixture(autouse=True)
    def _bucket(self, spark: Any, bucket: Bucket, _place: None) -> Iterator[None]:
        self.bucket = bucket
        self.place = bucket.root
        with environment_of_tasks(spark, bucket.server.environment):
            yield

    def make_sink(self, place: Path) -> Sink:
        return BucketSink("report", self.file_format, self.bucket.path, self.partition_by, concurrency=1)

    def options(self, place: Path) -> Mapping[str, str]:
        return {"path": self.bucket.path, **self.options_of_format}

    def visible_rows(self, place: Path) -> Sequence[Row]:
        reader = self.spark.read.format(self.file_format).schema(self.schema).options(**self.options_of_format)
        rows = reader.load(str(self.bucket.directory))
        return [tuple(row) for row in rows.select("id", "name", "amount", "ratio", "flag", "day", "at").collect()]

    def consume(self, place: Path) -> None:
        self.bucket.objects.delete([each.key for each in self.bucket.objects.list("") if "part-" in each.key])

    def lose_staged(self, place: Path) -> None:
        for upload in self.bucket.uploads.list():
            self.bucket.uploads.abort(upload)

    def leftovers(self, place: Path) -> int:
        return len(self.bucket.pending())


class TestParquet(BucketSinkConformance):
    pass


@pytest.mark.thorough
class TestCsvWithHeader(BucketSinkConformance):
    file_format = "csv"
    options_of_format: Mapping[str, str] = {"header": "true", "sep": ";"}


@pytest.mark.thorough
class TestJsonCompressed(BucketSinkConformance):
    file_format = "json"
    options_of_format: Mapping[str, str] = {"compression": "gzip"}


class TestPartitionDirectories(BucketSinkConformance):
    partition_by = ("flag",)
