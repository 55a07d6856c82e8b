"""The Iceberg sink passes the kit, with its catalog on a real server, into a table with partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)
from sqlalchemy.orm import Session
from tests.integration.sinks.damage import flip_a_bit
from tests.integration.sinks.lakes import Lake

from streamjob.sink import Sink
from streamjob.testing.sink_harness import Row
from streamjob.testing.sink_kit import SinkConformance
from streamjob_runtime.sinks.iceberg.sink import IcebergSink

pytestmark = [pytest.mark.spark, pytest.mark.server]

TABLE = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "amount", DecimalType(10, 2)),
    NestedField(4, "ratio", DoubleType()),
    NestedField(5, "flag", BooleanType()),
    NestedField(6, "day", DateType()),
    NestedField(7, "at", TimestamptzType()),
)


class TestIcebergSink(SinkConformance):
    # Before the table's new metadata is written, before the catalog is updated, and after that.
    effects = ((SqlCatalog, "commit_table"), (Session, "execute"), (SqlCatalog, "_delete_old_metadata"))
    partitions = PartitionSpec(
        PartitionField(7, 1000, DayTransform(), "at_day"), PartitionField(1, 1001, BucketTransform(2), "id_bucket")
    )

    @pytest.fixture(autouse=True)
    def _table(self, lake: Lake) -> None:
        self.lake = lake
        lake.make("db.report", TABLE, self.partitions)

    def make_sink(self, place: Path) -> Sink:
        return IcebergSink("report", wait=lambda seconds: None)

    def options(self, place: Path) -> Mapping[str, str]:
        return self.lake.options("db.report")

    def visible_rows(self, place: Path) -> Sequence[Row]:
        return [(*row[:-1], row[-1] and row[-1].replace(tzinfo=None)) for row in self.lake.rows("db.report")]

    def consume(self, place: Path) -> None:
        with self.lake.catalog() as catalog:
            catalog.load_table("db.report").delete()

    def lose_staged(self, place: Path) -> None:
        for file in self.lake.stray("db.report"):
            Path(file.removeprefix("file://")).unlink()

    def damage_staged(self, place: Path) -> None:
        flip_a_bit(Path(next(iter(self.lake.stray("db.report"))).removeprefix("file://")))

    def leftovers(self, place: Path) -> int:
        return len(self.lake.stray("db.report"))

    def keep(self, place: Path) -> Callable[[], None]:
        server, name, kept = self.lake.database.server, self.lake.database.name, f"kept_{uuid4().hex[:12]}"
        server.make_database(kept, template=name)
        bring_back_files = super().keep(place)

        def bring_back() -> None:
            server.drop_database(name)
            server.make_database(name, template=kept)
            bring_back_files()

        return bring_back
