"""A job into PostgreSQL has the rows of a batch there, whichever way it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import Life
from tests.integration.runtime.power import Moment, Power
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.shapes import FILES, ROWS, Gates, Shape
from tests.integration.runtime.stories import Story, Way
from tests.integration.sinks.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

PASSWORD = "${env:STREAMJOB_TEST_PASSWORD}"
WINDOWS = (
    "SELECT concat_ws(' ', k, unix_seconds(window.start)) AS key, count(*) AS n FROM held_events "
    "GROUP BY k, window(at, '10 seconds')"
)
SHAPE = Shape(sources=("events",), operators=(("windows", ("held_events",), WINDOWS),), outputs=("windows",), chains=1)


def sinks(database: Database, input_name: str) -> list[dict[str, Any]]:
    """Return a sink that inserts into a table without a key, which shows what is there twice, and one that replaces."""
    kinds: Mapping[str, Mapping[str, str]] = {"inserted": {}, "replaced": {"mode": "upsert", "key": "key"}}
    return [
        {
            "name": name,
            "input": input_name,
            "format": "postgresql",
            "options": {**database.options(name, **more), "password": PASSWORD},
        }
        for name, more in kinds.items()
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", [Way.STOP, Way.SAVEPOINT, Way.KILL, Way.DRAIN])
def test_the_tables_hold_the_rows_of_a_batch_whichever_way_the_job_ends(
    spark: SparkSession, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    monkeypatch.setenv("STREAMJOB_TEST_PASSWORD", database.server.password)
    database.execute("CREATE TABLE inserted (key text, n bigint)")
    database.execute("CREATE TABLE replaced (key text PRIMARY KEY, n bigint)")
    job = SHAPE.job(tmp_path, bounded=way is not Way.DRAIN)
    job["sinks"] += sinks(database, "windows")
    one = Life(file=write_job(tmp_path / "job", job), location=str(tmp_path / "snapshots"))
    story = Story(spark, one, Gates(SHAPE, tmp_path), Power(monkeypatch), endless=way is Way.DRAIN)

    match way:
        case Way.DRAIN:
            story.drain(FILES * ROWS)
        case Way.STOP | Way.SAVEPOINT:
            story.end_at_the_gates(way, None)
            story.go_on_to_the_end()
        case Way.KILL:
            story.end_at_the_gates(way, Moment.PUBLICATION)
            story.go_on_to_the_end()

    expected = SHAPE.batch(spark, tmp_path)["windows"]
    for name in ("inserted", "replaced"):
        assert Counter(database.execute(f"SELECT key, n FROM {name}")) == expected
    assert database.server.open_transactions(database.name) == []
    assert database.staging_tables() == []
