"""Every exactly-once sink has the same rows in the end, those of the batch, whichever way the job took there."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.core import core
from tests.integration.runtime.embedded import Life, life_in
from tests.integration.runtime.graphs import output
from tests.integration.runtime.power import Moment, Power
from tests.integration.runtime.shapes import FILES, ROWS, Gates, Shape
from tests.integration.runtime.stories import Story, Way

from streamjob.job.model.formats import EXACTLY_ONCE_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# One column of text: what all formats can hold.
WINDOWS = (
    "SELECT concat_ws(' ', k, unix_seconds(window.start), count(*)) AS row FROM held_events "
    "GROUP BY k, window(at, '10 seconds')"
)
SHAPE = Shape(sources=("events",), operators=(("windows", ("held_events",), WINDOWS),), outputs=("windows",), chains=1)
SQLITE = "tests.integration.sinks.example_sink:SqliteSink"


def life(directory: Path, *, bounded: bool) -> Life:
    job = SHAPE.job(directory, bounded=bounded)
    for name in sorted(EXACTLY_ONCE_FORMATS):
        options = {"path": str(directory / "sinks" / name)}
        job["sinks"].append({"name": name, "input": "windows", "format": name, "options": options})
    options = {"path": str(directory / "sqlite.db")}
    job["sinks"].append({"name": "sqlite", "input": "windows", "format": SQLITE, "options": options})
    return life_in(directory, job)


def published(spark: SparkSession, directory: Path) -> dict[str, Counter[str]]:
    """Return the rows of each sink, as a reader of its kind finds them."""
    found = {"recorded": Counter(row[0] for _, rows in output(directory, "windows") for row in rows)}
    for name in EXACTLY_ONCE_FORMATS:
        frame = spark.read.format(name).schema("row STRING").load(str(directory / "sinks" / name))
        found[name] = Counter(row["row"] for row in frame.collect())
    with closing(sqlite3.connect(directory / "sqlite.db")) as connection:
        found["sqlite"] = Counter(json.loads(row)["row"] for (row,) in connection.execute("SELECT row FROM rows"))
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", core(Way, Way.KILL, kept=[Way.DRAIN]))
def test_every_sink_commits_the_same_rows_whichever_way_the_job_ends(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    one = life(tmp_path, bounded=way is not Way.DRAIN)
    story = Story(spark, one, Gates(SHAPE, tmp_path), Power(monkeypatch), endless=way is Way.DRAIN)

    match way:
        case Way.END:
            story.go_on_to_the_end()
        case Way.DRAIN:
            story.drain(FILES * ROWS)
        case Way.STOP | Way.SAVEPOINT:
            story.end_at_the_gates(way, None)
            early = published(spark, tmp_path)
            story.go_on_to_the_end()
            assert all(0 < rows.total() < published(spark, tmp_path)[sink].total() for sink, rows in early.items())
        case Way.KILL:
            # Staged, recorded and not published: the next life has to make up for it in every sink.
            story.end_at_the_gates(way, Moment.COMMIT)
            story.go_on_to_the_end()

    expected = Counter(row for (row,) in SHAPE.batch(spark, tmp_path)["windows"].elements())
    assert published(spark, tmp_path) == dict.fromkeys(["recorded", "sqlite", *EXACTLY_ONCE_FORMATS], expected)
