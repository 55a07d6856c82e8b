"""A job from a topic into a topic and tables has the rows of a batch in each, whichever way it ends."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.core import thorough
from tests.integration.runtime.embedded import EmbeddedJob, life_in, running
from tests.integration.runtime.power import Moment, Power
from tests.integration.runtime.servers import Places, fill, parsed, topic_source
from tests.integration.runtime.shapes import FILES, ROWS, Gates, Shape
from tests.integration.runtime.stories import NEVER, Story, Way
from tests.integration.sinks.lakes import Lake
from tests.servers.kafka import KafkaServer

from streamjob.errors import ExitCode
from streamjob.protocol.lifecycle import JobState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

WINDOWS = (
    "SELECT concat_ws(' ', k, unix_seconds(window.start)) AS key, count(*) AS n FROM held_events "
    "GROUP BY k, window(at, '10 seconds')"
)
SHAPE = Shape(sources=("events",), operators=(("windows", ("held_events",), WINDOWS),), outputs=("windows",), chains=1)
SINKS = ("topic", "inserted", "replaced", "added")


def job_between(broker: KafkaServer, places: Places, name: str, directory: Path, *, bounded: bool) -> dict[str, Any]:
    """Fill a topic with the rows of the shape; return the job that reads it and writes to the places."""
    job = SHAPE.job(directory, bounded=bounded)
    fill(broker, name, directory / "events", "at", partitions=1)
    source = topic_source(broker, "events_topic", name, ROWS, "0s", bounded=bounded)
    if not bounded:
        source["options"]["startingOffsets"] = "earliest"
    columns = "row.k, row.n, timestamp AS at, row.gate"
    events = parsed("events", "events_topic", "k STRING, n BIGINT, gate STRING", columns)
    records, sinks = places.written_from("windows")
    return {**job, "sources": [source], "operators": [events, *job["operators"], records], "sinks": sinks}


def check_what_is_told(job: EmbeddedJob, rows: int) -> None:
    """Check that the job's report about its sinks matches their targets."""
    view = job.control.job()
    assert view.last_checkpoint is not None
    for sink in view.sinks:
        assert (sink.records, sink.records_published, sink.batches_waiting, sink.failures) == (rows, rows, 0, 0)
        assert sink.last_published is not None
        assert sink.last_published.id == view.last_checkpoint.id
    assert {sink.uid: sink.delivery for sink in view.sinks} == dict.fromkeys(SINKS, "exactly-once")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", thorough(Way, Way.KILL, Way.END))
def test_topic_and_tables_hold_the_rows_of_a_batch_whichever_way_the_job_ends(
    spark: SparkSession,
    kafka_server: KafkaServer,
    lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Way,
) -> None:
    name = f"events-{secrets.token_hex(4)}"
    places = Places(kafka_server, lake, name, {"key": "string", "n": "bigint"}, ("key",))
    for variable, value in places.environment.items():
        monkeypatch.setenv(variable, value)
    job = job_between(kafka_server, places, name, tmp_path, bounded=way is not Way.DRAIN)
    life = life_in(tmp_path, job, name=name, restarts=NEVER)
    gates = Gates(SHAPE, tmp_path)
    story = Story(spark, life, gates, Power(monkeypatch), endless=way is Way.DRAIN)

    match way:
        case Way.END:
            gates.open()
            with running(spark, life) as ending:
                assert ending.wait() is ExitCode.OK
                assert ending.state is JobState.FINISHED
                check_what_is_told(ending, SHAPE.batch(spark, tmp_path)["windows"].total())
        case Way.DRAIN:
            story.drain(FILES * ROWS)
        case Way.STOP | Way.SAVEPOINT:
            story.end_at_the_gates(way, None)
            story.go_on_to_the_end()
        case Way.KILL:
            story.end_at_the_gates(way, Moment.COMMIT)
            story.go_on_to_the_end()

    expected = SHAPE.batch(spark, tmp_path)["windows"]
    assert places.rows() == dict.fromkeys(SINKS, expected)
    assert places.left_behind() == []
    assert [path for path in (tmp_path / "snapshots").rglob("staged/*/*/*") if path.is_file()] == []
