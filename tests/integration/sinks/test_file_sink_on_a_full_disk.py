"""The file sink on a file system without space."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.sink import SinkContext
from streamjob_runtime.sinks.errors import PlaceFull
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink

pytestmark = pytest.mark.spark


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of one megabyte, where this user may."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("may not mount a file system")
    yield disk
    # A task that failed may not have closed its file yet.
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_is_named_and_what_was_staged_before_is_still_published(
    spark: SparkSession, small_disk: Path
) -> None:
    sink = FileSink("csv", LocalPlace(small_disk / "out"))
    sink.open(SinkContext("departures", "default", OperatorUid("report"), Epoch(1), {}))
    staged = sink.stage(spark.range(10), BatchId(0))

    with pytest.raises(PlaceFull, match=f"sink path {small_disk}/out: no space is left"):
        sink.stage(spark.range(1_000_000), BatchId(1))
    sink.commit(CheckpointId(1), [staged.committable])

    assert sorted(row.id for row in spark.read.schema("id bigint").csv(str(small_disk / "out")).collect()) == list(
        range(10)
    )
    assert list((small_disk / "out/_streamjob/staged/1").iterdir()) == []
