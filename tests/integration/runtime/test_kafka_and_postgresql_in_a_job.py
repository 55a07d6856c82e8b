"""A job from a topic into a topic and tables has the rows of a batch in each, whichever way it ends."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, running
from tests.integration.runtime.power import Moment, Power
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.shapes import FILES, ROWS, Gates, Shape
from tests.integration.runtime.stories import NEVER, Story, Way
from tests.integration.sinks.databases import Database
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
EVENTS = (
    "SELECT row.k, row.n, timestamp AS at, row.gate "
    "FROM (SELECT from_json(CAST(value AS STRING), 'k STRING, n BIGINT, gate STRING') AS row, timestamp FROM topic)"
)
RECORDS = "SELECT key, to_json(struct(key, n)) AS value FROM windows"
SHAPE = Shape(sources=("events",), operators=(("windows", ("held_events",), WINDOWS),), outputs=("windows",), chains=1)


class Places:
    """A topic that is read, and a topic and two tables that are written.

    Args:
        server: the broker.
        database: where the tables are.
    """

    def __init__(self, server: KafkaServer, database: Database) -> None:
        self.name = f"events-{secrets.token_hex(4)}"
        self._server = server
        self._database = database
        # The rows are older than what a topic keeps by default.
        server.create_topic(self.name, 1, retention_ms="-1")
        server.create_topic(f"{self.name}-windows", 2)
        database.execute("CREATE TABLE inserted (key text, n bigint)")
        database.execute("CREATE TABLE replaced (key text PRIMARY KEY, n bigint)")

    def job(self, directory: Path, *, bounded: bool) -> dict[str, Any]:
        """Fill the topic with the rows of the shape; return the job."""
        job = SHAPE.job(directory, bounded=bounded)
        self._fill(directory / "events")
        broker = {"kafka.bootstrap.servers": self._server.bootstrap}
        reading = {"subscribe": self.name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": ROWS}
        if bounded:
            del reading["startingOffsets"]
        watermark = {"column": "timestamp", "delay": "0s"}
        source = {"name": "topic", "format": "kafka", "bounded": bounded, "watermark": watermark}
        tables: Mapping[str, Mapping[str, str]] = {"inserted": {}, "replaced": {"mode": "upsert", "key": "key"}}
        writing = {**broker, "topic": f"{self.name}-windows"}
        return {
            **job,
            "sources": [{**source, "options": {**broker, **reading}}],
            "operators": [
                {"name": "events", "inputs": ["topic"], "sql": EVENTS},
                *job["operators"],
                {"name": "records", "inputs": ["windows"], "sql": RECORDS},
            ],
            "sinks": [
                {"name": "windows-topic", "input": "records", "format": "kafka", "options": writing},
                *(
                    {
                        "name": name,
                        "input": "windows",
                        "format": "postgresql",
                        "options": {
                            **self._database.options(name, **options),
                            "password": "${env:STREAMJOB_TEST_PASSWORD}",
                        },
                    }
                    for name, options in tables.items()
                ),
            ],
        }

    def _fill(self, directory: Path) -> None:
        producer = self._server.producer()
        for file in sorted(directory.iterdir()):
            for row in map(json.loads, file.read_text().splitlines()):
                at = round(datetime.fromisoformat(row.pop("at")).timestamp() * 1000)
                producer.produce(self.name, value=json.dumps(row), timestamp=at)
        assert producer.flush(30) == 0

    def rows(self) -> dict[str, Counter[Any]]:
        """Return what is seen in each place."""
        records = [json.loads(message.value or b"") for message in self._server.consume(f"{self.name}-windows")]
        return {
            "topic": Counter((record["key"], record["n"]) for record in records),
            **{
                name: Counter(self._database.execute(f"SELECT key, n FROM {name}")) for name in ("inserted", "replaced")
            },
        }

    def left_open(self) -> list[Any]:
        """Return transactions that are open, and tables of staged rows."""
        server = self._database.server
        return [
            *self._server.open_transactions(f"streamjob/default/{self.name}/"),
            *server.open_transactions(self._database.name),
            *self._database.staging_tables(),
        ]


@pytest.fixture
def places(kafka_server: KafkaServer, database: Database, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Return places that are empty."""
    monkeypatch.setenv("STREAMJOB_TEST_PASSWORD", database.server.password)
    return Places(kafka_server, database)


def check_what_is_told(job: EmbeddedJob, rows: int) -> None:
    """Check that the job tells of its sinks what is in their places."""
    view = job.control.job()
    assert view.last_checkpoint is not None
    for sink in view.sinks:
        assert (sink.records, sink.records_published, sink.batches_waiting, sink.failures) == (rows, rows, 0, 0)
        assert sink.last_published is not None
        assert sink.last_published.id == view.last_checkpoint.id
    assert {sink.uid: sink.delivery for sink in view.sinks} == dict.fromkeys(
        ["windows-topic", "inserted", "replaced"], "exactly-once"
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", list(Way))
def test_topic_and_tables_hold_the_rows_of_a_batch_whichever_way_the_job_ends(
    spark: SparkSession, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    job = places.job(tmp_path, bounded=way is not Way.DRAIN)
    file = write_job(tmp_path / "job", job)
    life = Life(file=file, location=str(tmp_path / "snapshots"), name=places.name, restarts=NEVER)
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
            story.end_at_the_gates(way, Moment.PUBLICATION)
            story.go_on_to_the_end()

    expected = SHAPE.batch(spark, tmp_path)["windows"]
    assert places.rows() == dict.fromkeys(("topic", "inserted", "replaced"), expected)
    assert places.left_open() == []
    assert [path for path in (tmp_path / "snapshots").rglob("staged/*/*/*") if path.is_file()] == []
