"""A bounded Kafka source ends where its topics ended at the first start, whatever comes later."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import JsonValue
from tests import jobs
from tests.integration.runtime.embedded import Life, finish, life_in, running
from tests.integration.runtime.graphs import SCHEMA, Row, add_rows, job, manifests, numbered, output, rows_of, source
from tests.integration.runtime.power import Power
from tests.integration.runtime.stories import NEVER, finished_chains
from tests.jobs import sql
from tests.servers.kafka import KafkaServer

from streamjob.errors import ExitCode
from streamjob.ids import OperatorUid
from streamjob.protocol.lifecycle import JobState
from streamjob.snapshot.manifest import SourceState
from streamjob_runtime.kafka.bounded import FORMAT, bound_topics, latest_offsets
from streamjob_runtime.kafka.positions import read_offsets
from streamjob_runtime.spark.checkpoint_dir.logs import last_committed
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets as log_entry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

PARSED = f"SELECT from_json(CAST(value AS STRING), '{SCHEMA}') AS row, timestamp FROM topic"
ROWS = numbered(0, 40)


def topic_source(server: KafkaServer, topics: str, **options: Any) -> dict[str, Any]:
    return jobs.topic("topic", server.bootstrap, topics, options, bounded=True)


def fill(server: KafkaServer, topic: str, rows: Sequence[Row], **how: Any) -> None:
    server.produce(topic, [(row.k, json.dumps(row.fields())) for row in rows], **how)


def stored(life: Life) -> SourceState:
    """Return what the newest snapshot says of the topic."""
    newest = manifests(Path(life.location) / "default" / "job")[-1]
    return next(each for each in newest.sources if each.uid == "topic")


def cut_behind_a_checkpoint(spark: SparkSession, life: Life, power: Power, gate: Path) -> None:
    """Cut the power of a job's first life after its first batch and a checkpoint, when it passes the gate."""
    with running(spark, replace(life, restarts=NEVER)) as first:
        first.wait_for_batches()
        first.checkpoint()
        power.cut(first, gate.touch)
        first.wait()


