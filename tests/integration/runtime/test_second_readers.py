"""An input that a query read itself comes from another chain with the same uid, once it has a second reader."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import life_in, running
from tests.integration.runtime.graphs import Row, add_rows, job, numbered, output, rows_of, source
from tests.integration.runtime.purchases import write_job
from tests.jobs import sql

from streamjob.errors import ExitCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NOON = 1767268800
CUT, ROWS = 80, 180
COUNTS = sql(
    "counts",
    ["events"],
    f"SELECT k, unix_seconds(window.start) - {NOON} AS start, count(*) AS n FROM events "
    "GROUP BY k, window(at, '1 minute')",
)
ALL = sql("all", ["events"], "SELECT k, n FROM events")


@pytest.mark.timeout(300)
def test_a_source_that_gets_a_second_reader_is_read_on_for_both(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "events"
    add_rows(place, 0, numbered(0, CUT))
    life = life_in(tmp_path, job(tmp_path, [source("events", place)], [COUNTS], ["counts"]))
    with running(spark, life) as first:
        first.wait_for(lambda: rows_of(output(tmp_path, "counts")).total() == 3, "the first window")
        assert first.stop() is ExitCode.OK

    add_rows(place, 1, [*numbered(CUT, ROWS - CUT), Row("end", 0, 9999)])
    write_job(life.file.parent, job(tmp_path, [source("events", place)], [COUNTS, ALL], ["counts", "all"]))
    with running(spark, life) as second:
        second.wait_for(lambda: rows_of(output(tmp_path, "counts")).total() == 9, "the last window")
        assert second.stop() is ExitCode.OK

    windows = Counter({(f"k{key}", start, 20): 1 for key in range(3) for start in (0, 60, 120)})
    assert rows_of(output(tmp_path, "counts")) == windows
    assert rows_of(output(tmp_path, "all")) == Counter(
        [*((row.k, row.n) for row in numbered(CUT, ROWS - CUT)), ("end", 0)]
    )
