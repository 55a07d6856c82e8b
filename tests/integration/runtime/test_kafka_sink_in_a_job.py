"""A job into Kafka has the rows of a batch there, whichever way it ends."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import Life
from tests.integration.runtime.power import Moment, Power
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.shapes import FILES, ROWS, Gates, Shape
from tests.integration.runtime.stories import Story, Way
from tests.servers.kafka import KafkaServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

WINDOWS = (
    "SELECT concat_ws(' ', k, unix_seconds(window.start)) AS key, count(*) AS n FROM held_events "
    "GROUP BY k, window(at, '10 seconds')"
)
RECORDS = {"name": "records", "inputs": ["windows"], "sql": "SELECT key, to_json(struct(key, n)) AS value FROM windows"}
SHAPE = Shape(sources=("events",), operators=(("windows", ("held_events",), WINDOWS),), outputs=("windows",), chains=1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", [Way.STOP, Way.SAVEPOINT, Way.KILL, Way.DRAIN])
def test_the_topic_holds_the_rows_of_a_batch_whichever_way_the_job_ends(
    spark: SparkSession, kafka_server: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    topic = f"windows-{secrets.token_hex(4)}"
    kafka_server.create_topic(topic, 2)
    options = {"kafka.bootstrap.servers": kafka_server.bootstrap, "topic": topic}
    job = SHAPE.job(tmp_path, bounded=way is not Way.DRAIN)
    job["name"] = topic
    job["operators"].append(RECORDS)
    job["sinks"].append({"name": "topic", "input": "records", "format": "kafka", "options": options})
    one = Life(file=write_job(tmp_path / "job", job), location=str(tmp_path / "snapshots"), name=topic)
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

    rows = [json.loads(message.value or b"") for message in kafka_server.consume(topic)]
    assert Counter((row["key"], row["n"]) for row in rows) == SHAPE.batch(spark, tmp_path)["windows"]
    assert kafka_server.open_transactions(f"streamjob/default/{topic}/") == []
    assert [path for path in (tmp_path / "snapshots").rglob("staged/*/*/*") if path.is_file()] == []
