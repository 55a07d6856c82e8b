"""A job into an Iceberg table has the rows of a batch there, whichever way it ends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType
from tests.integration.runtime.embedded import Life
from tests.integration.runtime.power import Moment, Power
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.shapes import FILES, ROWS, Gates, Shape
from tests.integration.runtime.stories import Story, Way
from tests.integration.sinks.lakes import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

PASSWORD = "${env:STREAMJOB_TEST_PASSWORD}"
WINDOWS = (
    "SELECT concat_ws(' ', k, unix_seconds(window.start)) AS key, count(*) AS n FROM held_events "
    "GROUP BY k, window(at, '10 seconds')"
)
SHAPE = Shape(sources=("events",), operators=(("windows", ("held_events",), WINDOWS),), outputs=("windows",), chains=1)
COLUMNS = Schema(NestedField(1, "key", StringType(), required=True), NestedField(2, "n", LongType()))
PARTITIONS = PartitionSpec(PartitionField(1, 1000, BucketTransform(3), "key_bucket"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", [Way.KILL, Way.DRAIN])
def test_the_table_holds_the_rows_of_a_batch_whichever_way_the_job_ends(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    monkeypatch.setenv("STREAMJOB_TEST_PASSWORD", lake.database.server.password)
    lake.make("db.windows", COLUMNS, PARTITIONS)
    job = SHAPE.job(tmp_path, bounded=way is not Way.DRAIN)
    options = lake.options("db.windows", password=PASSWORD)
    job["sinks"] += [{"name": "table", "input": "windows", "format": "iceberg", "options": options}]
    one = Life(file=write_job(tmp_path / "job", job), location=str(tmp_path / "snapshots"))
    story = Story(spark, one, Gates(SHAPE, tmp_path), Power(monkeypatch), endless=way is Way.DRAIN)

    if way is Way.DRAIN:
        story.drain(FILES * ROWS)
    else:
        story.end_at_the_gates(way, Moment.PUBLICATION)
        story.go_on_to_the_end()

    assert Counter(lake.rows("db.windows")) == SHAPE.batch(spark, tmp_path)["windows"]
    assert lake.stray("db.windows") == []
