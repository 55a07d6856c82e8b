"""A job does not write on to a topic that was made again under the name of the one that it wrote to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import Life, life_in, running
from tests.integration.runtime.graphs import add_rows, job, numbered, source
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.test_decoding import sink_options
from tests.integration.runtime.test_kafka_source import stopped_behind
from tests.jobs import sql
from tests.servers.kafka import KafkaServer

from streamjob.comparison.verdicts import Comparison
from streamjob.job.loading.load import load_job
from streamjob.protocol.log.records import JobId
from streamjob_runtime.job.targets import TargetMadeAgain
from streamjob_runtime.process.checking.start_check import compare_with_output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]


def refusals_of_a_check(spark: SparkSession, life: Life, location: str) -> list[str]:
    """Return what a check of a start from the newest checkpoint at a location says about the output."""
    loaded = load_job(life.file)
    nothing = Comparison(findings=(), origins={}, max_parallelism=1)
    compared = compare_with_output(loaded, location, nothing, JobId("default", life.name), spark)
    return [each.what for each in compared.refusals]


def test_a_topic_that_was_made_again_gets_rows_only_from_a_sink_with_another_uid(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    add_rows(tmp_path / "in", 0, numbered(0, 5))
    rows = sql("rows", ["in"], "SELECT CAST(k AS BINARY) AS key, CAST(n AS STRING) AS value FROM in")
    spec = job(tmp_path, [source("in", tmp_path / "in")], [rows], ["rows"], checkpointing={"interval": "1h"})
    options = sink_options(kafka_server, topic)
    spec["sinks"] = [{"name": "out", "input": "rows", "format": "kafka", "options": options}]
    life = life_in(tmp_path, spec)
    stopped_behind(spark, life, 5)
    assert len(kafka_server.consume(topic)) == 5
    assert refusals_of_a_check(spark, life, life.location) == []
    (beyond,) = refusals_of_a_check(spark, life, str(tmp_path / "elsewhere"))
    assert "sink out has published checkpoint " in beyond
    assert "names no checkpoint" in beyond

    kafka_server.delete_topic(topic)
    kafka_server.create_topic(topic, 2)
    add_rows(tmp_path / "in", 1, numbered(5, 3))
    with (
        pytest.raises(TargetMadeAgain, match=r"sink out: .*another one, .* has its name"),
        running(spark, life) as second,
    ):
        second.wait()
    assert kafka_server.consume(topic) == []

    spec["sinks"][0]["uid"] = "another"
    write_job(life.file.parent, spec)
    stopped_behind(spark, life, 3)
    assert len(kafka_server.consume(topic)) == 3
