"""A savepoint on S3 is copied to another bucket; other jobs start from the copy alone, in either claim mode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from tests.integration.runtime.embedded import Life, running
from tests.integration.runtime.forks import fresh_sinks, published_up_to
from tests.integration.runtime.processes import JobRuns
from tests.integration.runtime.purchases import Purchases, line_rows, table_rows, write_job
from tests.servers.s3 import S3Server

from streamjob.errors import ExitCode
from streamjob.ids import TriggerId
from streamjob.protocol.coordination.triggers import TriggerState
from streamjob.protocol.log.restore import ClaimMode
from streamjob.snapshot.manifest import Manifest
from streamjob.stored.locations import find_snapshot
from streamjob.stored.reading import read_snapshot
from streamjob.stored.verify import verify
from streamjob_runtime.checkpointing.ledger import RestoreFrom

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

KEEP_ALL = ("checkpointing.numRetained=100", "checkpointing.interval=1h")
OTHER_BUCKET = "elsewhere"


@pytest.fixture
def s3(s3: S3Server) -> S3Server:
    s3.make_bucket(OTHER_BUCKET)
    return s3


class Buckets:
    """Moves objects between buckets, as a user would."""

    def __init__(self, server: S3Server) -> None:
        self._client = boto3.client(
            "s3",
            endpoint_url=server.endpoint,
            region_name=server.region,
            aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key,
        )

    def keys(self, bucket: str, prefix: str) -> list[str]:
        """Return the keys below a prefix."""
        found = self._client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
        return [each["Key"] for each in found]

    def move(self, bucket: str, prefix: str, other: str, into: str) -> None:
        """Copy what is below a prefix to another bucket, and delete it."""
        for key in self.keys(bucket, prefix):
            body = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
            self._client.put_object(Bucket=other, Key=into + key.removeprefix(prefix), Body=body)
            self._client.delete_object(Bucket=bucket, Key=key)


def whole_savepoint(uri: str) -> Manifest:
    """Check that all of a savepoint is there, below it; return its manifest."""
    place = find_snapshot(uri)
    assert place is not None
    found = read_snapshot(place)
    assert found.manifest is not None
    assert found.manifest.kind == "savepoint"
    assert verify([found]).whole
    assert not any("://" in name for name in found.manifest.objects())
    return found.manifest


@pytest.mark.timeout(300)
def test_a_savepoint_in_one_bucket_is_moved_to_another_and_restored_under_other_names(
    s3: S3Server, spark: SparkSession, tmp_path: Path
) -> None:
    few = Purchases.write(tmp_path / "input", files=6, rows=30)
    expected = few.batch(spark)
    job_file = few.job(channels={"capacityRecords": 30, "maxBatchRecords": 30})
    job_file["operators"][0]["chain"] = False
    location = f"s3://{s3.bucket}/{tmp_path.name}"
    life = Life(file=write_job(tmp_path / "job", job_file), location=location, overrides=KEEP_ALL)

    with running(spark, life) as job:
        job.wait_for_batches()
        job.control.trigger_savepoint(f"{location}-savepoints", TriggerId("s"))

        def is_taken() -> bool:
            view = job.control.trigger(TriggerId("s"))
            assert view is not None
            assert view.state is not TriggerState.FAILED, view.failure
            return view.state is TriggerState.COMPLETED

        job.wait_for(is_taken, "the savepoint")
        assert job.wait() is ExitCode.OK
    buckets, prefix = Buckets(s3), f"{tmp_path.name}-savepoints/"
    (manifest,) = (key for key in buckets.keys(s3.bucket, prefix) if key.endswith("/manifest.json"))
    buckets.move(s3.bucket, manifest.removesuffix("manifest.json"), OTHER_BUCKET, "quite/another/place/")
    assert buckets.keys(s3.bucket, prefix) == []

    moved = f"s3://{OTHER_BUCKET}/quite/another/place"
    taken = whole_savepoint(moved)
    earlier = published_up_to(spark, life.file.parent / "lines", taken.id, tmp_path / "earlier")
    assert earlier != expected, "the savepoint covers everything: restoring it proves nothing"
    for mode in (ClaimMode.NO_CLAIM, ClaimMode.CLAIM):
        sinks = tmp_path / mode.value
        other = replace(
            life,
            location=f"s3://{s3.bucket}/others",
            name=f"other-{mode.value}",
            overrides=(*KEEP_ALL, *fresh_sinks(sinks)),
            restore_from=RestoreFrom(moved, mode),
        )
        with running(spark, other) as job:
            assert job.wait() is ExitCode.OK
            restored = job.control.job().restored_from
        assert restored is not None
        assert restored.id == taken.id
        assert earlier + line_rows(spark, sinks / "lines") == expected, mode
        assert earlier + table_rows(spark, sinks / "table") == expected, mode
        runs = JobRuns(other.file, other.location, other.name)
        first = runs.manifest(runs.completions()[0])
        runs.end()
        assert first is not None
        assert not any(OTHER_BUCKET in name for name in first.objects())
        assert whole_savepoint(moved) == taken
