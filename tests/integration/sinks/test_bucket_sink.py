"""Exactly-once files in a bucket on a real S3 server: their content, their requests, and what goes wrong."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset
import pytest
from pyarrow import fs
from tests.integration.sinks import by_hand
from tests.integration.sinks.buckets import Bucket, environment_of_tasks
from tests.integration.sinks.by_hand import commit
from tests.servers.faulty import FaultyProxy, answer, cut_after_applying
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.ids import BatchId, Epoch, Key, OperatorUid
from streamjob.job.connectors.options import UnusableOptions
from streamjob.sink import SinkContext, Staged
from streamjob.store.base import CredentialsRejected, StoreError
from streamjob.store.s3_connection import S3Connection, S3Settings
from streamjob.stored.sparks_output import SINK_LOG as LOG
from streamjob_runtime.sinks.bucket import rows
from streamjob_runtime.sinks.bucket.sink import BucketSink
from streamjob_runtime.sinks.errors import PlaceOfQuery, PlaceTaken, UnusableSink
from streamjob_runtime.spark.text.text_forms import writer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

COLUMNS = (
    "id bigint, name string, amount decimal(10,2), ratio double, flag boolean, day date, at timestamp, "
    "local timestamp_ntz, small tinyint, raw binary, tags array<string>, sizes map<string,int>, place struct<x int>"
)
ROWS = [
    (
        1, 'naïve "x", y\nz', None, 1.5, True, datetime.date(2013, 1, 1), datetime.datetime(2013, 7, 1, 5, 17),
        datetime.datetime(2013, 7, 1, 5, 17), 1, bytearray(b"ab"), ["a", None], {"s": 1}, (1,),
    ),
    (2, None, None, None, None, datetime.date(1200, 2, 28), datetime.datetime(1200, 1, 1), *[None] * 6),
    (3, "", None, float("inf"), False, None, None, None, None, bytearray(), [], {}, (None,)),
]  # fmt: skip


@pytest.fixture
def tasks(spark: SparkSession, bucket: Bucket) -> Iterator[SparkSession]:
    """Return the session, whose tasks find the credentials of the bucket."""
    with environment_of_tasks(spark, bucket.server.environment):
        yield spark


@pytest.fixture
def proxy(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """Return a proxy through which sinks of this test reach the bucket."""
    with FaultyProxy(bucket.server.port) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
        yield running


def opened(
    bucket: Bucket,
    file_format: str = "parquet",
    options: Mapping[str, str] | None = None,
    partition_by: Sequence[str] = (),
    epoch: int = 1,
    job: str = "departures",
) -> BucketSink:
    return by_hand.opened(BucketSink("report", file_format, bucket.path, partition_by), options or {}, epoch, job)


def files_of(staged: Staged) -> list[str]:
    assert isinstance(staged.committable, dict)
    files = staged.committable["files"]
    assert isinstance(files, list)
    return [str(file["path"]) for file in files if isinstance(file, dict)]


def many_rows(spark: SparkSession) -> DataFrame:
    """Return rows of two tasks, too many for the driver."""
    return spark.range(200_000, numPartitions=2).toDF("id")


@pytest.mark.parametrize(
    ("file_format", "options", "partition_by"),
    [
        ("parquet", {}, []),
        ("parquet", {"compression": "zstd"}, ["day", "flag"]),
        ("json", {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd HH"}, ["name"]),
        ("csv", {"header": "true", "sep": ";", "nullValue": "-", "quoteAll": "true"}, []),
        ("csv", {"compression": "gzip"}, ["FLAG"]),
        ("text", {"lineSep": "|"}, ["flag"]),
    ],
)
def test_a_file_has_what_sparks_own_writer_would_have_written(
    tasks: SparkSession,
    bucket: Bucket,
    tmp_path: Path,
    file_format: str,
    options: Mapping[str, str],
    partition_by: Sequence[str],
) -> None:
    batch = tasks.createDataFrame(ROWS, COLUMNS).coalesce(1)
    if file_format == "csv":
        batch = batch.drop("raw", "tags", "sizes", "place")
    if file_format == "text":
        batch = batch.select("name", "flag")
    given = writer_options(file_format, options)
    batch.write.format(file_format).options(**given).partitionBy(*partition_by).save(str(tmp_path / "expected"))
    sink = opened(bucket, file_format, options, partition_by)
    sink.check_schema(batch.schema)

    commit(sink, 1, sink.stage(batch, BatchId(0)))

    def read(place: Path) -> DataFrame:
        return tasks.read.format(file_format).options(**options).load(str(place))

    expected, found = read(tmp_path / "expected"), read(bucket.directory)
    assert found.schema == expected.schema
    assert sorted(map(repr, found.collect())) == sorted(map(repr, expected.collect()))
    if file_format != "parquet":
        assert contents(bucket.directory) == contents(tmp_path / "expected")


def contents(place: Path) -> dict[str, bytes]:
    """Return the text of the files of a directory, by partition; compressed bytes differ between libraries."""
    import gzip

    return {
        str(file.parent.relative_to(place)): gzip.decompress(file.read_bytes())
        if file.suffix == ".gz"
        else file.read_bytes()
        for file in place.rglob("part-*")
    }


def test_a_reader_without_spark_finds_the_rows_through_the_server(tasks: SparkSession, bucket: Bucket) -> None:
    sink = opened(bucket, partition_by=["parity"])
    batch = many_rows(tasks).selectExpr("id", "id % 2 AS parity")
    staged = sink.stage(batch, BatchId(0))

    def found() -> int:
        server = fs.S3FileSystem(
            access_key=bucket.server.access_key,
            secret_key=bucket.server.secret_key,
            endpoint_override=bucket.server.endpoint,
            region=bucket.server.region,
        )
        place = f"{bucket.name}/lake/out"
        return int(pyarrow.dataset.dataset(place, filesystem=server, partitioning="hive").count_rows())

    assert staged.rows == 200_000
    assert bucket.files() == []
    assert found() == 0
    commit(sink, 1, staged)
    assert found() == 200_000


def test_many_rows_are_uploaded_by_the_tasks_and_never_reach_the_driver(tasks: SparkSession, bucket: Bucket) -> None:
    sink = opened(bucket)
    with environment_of_tasks(tasks, {"AWS_SECRET_ACCESS_KEY": "wrong"}):
        # The driver's credentials are right, so an upload from there would succeed.
        with pytest.raises(Exception, match="SignatureDoesNotMatch"):
            sink.stage(many_rows(tasks), BatchId(0))
        few = sink.stage(tasks.range(10), BatchId(1))

    commit(sink, 1, few)
    assert tasks.read.parquet(str(bucket.directory)).count() == 10
    assert bucket.pending() == []


@pytest.mark.core
def test_a_batch_takes_two_requests_and_a_checkpoint_one_and_two_for_each_file(
    tasks: SparkSession, bucket: Bucket, proxy: FaultyProxy
) -> None:
    sink = opened(bucket)
    assert sum(proxy.requests.values()) == 19  # look for the owner and a query, test the server, claim the path
    proxy.requests.clear()

    staged = [sink.stage(tasks.range(10 * number, 10 * number + 10), BatchId(number)) for number in range(3)]
    assert dict(proxy.requests) == {"CreateMultipartUpload": 3, "UploadPart": 3}
    proxy.requests.clear()

    commit(sink, 1, staged[0])
    assert dict(proxy.requests) == {"ListParts": 1, "ListObjectsV2": 1, "PutObject": 1, "CompleteMultipartUpload": 1}
    proxy.requests.clear()

    commit(sink, 2, *staged[1:])
    assert dict(proxy.requests) == {"ListParts": 2, "PutObject": 1, "CompleteMultipartUpload": 2}
    proxy.requests.clear()

    commit(sink, 3)
    later = opened(bucket, epoch=2)
    commit(later, 2, *staged[1:])
    later.abort()
    assert dict(proxy.requests) == {"GetObject": 2, "ListParts": 2, "ListObjectsV2": 2, "ListMultipartUploads": 1}


@pytest.mark.core
def test_a_lost_reply_to_a_completion_publishes_nothing_twice(
    tasks: SparkSession, bucket: Bucket, proxy: FaultyProxy
) -> None:
    sink = opened(bucket)
    staged = sink.stage(tasks.range(10), BatchId(0))
    proxy.on("CompleteMultipartUpload", cut_after_applying)

    commit(sink, 1, staged)

    assert tasks.read.parquet(str(bucket.directory)).count() == 10
    assert proxy.requests["CompleteMultipartUpload"] > 3


def test_a_bucket_that_refuses_for_a_while_is_committed_to_by_the_next_epoch(
    tasks: SparkSession, bucket: Bucket, proxy: FaultyProxy
) -> None:
    sink = opened(bucket)
    staged = [sink.stage(tasks.range(10 * number, 10 * number + 10), BatchId(number)) for number in range(2)]
    # The commit waits for the first file; what it has begun of others after a failure is a matter of chance.
    proxy.on("CompleteMultipartUpload", answer(400, "InvalidRequest"), key=files_of(staged[1])[0])
    with pytest.raises(StoreError):
        commit(sink, 1, *staged)
    assert bucket.files() == files_of(staged[0])

    later = opened(bucket, epoch=2)
    commit(later, 1, *staged)
    later.abort()

    assert sorted(row.id for row in tasks.read.parquet(str(bucket.directory)).collect()) == list(range(20))


def test_only_uploads_of_the_sinks_lower_epochs_are_aborted(tasks: SparkSession, bucket: Bucket) -> None:
    opened(bucket, epoch=3).stage(tasks.range(10), BatchId(0))
    opened(bucket, epoch=4).stage(tasks.range(10), BatchId(0))
    opened(bucket, epoch=5).stage(tasks.range(10), BatchId(0))
    bucket.uploads.begin(Key("somebody-elses.parquet"))

    opened(bucket, epoch=4).abort()

    assert [key.split("-")[:2] for key in sorted(bucket.pending())] == [
        ["part", "4"],
        ["part", "5"],
        ["somebody", "elses.parquet"],
    ]


def test_what_a_former_path_holds_is_known_without_opening_it(tasks: SparkSession, bucket: Bucket) -> None:
    opened(bucket, epoch=3).stage(tasks.range(10), BatchId(0))
    left = BucketSink("report", "parquet", bucket.path)

    assert list(left.staged()) == bucket.pending()
    left.close()


def test_without_the_right_to_list_uploads_the_job_runs_and_says_what_stays(
    tasks: SparkSession, bucket: Bucket, proxy: FaultyProxy, caplog: pytest.LogCaptureFixture
) -> None:
    opened(bucket, epoch=1).stage(tasks.range(10), BatchId(0))
    proxy.on("ListMultipartUploads", answer(403, "AccessDenied"))

    opened(bucket, epoch=2).abort()

    assert f"uploads of former epochs stay in {bucket.path}" in caplog.text


@pytest.mark.core
def test_a_path_belongs_to_one_sink(bucket: Bucket) -> None:
    opened(bucket)
    opened(bucket, epoch=7)

    with pytest.raises(PlaceTaken, match="belongs to sink report of job default/departures"):
        opened(bucket, job="another")
    assert json.loads(bucket.objects.get(Key("_streamjob/owner")))["job"] == "departures"


@pytest.mark.parametrize("operation", ["CreateMultipartUpload", "ListParts"])
def test_a_server_without_uploads_is_refused_before_the_path_is_claimed(
    bucket: Bucket, proxy: FaultyProxy, operation: str
) -> None:
    proxy.on(operation, answer(501, "NotImplemented"), times=10)

    with pytest.raises(StoreError, match="NotImplemented"):
        opened(bucket)
    assert list(bucket.objects.list("")) == []


def test_wrong_credentials_end_the_start(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")

    with pytest.raises(CredentialsRejected, match=r"sink report: cannot .* SignatureDoesNotMatch"):
        opened(bucket)


@pytest.mark.core
def test_a_preview_changes_nothing(tasks: SparkSession, bucket: Bucket) -> None:
    sink = BucketSink("report", "csv", bucket.path)
    context = SinkContext("departures", "default", OperatorUid("report"), Epoch(1), {})
    sink.preview(context, tasks.range(1).schema)

    with pytest.raises(UnusableSink, match="array<int>, which CSV does not hold"):
        sink.preview(context, tasks.sql("SELECT array(1) AS a").schema)
    assert list(bucket.objects.list("")) == []


def test_options_without_effect_are_refused(bucket: Bucket) -> None:
    with pytest.raises(UnusableOptions, match="sink report: has no option 'mergeSchema' for parquet files"):
        opened(bucket, options={"mergeSchema": "true"})


@pytest.mark.parametrize(
    ("file_format", "query", "partition_by", "what"),
    [
        ("parquet", "1 AS a, 2 AS A", [], "two columns 'a'"),
        ("parquet", "1 AS a", ["b"], "no column 'b' to partition by"),
        ("parquet", "1 AS a", ["a"], "all columns of the rows are in partitionBy"),
        ("parquet", "1 AS a, array(1) AS b", ["b"], "'b' in partitionBy is array<int>"),
        ("json", "array(INTERVAL 1 DAY) AS a", [], "'a' is interval day, which json files"),
        ("parquet", "NULL AS a", [], "'a' is void, which parquet files"),
        ("text", "1 AS a", [], "holds one column of strings"),
        ("text", "'x' AS a, 'y' AS b", [], "holds one column of strings"),
    ],
)
def test_rows_that_the_files_cannot_hold_are_refused(
    spark: SparkSession, file_format: str, query: str, partition_by: Sequence[str], what: str
) -> None:
    found = [problem for problem, _ in rows.mismatches(file_format, spark.sql(f"SELECT {query}").schema, partition_by)]

    assert any(what in problem for problem in found), found


def test_the_output_of_a_plain_query_is_refused_until_it_is_adopted(bucket: Bucket) -> None:
    name = "part-00000-6f0c1d0e-1f1f-4f4f-8888-0123456789ab-c000.snappy.parquet"
    named = json.dumps({"path": f"s3a://{bucket.name}/lake/out/{name}", "action": "add"})
    for key, content in ((name, "x"), (name.replace("part-00000", "part-00001"), "x"), (f"{LOG}/0", f"v1\n{named}")):
        bucket.objects.put(Key(key), content.encode())
    connection = S3Connection(S3Settings.from_environment())
    connection.client.put_object(Bucket=bucket.name, Key=f"lake/out/{LOG}/", Body=b"")
    connection.close()
    with pytest.raises(PlaceOfQuery, match=f"streamjob adopt {bucket.path}"):
        opened(bucket)
    assert not list(bucket.objects.list("_streamjob/"))

    done = CliRunner().invoke(app, ["adopt", bucket.path.replace("s3:", "s3a:"), "--yes"])

    assert done.exit_code == 0, done.output
    opened(bucket).close()
    assert bucket.files() == [name]
    assert not (bucket.directory / LOG).exists()
