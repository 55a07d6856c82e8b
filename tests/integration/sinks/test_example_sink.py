"""The sink of `docs/how-to/write-a-sink.md` passes the kit, and the document shows what is tested here."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import functions as f

from streamjob.job.query.functions import find_function
from streamjob.sink import Sink
from streamjob.testing.sink_harness import Row
from streamjob.testing.sink_kit import SinkConformance

HERE = Path(__file__).parent
HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "write-a-sink.md"


@pytest.mark.spark
class TestSqliteSink(SinkConformance):
    effects = ((sqlite3, "connect"),)

    def make_sink(self, place: Path) -> Sink:
        place.mkdir(exist_ok=True)
        sink: Sink = find_function("example_sink:SqliteSink", HERE)()
        return sink

    def options(self, place: Path) -> Mapping[str, str]:
        return {"path": str(place / "rows.db")}

    def visible_rows(self, place: Path) -> Sequence[Row]:
        rows = self.spark.createDataFrame(self._query(place, "SELECT row FROM rows"), "row string")
        return [tuple(row) for row in rows.select(f.from_json("row", self.schema).alias("r")).select("r.*").collect()]

    def consume(self, place: Path) -> None:
        self._query(place, "DELETE FROM rows")

    def lose_staged(self, place: Path) -> None:
        self._query(place, "DELETE FROM staged")

    def leftovers(self, place: Path) -> int:
        return len(self._query(place, "SELECT batch FROM staged"))

    def _query(self, place: Path, query: str) -> list[Row]:
        with closing(sqlite3.connect(place / "rows.db")) as connection, connection:
            return connection.execute(query).fetchall()


def test_the_how_to_shows_the_tested_example() -> None:
    shown = re.findall(r"^```python\n(.*?)^```$", HOW_TO.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)

    assert shown[0] == (HERE / "example_sink.py").read_text(encoding="utf-8").partition("\n\n")[2]
