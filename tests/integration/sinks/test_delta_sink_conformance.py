"""The Delta sink passes the kit, on a table with partitions that the sink makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.integration.sinks.damage import flip_a_bit

from streamjob.sink import Sink
from streamjob.testing.sink_harness import Row
from streamjob.testing.sink_kit import SinkConformance
from streamjob_runtime.lakes import delta_storage as storage
from streamjob_runtime.sinks.delta.sink import DeltaSink

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class TestDeltaSink(SinkConformance):
    # Before a table is read, before the log is written, and after that.
    effects = ((storage.Storage, "find"), (DeltaTable, "create_write_transaction"), (storage.TableFiles, "__call__"))

    @pytest.fixture(autouse=True)
    def _table(self, _place: None) -> None:
        sink = self._open(9)
        assert isinstance(sink, DeltaSink)
        sink.check_schema(self.spark.createDataFrame([], self.schema).schema)

    def make_sink(self, place: Path) -> Sink:
        return DeltaSink("report", ["flag"], wait=lambda seconds: None)

    def visible_rows(self, place: Path) -> Sequence[Row]:
        table = DeltaTable(str(place)).to_pyarrow_table().to_pylist()
        return [
            (
                *(row[name.split()[0]] for name in self.schema.split(", ")[:-1]),
                row["at"] and row["at"].replace(tzinfo=None),
            )
            for row in table
        ]

    def consume(self, place: Path) -> None:
        DeltaTable(str(place)).delete()

    def lose_staged(self, place: Path) -> None:
        for file in stray(place):
            file.unlink()

    def damage_staged(self, place: Path) -> None:
        flip_a_bit(next(iter(stray(place))))

    def leftovers(self, place: Path) -> int:
        return len(stray(place))


def stray(place: Path) -> list[Path]:
    """Return the Parquet files below a table that are not part of it."""
    part = {place / path for path in pa.table(DeltaTable(str(place)).get_add_actions()).column("path").to_pylist()}
    return [file for file in place.rglob("*.parquet") if file not in part and "_delta_log" not in file.parts]
