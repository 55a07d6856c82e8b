"""Batches of a running query get larger while more data waits, and never exceed the limits that a job sets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamjob.ids import BatchId, OperatorUid
from streamjob.job.model.spec import SourceSpec
from streamjob.protocol.batch_size import Bounds
from streamjob.protocol.emissions.channels import Segment
from streamjob_runtime.chain.channels.stream import LocalSegments, Stream
from streamjob_runtime.chain.sources.batch_limits import BatchLimits, with_first_limit
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

UID = OperatorUid("in")
FILES, LINES = 60, 10


def _files(directory: Path) -> Path:
    source = directory / "in"
    source.mkdir()
    for number in range(FILES):
        file = source / f"{number:03}.txt"
        file.write_text("x\n" * LINES)
        os.utime(file, (number + 1, number + 1))
    return source


def _batches(
    spark: SparkSession, frame: DataFrame, bounds: Bounds, directory: Path, seconds: float, *, available_now: bool
) -> list[int]:
    """Return the number of rows of each batch, each of which claims to have taken `seconds`."""
    counts: list[int] = []
    limits: list[BatchLimits] = []

    def process(batch: DataFrame, _: int) -> None:
        if not limits:
            limits.append(BatchLimits(spark, query, (UID,), {UID: bounds}, 5.0))
        counts.append(batch.count())
        limits[0].ran(seconds)

    writer = frame.writeStream.foreachBatch(process).option("checkpointLocation", str(directory / "checkpoint"))
    query = (writer.trigger(availableNow=True) if available_now else writer).start()
    if available_now:
        query.awaitTermination()
    else:
        query.processAllAvailable()
        query.stop()
    return counts


def _of_files(
    spark: SparkSession, directory: Path, options: Mapping[str, str], seconds: float, *, available_now: bool = True
) -> list[int]:
    limited, bounds = with_first_limit("text", options, 1)
    assert bounds is not None
    if "maxBytesPerTrigger" in limited and not options:
        # A file of the test is small.
        bounds = Bounds(2 * LINES)
        limited["maxBytesPerTrigger"] = str(bounds.first)
    options = {"path": str(_files(directory)), **limited}
    files = DiscoveredFiles(spark, SourceSpec(name="in", format="text", options=options), options)
    frame = files.stream("text", options, None)
    files.offer_sample()
    return _batches(spark, frame, bounds, directory, seconds, available_now=available_now)


@pytest.mark.parametrize("available_now", [True, False])
def test_batches_of_files_grow_fourfold_while_they_are_fast(
    spark: SparkSession, tmp_path: Path, available_now: bool
) -> None:
    counts = _of_files(spark, tmp_path, {}, 0.1, available_now=available_now)

    # A file has 20 bytes: one, four and sixteen of them, and the rest.
    assert counts == [LINES, 4 * LINES, 16 * LINES, 39 * LINES]


def test_batches_of_files_never_exceed_the_jobs_own_limit(spark: SparkSession, tmp_path: Path) -> None:
    counts = _of_files(spark, tmp_path, {"maxFilesPerTrigger": "20"}, 0.1)

    assert counts == [20 * LINES] * 3


def test_slow_batches_shrink_below_the_jobs_own_limit(spark: SparkSession, tmp_path: Path) -> None:
    counts = _of_files(spark, tmp_path, {"maxFilesPerTrigger": "20"}, 10.0)

    # The first batch of a query includes Spark's warm-up, and does not count.
    assert counts[:3] == [20 * LINES, 20 * LINES, 10 * LINES]


def test_batches_of_a_channel_grow_up_to_the_jobs_limit(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, str(tmp_path / "stream"), LocalSegments(tmp_path / "stream"))
    rows = spark.range(10).toDF("id").coalesce(1)
    entries: list[tuple[Segment, ...]] = [stream.write(rows, BatchId(number)) for number in range(60)]
    stream.extend(0, entries)
    stream.serve("reader", 60, 200)
    bounds = Bounds(20, 200)
    frame = stream.reader("reader", rows.schema, first_records=bounds.first).frame
    try:
        counts = _batches(spark, frame, bounds, tmp_path, 0.1, available_now=True)
    finally:
        stream.close()

    assert counts == [20, 80, 200, 200, 100]
