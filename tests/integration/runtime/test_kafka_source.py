"""A Kafka source reads each row of its topics once, whatever is killed, and says so where rows are gone."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.runtime.embedded import EmbeddedJob, Life, life_in, running
from tests.integration.runtime.graphs import SCHEMA, Row, job, manifests, numbered, output, rows_of
from tests.integration.runtime.power import Power
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.stories import NEVER
from tests.jobs import sql
from tests.servers.kafka import KafkaServer

from streamjob.errors import ExitCode
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.kafka.admin import KafkaAdmin
from streamjob_runtime.kafka.errors import KafkaRefuses, KafkaUnreachable, OffsetsGone, TopicMadeAgain, TopicMissing
from streamjob_runtime.kafka.positions import read_offsets
from streamjob_runtime.monitoring.metrics import Metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

GROUP = "streamjob-default-job-topic"


def topic_job(directory: Path, server: KafkaServer, topic: str, **options: Any) -> dict[str, Any]:
    """Return a job that records the rows of a topic, and takes no periodic checkpoints."""
    source = jobs.topic("topic", server.bootstrap, topic, {"startingOffsets": "earliest", **options})
    rows = sql("rows", ["topic"], "SELECT CAST(value AS STRING) AS v, partition, offset FROM topic")
    return job(directory, [source], [rows], ["rows"], checkpointing={"interval": "1h"})


def numbers(values: Iterable[int]) -> list[tuple[str, str]]:
    return [(f"k{value}", str(value)) for value in values]


def values_read(directory: Path) -> Counter[str]:
    return Counter(value for (value, *_), count in rows_of(output(directory, "rows")).items() for _ in range(count))


def expected(values: Iterable[int]) -> Counter[str]:
    return Counter(map(str, values))


def lag(running_job: EmbeddedJob) -> int | None:
    """Return how many records of its one source a job has yet to read; None before its first batch."""
    running_job.control.observe()
    return next((each.lag_records for chain in running_job.control.job().chains for each in chain.inputs), None)


def position(life: Life) -> dict[int, int]:
    """Return up to which offset the newest snapshot covers each partition of the one topic."""
    newest = manifests(Path(life.location) / "default" / life.name)[-1]
    return {each.partition: offset for each, offset in read_offsets(newest.sources[0].position).items()}


def wait_until_read(running_job: EmbeddedJob, records: int) -> None:
    def read() -> int:
        running_job.control.observe()
        return running_job.control.job().records_in

    running_job.wait_for(lambda: read() >= records, f"{records} records")


@pytest.mark.core
def test_killed_on_the_way_it_reads_each_committed_row_once_and_those_of_new_partitions_too(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_server.add_partitions(topic, 3)
    # Partition 2 stays idle; where transactions end there are offsets without rows.
    for begin in range(0, 60, 20):
        kafka_server.produce(topic, numbers(range(begin, begin + 10)), partition=0, transaction=True)
        kafka_server.produce(topic, numbers(range(1000, 1010)), partition=0, abort=True)
        kafka_server.produce(topic, numbers(range(begin + 10, begin + 20)), partition=1, transaction=True)
    group = f"{topic}-watched"
    options = {"maxOffsetsPerTrigger": 16, "consumerGroup": group}
    life = replace(life_in(tmp_path, topic_job(tmp_path, kafka_server, topic, **options)), restarts=NEVER)
    power = Power(monkeypatch)
    with running(spark, life) as first:
        first.wait_for_batches()
        first.checkpoint()
        # The batch after the checkpoint is read again.
        first.wait_for_batches()
        power.cut(first, lambda: None)
        first.wait()
    covered = position(life)
    kafka_server.add_partitions(topic, 4)
    kafka_server.produce(topic, numbers(range(60, 80)), partition=3)
    ends = kafka_server.end_offsets(topic)
    assert 0 < sum(covered.values()) < sum(ends.values())

    power.comes_back()
    with running(spark, life) as last:
        last.wait_for(lambda: lag(last) == 0, "the end of the topic")
        assert last.stop() is ExitCode.OK

    rows = rows_of(output(tmp_path, "rows"))
    assert Counter(value for value, *_ in rows.elements()) == expected(range(80))
    assert rows.total() == len({row[1:] for row in rows})
    assert position(life) == ends
    reported = kafka_server.committed_offsets(group)
    assert {number: offset for (_, number), offset in reported.items()} == ends


def test_lag_is_told_by_partition_and_positions_are_reported_when_a_checkpoint_completes(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    def reported() -> dict[tuple[str, int], int]:
        # The group is that of all tests here, and Kafka forgets deleted topics when it likes.
        return {place: at for place, at in kafka_server.committed_offsets(GROUP).items() if place[0] == topic}

    kafka_server.produce(topic, numbers(range(20)), partition=0)
    with running(spark, life_in(tmp_path, topic_job(tmp_path, kafka_server, topic))) as first:
        wait_until_read(first, 20)
        first.wait_for(lambda: lag(first) == 0, "no lag")
        # The checkpoint before the first batch.
        first.wait_for(lambda: reported() == {(topic, 0): 0, (topic, 1): 0}, "the report of the first positions")
        metrics = Metrics(first.control.job, first.control.checkpoints).render().decode()
        first.checkpoint()
        first.wait_for(lambda: reported() == {(topic, 0): 20, (topic, 1): 0}, "the report")
        first.stop()

    assert f'streamjob_source_position_offset{{partition="0",source="topic",topic="{topic}"}} 20.0' in metrics
    assert f'streamjob_source_lag_records{{partition="1",source="topic",topic="{topic}"}} 0.0' in metrics
    assert 'streamjob_source_offset_report_failures_total{source="topic"} 0.0' in metrics


def test_a_source_that_falls_behind_lags(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    rows = [*numbered(0, 5), *numbered(5, 35, str(gate))]
    kafka_server.produce(topic, [(row.k, json.dumps(row.fields())) for row in rows], partition=0)
    spec = topic_job(tmp_path, kafka_server, topic, maxOffsetsPerTrigger=5, reportOffsets=False)
    parsed = f"SELECT from_json(CAST(value AS STRING), '{SCHEMA}') AS row FROM topic"
    spec["operators"] = [
        sql("parsed", ["topic"], parsed),
        sql("fields", ["parsed"], "SELECT row.k, row.n, row.gate FROM parsed"),
        {"name": "rows", "inputs": ["fields"], "python": "tests.integration.runtime.recording:gated"},
    ]
    with running(spark, life_in(tmp_path, spec)) as first:
        first.wait_for(lambda: lag(first) == 35, "the lag behind the first batch")
        gate.touch()
        first.wait_for(lambda: lag(first) == 0, "the end of the topic")


def stopped_behind(spark: SparkSession, life: Life, records: int) -> None:
    """Let a job read some records, and stop it with a checkpoint."""
    with running(spark, life) as first:
        wait_until_read(first, records)
        assert first.stop() is ExitCode.OK


def test_what_expired_while_the_job_stood_is_told_and_given_up_only_if_the_options_say_so(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    life = life_in(tmp_path, topic_job(tmp_path, kafka_server, topic))
    kafka_server.produce(topic, numbers(range(10)), partition=0)
    stopped_behind(spark, life, 10)
    kafka_server.produce(topic, numbers(range(10, 30)), partition=0)
    kafka_server.delete_records(topic, 0, before=17)

    message = f"partition 0 of topic '{topic}' is to be read from offset 10, and begins at offset 17"
    with pytest.raises(OffsetsGone, match=message), running(spark, life) as second:
        second.wait()

    write_job(life.file.parent, topic_job(tmp_path, kafka_server, topic, failOnDataLoss=False))
    with caplog.at_level(logging.WARNING, "streamjob"):
        stopped_behind(spark, life, 13)
    assert any(message in each and "gives up records" in each for each in caplog.messages)
    assert values_read(tmp_path) == expected([*range(10), *range(17, 30)])


def test_a_topic_that_is_deleted_or_made_again_ends_the_job_and_its_source_begins_anew_under_another_uid(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    spec = topic_job(tmp_path, kafka_server, topic)
    life = life_in(tmp_path, spec)
    kafka_server.produce(topic, numbers(range(10)), partition=0)
    with running(spark, life) as first:
        wait_until_read(first, 10)
        first.checkpoint()
        kafka_server.delete_topic(topic)
        with pytest.raises(OffsetsGone, match=f"partition 0 of topic '{topic}' is to be read from offset 10, and"):
            first.wait()

    kafka_server.create_topic(topic, 2)
    kafka_server.produce(topic, numbers(range(100, 113)), partition=0)
    with (
        pytest.raises(TopicMadeAgain, match=f"topic '{topic}' is not the one") as error,
        running(spark, life) as second,
    ):
        second.wait()
    (before,) = manifests(Path(life.location) / "default" / life.name)[-1].sources[0].ids.values()
    assert before in error.value.what
    assert error.value.exit_code is ExitCode.CANNOT_RESTORE

    spec["sources"][0]["uid"] = "another"
    write_job(life.file.parent, spec)
    stopped_behind(spark, replace(life, restore_from=RestoreFrom(allow_non_restored_state=True)), 13)
    assert values_read(tmp_path) == expected([*range(10), *range(100, 113)])


def test_nothing_is_published_of_a_topic_that_was_made_again_under_a_running_job(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    def produce(rows: Iterable[Row]) -> None:
        kafka_server.produce(topic, [(row.k, json.dumps(row.fields())) for row in rows], partition=0)

    spec = topic_job(tmp_path, kafka_server, topic)
    parsed = f"SELECT from_json(CAST(value AS STRING), '{SCHEMA}') AS row FROM topic"
    spec["operators"] = [
        sql("parsed", ["topic"], parsed),
        sql("fields", ["parsed"], "SELECT row.k, row.n, row.gate FROM parsed"),
        {"name": "rows", "inputs": ["fields"], "python": "tests.integration.runtime.recording:gated"},
    ]
    produce(numbered(0, 5))
    life = replace(life_in(tmp_path, spec), restarts=NEVER)
    with running(spark, life) as first:
        wait_until_read(first, 5)
        first.checkpoint()
        # Spark does not look at the topic while a batch runs.
        produce(numbered(5, 5, str(gate)))
        first.wait_for(lambda: unread_batch(first), "the batch of the gated rows")
        kafka_server.delete_topic(topic)
        kafka_server.create_topic(topic, 2)
        produce(numbered(100, 20))
        gate.touch()
        with pytest.raises(TopicMadeAgain, match=f"topic '{topic}' is not the one that the snapshot has read"):
            first.checkpoint()

    assert rows_of(output(tmp_path, "rows")) == Counter((row.k, row.n) for row in numbered(0, 5))


def unread_batch(running_job: EmbeddedJob) -> bool:
    """Return whether the job's one chain computes a batch after the emitted ones."""
    epoch = running_job.runner.epoch
    assert epoch is not None
    assert epoch.emission is not None
    return all(epoch.emission.running(chain) is not None for chain in epoch.chains)


