"""Unusable settings are refused before a job with an Iceberg sink starts; on real servers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, IdentityTransform
from tests.integration.sinks.by_hand import opened
from tests.integration.sinks.lakes import OLD_CHECKSUMS, Lake, access_to
from tests.servers.s3 import S3Server

from streamjob.errors import StreamJobError
from streamjob_runtime.sinks.errors import UnusableTable
from streamjob_runtime.sinks.iceberg.catalogs import CatalogRefuses, CatalogUnreachable, open_files
from streamjob_runtime.sinks.iceberg.sink import IcebergSink

pytestmark = pytest.mark.server


REFUSED = {
    "no table": ({"table": "db.reprt"}, UnusableTable, r"there is no table db\.reprt in the catalog"),
    "no namespace": ({"table": "nowhere.report"}, UnusableTable, r"there is no table nowhere\.report"),
    "another catalog": ({"catalog.name": "other"}, UnusableTable, r"there is no table db\.report"),
    "partitioned twice": ({"table": "db.twice"}, UnusableTable, "is partitioned by 'id' twice"),
    "wrong password": ({"catalog.uri": "{uri}&password=wrong"}, CatalogRefuses, "password authentication failed"),
    "no server": (
        {"catalog.uri": "postgresql+psycopg2://127.0.0.1:1/x"},
        CatalogUnreachable,
        "the catalog cannot be loaded: OperationalError.*Connection refused",
    ),
    "no driver": ({"catalog.uri": "mysql://127.0.0.1:1/x"}, CatalogRefuses, "the catalog cannot be loaded"),
    "no catalog there": (
        {"catalog.type": "rest", "catalog.uri": "http://127.0.0.1:1/"},
        CatalogUnreachable,
        "the catalog cannot be loaded: ConnectionError",
    ),
}


@pytest.mark.parametrize(("change", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_work_is_refused_at_the_start(
    lake: Lake, change: Mapping[str, str], error: type[StreamJobError], message: str
) -> None:
    lake.make("db.report")
    twice = [PartitionField(1, 1000, BucketTransform(4), "b"), PartitionField(1, 1001, IdentityTransform(), "i")]
    lake.make("db.twice", spec=PartitionSpec(*twice))
    options = {key: value.format(uri=lake.uri) for key, value in change.items()}

    with pytest.raises(error, match=f"sink report: .*{message}") as raised:
        opened(IcebergSink("report"), {**lake.options("db.report"), **options})
    assert raised.value.fix
    assert lake.database.server.password not in str(raised.value)


@pytest.mark.usefixtures("checks_credentials")
def test_a_key_that_may_not_write_is_refused_at_the_start(bucket_lake: Lake) -> None:
    bucket_lake.make("db.report")
    options = bucket_lake.options("db.report")
    with pytest.raises(CatalogRefuses, match="cannot be"):
        opened(IcebergSink("report"), {**options, "catalog.s3.secret-access-key": "wrong-secret-77"})


def test_a_server_without_the_newer_checksums_takes_each_file(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in OLD_CHECKSUMS:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    files = open_files(access_to(s3_server))
    for number in range(100):
        with files.new_output(f"s3://{s3_server.bucket}/checksums/{number}").create() as output:
            output.write(b"a small file")


def test_what_can_work_leaves_nothing_behind(lake: Lake) -> None:
    lake.make("db.report")
    sink = opened(IcebergSink("report"), lake.options("db.report"))
    sink.abort()
    sink.close()

    assert lake.files("db.report") == []
    assert lake.load("db.report").metadata.snapshots == []