@pytest.mark.core
def test_what_comes_behind_the_end_is_not_read_and_the_windows_of_the_rest_are_complete(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    for partition in (0, 1):
        fill(kafka_server, topic, ROWS[partition::2][:15], partition=partition)
        fill(
            kafka_server, topic, [replace(row, gate=str(gate)) for row in ROWS[partition::2][15:]], partition=partition
        )
    read = {**topic_source(kafka_server, topic, maxOffsetsPerTrigger=10)}
    read["watermark"] = {"column": "timestamp", "delay": "0s"}
    windows = "SELECT k, sort_array(collect_list(n)) AS ns FROM held GROUP BY k, window(timestamp, '1 minute')"
    held = {"name": "held", "inputs": ["rows"], "python": "tests.integration.runtime.recording:gated"}
    operators = [
        sql("parsed", ["topic"], PARSED),
        sql("rows", ["parsed"], "SELECT row.k, row.n, row.gate, timestamp FROM parsed"),
        held,
        sql("windows", ["held"], windows),
    ]
    life = life_in(tmp_path, job(tmp_path, [read], operators, ["windows"], checkpointing={"interval": "1h"}))
    power = Power(monkeypatch)
    cut_behind_a_checkpoint(spark, life, power, gate)
    begun = stored(life)
    offsets = {topic: {"0": 20, "1": 20}}
    assert begun.end == {"offsets": offsets}
    assert begun.position != offsets

    fill(kafka_server, topic, numbered(40, 20))
    kafka_server.add_partitions(topic, 3)
    fill(kafka_server, topic, numbered(60, 5), partition=2)
    power.comes_back()
    with running(spark, life) as second:
        assert second.wait() is ExitCode.OK
        assert second.state is JobState.FINISHED

    found = Counter((k, n) for k, ns in rows_of_lists(output(tmp_path, "windows")) for n in ns)
    assert found == Counter((row.k, row.n) for row in ROWS)
    ended = stored(life)
    assert (ended.position, ended.end) == (offsets, begun.end)


def rows_of_lists(batches: Sequence[tuple[int, Sequence[Sequence[Any]]]]) -> list[Sequence[Any]]:
    return [row for _, rows in batches for row in rows]


def test_what_has_ended_is_not_looked_for_again_while_the_rest_of_the_job_goes_on(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    fill(kafka_server, topic, ROWS)
    for name in ("ending", "endless"):
        add_rows(tmp_path / name, 0, numbered(100, 3))
    sources = [
        topic_source(kafka_server, topic),
        source("ending", tmp_path / "ending", bounded=True),
        source("endless", tmp_path / "endless"),
    ]
    every = "SELECT row.k, row.n FROM parsed UNION ALL SELECT k, n FROM ending UNION ALL SELECT k, n FROM endless"
    operators = [sql("parsed", ["topic"], PARSED), sql("all", ["parsed", "ending", "endless"], every)]
    life = life_in(tmp_path, job(tmp_path, sources, operators, ["all"]))
    with running(spark, life) as first:
        first.wait_for(lambda: len(finished_chains(first)) == 2, "the end of what ends")
        first.checkpoint()
        assert first.stop() is ExitCode.OK

    kafka_server.delete_topic(topic)
    for file in (tmp_path / "ending").iterdir():
        file.unlink()
    add_rows(tmp_path / "endless", 1, numbered(103, 3))
    expected = Counter((row.k, row.n) for row in [*ROWS, *numbered(100, 3), *numbered(100, 6)])
    with running(spark, life) as second:
        second.wait_for(lambda: rows_of(output(tmp_path, "all")) == expected, "all rows")
        assert second.stop() is ExitCode.OK


def test_a_topic_that_was_read_to_its_end_may_be_gone_while_others_are_read_on(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, others = tmp_path / "gate", f"{topic}-others"
    kafka_server.create_topic(others)
    fill(kafka_server, topic, ROWS[:1], partition=0)
    fill(kafka_server, topic, ROWS[1:2], partition=1)
    fill(kafka_server, others, [*ROWS[2:9], replace(ROWS[9], gate=str(gate))])
    # A batch has one record of each partition at least.
    read = topic_source(kafka_server, f"{topic},{others}", maxOffsetsPerTrigger=3)
    operators = [
        sql("parsed", ["topic"], PARSED),
        sql("rows", ["parsed"], "SELECT row.k, row.n, row.gate FROM parsed"),
        {"name": "held", "inputs": ["rows"], "python": "tests.integration.runtime.recording:gated"},
    ]
    life = life_in(tmp_path, job(tmp_path, [read], operators, ["held"], checkpointing={"interval": "1h"}))
    power = Power(monkeypatch)
    cut_behind_a_checkpoint(spark, life, power, gate)
    begun = read_offsets(stored(life).position)
    assert {each.partition: offset for each, offset in begun.items() if each.topic == topic} == {0: 1, 1: 1}

    kafka_server.delete_topic(topic)
    power.comes_back()
    with running(spark, life) as second:
        assert second.wait() is ExitCode.OK
        assert second.state is JobState.FINISHED

    assert rows_of(output(tmp_path, "held")) == Counter((row.k, row.n) for row in ROWS[:10])
    ended = {topic: {"0": 1, "1": 1}, others: {"0": 8}}
    assert (stored(life).end, stored(life).position) == ({"offsets": ended}, ended)


def test_topics_that_were_all_read_to_their_ends_may_be_gone(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    fill(kafka_server, topic, ROWS)
    options = topic_source(kafka_server, topic)["options"]
    rows: list[int] = []

    def read(known: JsonValue, position: JsonValue) -> tuple[JsonValue, JsonValue]:
        uid = OperatorUid("topic")
        bounded = bound_topics(uid, options, known, position, latest_offsets(spark, uid, known=known is not None))
        stream = spark.readStream.format(FORMAT).options(**bounded.options).load().writeStream
        stream = stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        query = stream.foreachBatch(lambda batch, _: rows.append(batch.count())).start()
        query.awaitTermination()
        batch = last_committed(tmp_path)
        assert batch is not None
        return bounded.end.to_json(), log_entry(tmp_path, batch).offsets()[0][1]

    end, position = read(None, None)
    assert sum(rows) == len(ROWS)

    kafka_server.delete_topic(topic)
    assert read(end, position) == (end, position)
    assert sum(rows) == len(ROWS)


def test_an_end_is_where_committed_records_end_unless_uncommitted_ones_are_asked_for(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    rows, aborted = numbered(0, 8), numbered(50, 3)
    fill(kafka_server, topic, rows[:5], partition=0, transaction=True)
    fill(kafka_server, topic, aborted, partition=0, abort=True)
    fill(kafka_server, topic, rows[5:], partition=0, transaction=True)
    # Nothing but records that are not read, up to the end.
    fill(kafka_server, topic, aborted, partition=1, abort=True)
    kafka_server.create_topic(f"{topic}-empty")
    pending = kafka_server.producer(f"{topic}-pending")
    pending.begin_transaction()
    pending.produce(topic, value=json.dumps(rows[0].fields()), partition=0)
    assert pending.flush(30) == 0
    committed = topic_source(kafka_server, f"{topic},{topic}-empty", maxOffsetsPerTrigger=4)
    every = topic_source(kafka_server, topic, **{"kafka.isolation.level": "read_uncommitted"})
    operators = [
        sql("parsed", ["topic"], PARSED),
        sql("rows", ["parsed"], "SELECT row.k, row.n FROM parsed"),
        sql("all_parsed", ["every"], PARSED.replace("FROM topic", "FROM every")),
        sql("all_rows", ["all_parsed"], "SELECT row.k, row.n FROM all_parsed"),
    ]
    life = life_in(tmp_path, job(tmp_path, [committed, {**every, "name": "every"}], operators, ["rows", "all_rows"]))
    finish(spark, life)
    pending.abort_transaction()

    assert rows_of(output(tmp_path, "rows")) == Counter((row.k, row.n) for row in rows)
    read = [*rows, *aborted, *aborted, rows[0]]
    assert rows_of(output(tmp_path, "all_rows")) == Counter((row.k, row.n) for row in read)
    # Each transaction ends with a record of its own; the pending one begins after them.
    offsets = {topic: {"0": 8 + 3 + 3, "1": 3 + 1}, f"{topic}-empty": {"0": 0}}
    assert (stored(life).end, stored(life).position) == ({"offsets": offsets}, offsets)


def test_an_empty_topic_ends_at_once(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    read = topic_source(kafka_server, topic)
    life = life_in(tmp_path, job(tmp_path, [read], [sql("parsed", ["topic"], PARSED)], ["parsed"]))
    for _ in range(2):
        with running(spark, life) as ending:
            assert ending.wait() is ExitCode.OK
            assert ending.state is JobState.FINISHED

    assert output(tmp_path, "parsed") == []