def test_topics_that_a_pattern_comes_to_match_are_read_from_their_beginning(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    spec = topic_job(tmp_path, kafka_server, topic)
    options = spec["sources"][0]["options"]
    del options["subscribe"]
    options |= {"subscribePattern": f"{topic}.*", "kafka.metadata.max.age.ms": 200}
    kafka_server.produce(topic, numbers(range(5)), partition=0)
    with running(spark, life_in(tmp_path, spec)) as first:
        wait_until_read(first, 5)
        kafka_server.create_topic(f"{topic}-more", 1)
        kafka_server.produce(f"{topic}-more", numbers(range(5, 10)))
        wait_until_read(first, 10)
        first.stop()

    assert values_read(tmp_path) == expected(range(10))


def test_a_topic_that_is_not_there_is_told_before_anything_is_read(
    spark: SparkSession, kafka_server: KafkaServer, tmp_path: Path
) -> None:
    life = life_in(tmp_path, topic_job(tmp_path, kafka_server, "nowhere"))

    with (
        pytest.raises(TopicMissing, match="Source 'topic': Kafka has no topic 'nowhere'"),
        running(spark, replace(life, restarts=NEVER)) as first,
    ):
        first.wait()


def asked(spark: SparkSession, brokers: str, timeout: float) -> None:
    """Ask brokers for their topics, with a login."""
    options = {
        "kafka.bootstrap.servers": brokers,
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="hunter2";',
    }
    with KafkaAdmin.open(spark, options, "Source 'topic'", timeout) as admin:
        admin.matching(".*")


@pytest.mark.usefixtures("kafka_server")
def test_brokers_that_do_not_answer_are_told_in_time_and_without_secrets(spark: SparkSession) -> None:
    with pytest.raises(KafkaUnreachable, match=r"the brokers at 127\.0\.0\.1:9 do not answer in time") as error:
        asked(spark, "127.0.0.1:9", timeout=1.0)

    assert "hunter2" not in str(error.value)


def test_brokers_that_want_another_protocol_refuse(spark: SparkSession, kafka_server: KafkaServer) -> None:
    told = r"Source 'topic': could not list topics: the brokers at .* do not let it in"
    with pytest.raises(KafkaRefuses, match=told) as error:
        asked(spark, kafka_server.bootstrap, timeout=5.0)

    assert "hunter2" not in str(error.value)
