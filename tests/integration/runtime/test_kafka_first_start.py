"""Where a Kafka source begins is stored before anything is read: a kill before the first checkpoint loses nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.runtime.embedded import EmbeddedJob, life_in, running
from tests.integration.runtime.graphs import job, output, rows_of
from tests.integration.runtime.power import Moment, Power
from tests.integration.runtime.stories import NEVER
from tests.integration.runtime.test_kafka_source import expected, numbers, values_read, wait_until_read
from tests.jobs import sql
from tests.servers.kafka import KafkaServer

from streamjob.errors import ExitCode
from streamjob_runtime.kafka.errors import UnusableBeginning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

FUTURE = 4_102_444_800_000
BEGINNINGS: dict[str, dict[str, Any]] = {
    "newest": {"startingOffsets": "latest"},
    "timed": {"startingTimestamp": FUTURE, "startingOffsetsByTimestampStrategy": "latest"},
}


def has_positions(running_job: EmbeddedJob) -> bool:
    return running_job.completed > 0


@pytest.mark.core
def test_killed_before_its_first_periodic_checkpoint_a_job_reads_all_that_came_since_its_first_start(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {name: f"{topic}-{name}" for name in BEGINNINGS}
    for each in topics.values():
        kafka_server.create_topic(each)
        kafka_server.produce(each, numbers(range(900, 905)))
    sources = [jobs.topic(name, kafka_server.bootstrap, topics[name], begin) for name, begin in BEGINNINGS.items()]
    # A chain behind a channel waits for barriers, and has a source of its own.
    texts = "SELECT CAST(value AS STRING) AS v FROM"
    operators = [
        sql("first", ["newest"], f"{texts} newest", chain=False),
        sql("rows", ["first", "timed"], f"SELECT * FROM first UNION ALL {texts} timed", chain=False),
    ]
    spec = job(tmp_path, sources, operators, ["rows"], checkpointing={"interval": "1h"})
    life = replace(life_in(tmp_path, spec), restarts=NEVER)
    power = Power(monkeypatch)
    with running(spark, life) as unstored:
        power.goes(Moment.MANIFEST, unstored, lambda: None)
        unstored.wait()
        assert unstored.control.job().records_in == 0

    power.comes_back()
    with running(spark, life) as first:
        first.wait_for(lambda: has_positions(first), "the positions")
        for number, each in enumerate(topics.values()):
            kafka_server.produce(each, numbers(range(number * 100, number * 100 + 5)))
        wait_until_read(first, 10)
        power.cut(first, lambda: None)
        first.wait()
    for number, each in enumerate(topics.values()):
        kafka_server.produce(each, numbers(range(number * 100 + 5, number * 100 + 10)))
        kafka_server.add_partitions(each, 2)
        kafka_server.produce(each, numbers(range(number * 100 + 10, number * 100 + 15)), partition=1)
    assert rows_of(output(tmp_path, "rows")) == {}

    power.comes_back()
    with running(spark, life) as last:
        wait_until_read(last, 30)
        assert last.stop() is ExitCode.OK

    assert values_read(tmp_path) == expected([*range(15), *range(100, 115)])


def test_a_time_that_no_record_has_is_told_before_anything_is_read(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    options = {"kafka.bootstrap.servers": kafka_server.bootstrap, "subscribe": topic, "startingTimestamp": FUTURE}
    source = {"name": "topic", "format": "kafka", "options": options}
    spec = job(tmp_path, [source], [sql("rows", ["topic"], "SELECT offset FROM topic")], ["rows"])

    with (
        pytest.raises(UnusableBeginning, match="Source 'topic': could not ask where its topics begin"),
        running(spark, replace(life_in(tmp_path, spec), restarts=NEVER)) as refused,
    ):
        refused.wait()
