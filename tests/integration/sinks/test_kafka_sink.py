"""The Kafka sink on a real broker: contents of records, crashes, transactions that end badly."""

from __future__ import annotations

import datetime
import json
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.sinks.topics import UID, Topics
from tests.servers.kafka import KafkaServer

from streamjob.errors import StreamJobError
from streamjob.ids import BatchId, CheckpointId, Epoch
from streamjob.sink import SinkContext
from streamjob.store.base import StoreUnavailable
from streamjob.store.local import LocalStore
from streamjob.store.staging import StoreStaging
from streamjob.testing.interception import Crash, Interception
from streamjob_runtime.kafka.errors import KafkaUnreachable, TopicMissing
from streamjob_runtime.sinks.errors import RowsRefused, StagedRowsGone
from streamjob_runtime.sinks.kafka.errors import (
    CommitFailed,
    ProducerFenced,
    TransactionTimedOut,
)
from streamjob_runtime.sinks.kafka.transactions import Kafka, Producer

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

AT = datetime.datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=datetime.UTC)


def crash() -> None:
    raise Crash


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it never came about"


@pytest.mark.core
def test_a_record_has_the_key_headers_partition_and_timestamp_of_its_row(topics: Topics, spark: SparkSession) -> None:
    headers = "array<struct<key:string,value:binary>>"
    rows = spark.createDataFrame(
        [
            ("k", "v", [("a", b"1"), ("a", None)], 1, AT),
            (None, None, None, 0, None),
        ],
        f"key string, value string, headers {headers}, partition int, timestamp timestamp",
    )
    sink = topics.open()
    sink.check_schema(rows.schema)
    staged = sink.stage(rows, BatchId(0))
    topics.commit(sink, 1, staged.committable)

    tombstone, record = topics.read()
    assert staged.rows == 2
    assert (record.key, record.value, record.partition) == (b"k", b"v", 1)
    assert record.headers == (("a", b"1"), ("a", None))
    assert record.timestamp == int(AT.timestamp() * 1000)
    assert (tombstone.key, tombstone.value, tombstone.partition) == (None, None, 0)


def test_rows_of_a_topic_column_go_where_it_says(topics: Topics, spark: SparkSession) -> None:
    other = f"other-{secrets.token_hex(4)}"
    topics.server.create_topic(other)
    options = {name: value for name, value in topics.options().items() if name != "topic"}
    sink = topics.open(options=options)
    rows = spark.createDataFrame([(topics.rows, b"1"), (other, b"2")], "topic string, value binary")
    topics.commit(sink, 1, sink.stage(rows, BatchId(0)).committable)

    assert topics.values() == ["1"]
    assert [message.value for message in topics.server.consume(other)] == [b"2"]


def test_rows_of_one_key_keep_their_order(topics: Topics, spark: SparkSession) -> None:
    sink = topics.open()
    batches = [
        spark.createDataFrame([("k", f"{number}-{each}") for each in range(50)], "key string, value string").coalesce(1)
        for number in range(3)
    ]
    topics.commit(sink, 1, *(sink.stage(batch, BatchId(0)).committable for batch in batches))

    found = [(message.value or b"").decode() for message in topics.read()]
    assert found == [f"{number}-{each}" for number in range(3) for each in range(50)]


@pytest.mark.parametrize(
    ("row", "schema", "why"),
    [
        (("x" * 1_100_000,), "value string", "a row has .* bytes, and max.request.size is 1048576"),
        (("v", -1), "value string, partition int", "a row has the partition -1"),
        (("v", 7), "value string, partition int", "a row has the partition 7, and topic .* has 2"),
        (("v", datetime.datetime(1960, 1, 1)), "value string, timestamp timestamp", "a timestamp before 1970"),
        (
            ("v", [(None, b"1")]),
            "value string, headers array<struct<key:string,value:binary>>",
            "a header without a key",
        ),
    ],
)
def test_a_row_that_can_be_no_record_is_refused_before_a_checkpoint_covers_it(
    topics: Topics, spark: SparkSession, row: tuple[object, ...], schema: str, why: str
) -> None:
    sink = topics.open()

    with pytest.raises(RowsRefused, match=why):
        sink.stage(spark.createDataFrame([row], schema), BatchId(0))

    assert topics.staged_objects() == []
    assert list(topics.scratch.rglob("*-*")) == []


@pytest.mark.parametrize("name", ["not a topic", "é", ".", "..", "x" * 250, ""])
def test_a_name_that_no_topic_can_have_is_refused_before_a_checkpoint_covers_it(
    topics: Topics, spark: SparkSession, name: str
) -> None:
    options = topics.options()
    del options["topic"]
    sink = topics.open(options=options)
    rows = spark.createDataFrame([(topics.rows, "1"), (name, "2")], "topic string, value string")

    with pytest.raises(RowsRefused, match=r"a row has the topic|a row has no topic"):
        sink.stage(rows, BatchId(0))

    assert topics.staged_objects() == []


def files_of_tasks(spark: SparkSession) -> list[Path]:
    """Return the files of staged rows that tasks have on this machine."""
    directory = spark.sparkContext.getConf().get("spark.local.dir") or tempfile.gettempdir()
    return list(Path(directory).rglob("streamjob-staged-*"))


@pytest.mark.parametrize("on_executors", [False, True])
def test_many_rows_become_an_object_for_each_task_which_stages_it_itself_on_executors(
    topics: Topics, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, on_executors: bool
) -> None:
    store = LocalStore(tmp_path / "store")
    staging = StoreStaging(store, UID, Epoch(1), tmp_path / "own")
    sink = topics.sink()
    sink.open(SinkContext(topics.job, "default", UID, Epoch(1), topics.options(), staging))
    rows = spark.range(40_000, numPartitions=2).selectExpr("sha2(CAST(id AS STRING), 512) AS value")

    with monkeypatch.context() as patch:
        if on_executors:
            patch.setattr(Kafka, "computes", property(lambda _: False))
            patch.setattr(StoreStaging, "put", lambda *_: pytest.fail("the driver stages rows"))
        staged = sink.stage(rows, BatchId(0))
    assert len(list(store.list("staged/"))) == 2
    assert list((tmp_path / "own").glob("*")) == []
    topics.commit(sink, 1, staged.committable)

    assert staged.rows == 40_000
    assert topics.values() == sorted(row.value for row in rows.collect())
    assert list(store.list("staged/")) == []
    assert files_of_tasks(spark) == []


def test_a_batch_that_fails_leaves_no_file_behind(topics: Topics, spark: SparkSession) -> None:
    sink = topics.open()
    failing = spark.range(10, numPartitions=2).selectExpr("IF(id > 8, raise_error('half way'), 'v') AS value")

    with pytest.raises(Exception, match="half way"):
        sink.stage(failing, BatchId(0))

    assert files_of_tasks(spark) == []
    assert topics.staged_objects() == []


def test_what_a_topic_refuses_is_told_with_its_name_and_leaves_no_transaction(topics: Topics) -> None:
    narrow = f"narrow-{secrets.token_hex(4)}"
    topics.server.create_topic(narrow, max_message_bytes="2000")
    sink = topics.open(options=topics.options(topic=narrow))
    with pytest.raises(RowsRefused, match=f"a row has .* bytes, and max.message.bytes of topic {narrow} is 2000"):
        topics.stage(sink, "x" * 5000)
    assert topics.staged_objects() == []
    # What a compressed row will take is not known before it is sent.
    sink = topics.open(2, options=topics.options(topic=narrow, **{"kafka.compression.type": "lz4"}))
    staged = topics.stage(sink, secrets.token_hex(20_000))

    with pytest.raises(RowsRefused, match=f"publish checkpoint 1 to topic {narrow}: a row is too large"):
        topics.commit(sink, 1, staged)

    assert topics.open_transactions() == []
    assert topics.server.consume(narrow) == []


def test_a_topic_that_is_not_there_when_rows_are_sent_is_told_by_its_name(topics: Topics, spark: SparkSession) -> None:
    options = {**topics.options(), "kafka.max.block.ms": "1000"}
    del options["topic"]
    sink = topics.open(options=options)
    missing = f"missing-{secrets.token_hex(4)}"
    rows = spark.createDataFrame([(missing, "v")], "topic string, value string")
    with pytest.raises(RowsRefused, match=f"a row is for topic {missing}, which does not exist"):
        sink.stage(rows, BatchId(0))
    topics.server.create_topic(missing)
    staged = sink.stage(rows, BatchId(0)).committable
    topics.server.delete_topic(missing)

    with pytest.raises(TopicMissing, match=f"to topic {missing}: the topic is not there"):
        topics.commit(sink, 1, staged)

    assert topics.open_transactions() == []


@pytest.mark.core
def test_the_transaction_of_a_process_that_died_in_its_commit_is_ended_by_the_next_one(topics: Topics) -> None:
    former = topics.open(1)
    staged = topics.stage(former, "1")
    # A killed process aborts nothing.
    with Interception(((Producer, "commit"), (Producer, "close")), 0, crash), pytest.raises(Crash):
        topics.commit(former, 1, staged)
    wait_until(lambda: bool(topics.open_transactions()))
    topics.server.produce(topics.commits, [("other", "behind")])
    assert topics.server.consume(topics.commits) == []

    topics.open(2)

    assert topics.open_transactions() == []
    assert [message.value for message in topics.server.consume(topics.commits)] == [b"behind"]
    assert topics.values() == []


def test_a_reply_that_is_lost_behind_the_commit_publishes_nothing_twice(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = topics.open()
    staged = topics.stage(sink, "1")
    original = Producer.commit

    def lose_the_reply(self: Producer, doing: str) -> None:
        original(self, doing)
        raise CommitFailed("no reply")

    with monkeypatch.context() as patch:
        patch.setattr(Producer, "commit", lose_the_reply)
        with pytest.raises(CommitFailed, match="no reply"):
            topics.commit(sink, 1, staged)
    topics.commit(sink, 1, staged)
    topics.commit(topics.open(2), 1, staged)

    assert topics.values() == ["1"]
    assert topics.staged_objects() == []


def test_rows_that_could_not_be_deleted_are_not_published_again(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = topics.open()
    first = topics.stage(sink, "1")

    def fail(*_: object) -> None:
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(StoreStaging, "delete", fail)
        topics.commit(sink, 1, first)
    assert len(topics.staged_objects()) == 1
    successor = topics.open(2)
    topics.commit(successor, 1, first)
    topics.commit(successor, 2, topics.stage(successor, "2"))

    assert topics.values() == ["1", "2"]
    assert topics.staged_objects() == []


def test_an_older_snapshot_brought_back_publishes_nothing_again_and_loses_nothing(topics: Topics) -> None:
    sink = topics.open()
    first, second = topics.stage(sink, "1"), topics.stage(sink, "2")
    topics.commit(sink, 1, first)
    topics.commit(sink, 2, second)

    topics.commit(topics.open(2), 1, first)

    assert topics.values() == ["1", "2"]


def test_a_job_made_anew_under_the_same_name_is_not_taken_for_committed(topics: Topics) -> None:
    sink = topics.open()
    for checkpoint in (1, 2):
        topics.commit(sink, checkpoint, topics.stage(sink, f"old {checkpoint}"))
    topics.store.objects.clear()

    anew = topics.open()
    topics.commit(anew, 1, topics.stage(anew, "new 1"))

    assert topics.values() == ["new 1", "old 1", "old 2"]


def test_rows_that_are_lost_are_an_error(topics: Topics) -> None:
    sink = topics.open()
    staged = topics.stage(sink, "1")
    topics.store.objects.clear()

    with pytest.raises(StagedRowsGone, match="rows of checkpoint 1 are neither committed nor staged"):
        topics.commit(sink, 1, staged)


def test_rows_that_are_rescued_are_in_a_file_and_not_in_their_topic(
    topics: Topics, spark: SparkSession, tmp_path: Path
) -> None:
    sink = topics.open()
    headers = "headers array<struct<key:string,value:binary>>"
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    rows = [("k", "v", 1, at, [("h", b"\x00")]), (None, "w", None, None, None)]
    batch = spark.createDataFrame(rows, f"key string, value string, partition int, timestamp timestamp, {headers}")
    staged = sink.stage(batch.coalesce(1), BatchId(0)).committable

    assert sink.rescue(CheckpointId(1), [staged], tmp_path / "rows") == 2
    first, second = map(json.loads, (tmp_path / "rows").read_text().splitlines())
    assert first == {
        "topic": topics.rows,
        "partition": 1,
        "timestamp": 1767225600000,
        "key": "aw==",
        "value": "dg==",
        "headers": [{"key": "h", "value": "AA=="}],
    }
    assert second == {
        "topic": topics.rows,
        "partition": None,
        "timestamp": None,
        "key": None,
        "value": "dw==",
        "headers": [],
    }
    assert topics.values() == []


def test_rows_that_are_damaged_are_an_error_and_none_is_published(topics: Topics) -> None:
    sink = topics.open()
    staged = topics.stage(sink, "some text that is long enough")
    (uri,) = topics.store.objects
    content = bytearray(topics.store.objects[uri])
    content[30] ^= 0xFF
    topics.store.objects[uri] = bytes(content)

    with pytest.raises(StagedRowsGone, match=r"staged/.* is damaged: its SHA-256 is"):
        topics.commit(sink, 1, staged)

    assert topics.values() == []
    assert topics.open_transactions() == []


def test_abort_discards_two_lower_epochs_at_once(topics: Topics) -> None:
    for epoch in (1, 2):
        topics.stage(topics.open(epoch), "never")
    later = topics.open(3)
    own = topics.stage(later, "kept")
    later.abort()

    assert len(topics.staged_objects()) == 1
    topics.commit(later, 1, own)
    assert topics.values() == ["kept"]


@pytest.mark.core
def test_a_superseded_process_that_has_begun_is_fenced(topics: Topics) -> None:
    former = topics.open(1)
    topics.commit(former, 1, topics.stage(former, "1"))
    late = topics.stage(former, "late")
    successor = topics.open(2)
    successor.abort()

    with pytest.raises((ProducerFenced, StagedRowsGone)):
        topics.commit(former, 2, late)

    topics.commit(successor, 2, topics.stage(successor, "2"))
    assert topics.values() == ["1", "2"]


def test_a_superseded_process_cannot_end_the_transaction_that_it_has_open(topics: Topics) -> None:
    former = topics.open(1)
    staged = topics.stage(former, "1")

    def succeed() -> None:
        successor = topics.open(2)
        topics.commit(successor, 1, staged)

    with Interception(((Producer, "commit"),), 0, succeed), pytest.raises(ProducerFenced, match="another process"):
        topics.commit(former, 1, staged)

    assert topics.values() == ["1"]


def test_the_record_of_a_commit_names_its_batches_and_the_topic_keeps_one_of_each_sink(topics: Topics) -> None:
    sink = topics.open()
    first = topics.stage(sink, "1")
    topics.commit(sink, 4, first)

    assert topics.record() == {"formatVersion": 1, "epoch": 1, "checkpoint": 4, "batches": first["names"]}


def test_a_record_is_found_far_behind_those_of_other_sinks_and_after_partitions_were_added(topics: Topics) -> None:
    sink = topics.open()
    staged = topics.stage(sink, "1")
    topics.commit(sink, 1, staged)
    topics.server.produce(topics.commits, [(f"default/other/{each}", "{}") for each in range(5000)])
    topics.server.add_partitions(topics.commits, 3)

    topics.commit(topics.open(2), 1, staged)

    assert topics.values() == ["1"]


def test_another_sinks_transaction_that_stays_open_among_the_records_is_told(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamjob_runtime.sinks.kafka.transactions._PATIENCE_SECONDS", 1)
    sink = topics.open()
    staged = topics.stage(sink, "1")
    other = topics.server.producer(f"other-{secrets.token_hex(4)}")
    other.begin_transaction()
    other.produce(topics.commits, key="other", value="{}")
    other.flush()

    with pytest.raises(KafkaUnreachable, match="another sink's transaction is open"):
        topics.commit(sink, 1, staged)

    other.commit_transaction()
    topics.commit(sink, 1, staged)
    assert topics.values() == ["1"]


@pytest.fixture
def fragile(fragile_broker: KafkaServer, spark: SparkSession, tmp_path: Path) -> Iterator[Topics]:
    """Return topics of a broker that the test may kill."""
    own = Topics(fragile_broker, spark, tmp_path / "scratch")
    own.make()
    yield own
    own.close()


def test_a_broker_that_goes_and_comes_back_in_a_commit_gets_each_row_once(fragile: Topics) -> None:
    sink = fragile.open()
    staged = fragile.stage(sink, *(f"{each:03}" for each in range(200)))

    def crash_and_come_back() -> None:
        fragile.server.kill()
        fragile.server.start()

    with Interception(((Producer, "commit"),), 0, crash_and_come_back):
        try:
            fragile.commit(sink, 1, staged)
        except StreamJobError:
            fragile.commit(fragile.open(2), 1, staged)

    assert fragile.values() == [f"{each:03}" for each in range(200)]
    assert fragile.open_transactions() == []


def test_brokers_that_stay_away_are_told(fragile: Topics) -> None:
    options = fragile.options(**{"kafka.max.block.ms": "1000", "kafka.delivery.timeout.ms": "1500"})
    sink = fragile.open(options={**options, "kafka.request.timeout.ms": "1000"})
    staged = fragile.stage(sink, "1")
    fragile.server.kill()

    with pytest.raises(KafkaUnreachable, match="do not answer in time"):
        fragile.commit(sink, 1, staged)

    fragile.server.start()
    fragile.commit(sink, 1, staged)
    assert fragile.values() == ["1"]


def test_a_transaction_that_took_too_long_is_told_with_the_setting(fragile: Topics) -> None:
    sink = fragile.open(options=fragile.options(**{"kafka.transaction.timeout.ms": "1000"}))
    staged = fragile.stage(sink, "1")

    def wait_for_its_end() -> None:
        wait_until(lambda: bool(fragile.open_transactions()))
        wait_until(lambda: not fragile.open_transactions())

    with (
        Interception(((Producer, "commit"),), 0, wait_for_its_end),
        pytest.raises(TransactionTimedOut, match="brokers give it up after 1 s"),
    ):
        fragile.commit(sink, 1, staged)
    fragile.commit(sink, 1, staged)

    assert fragile.values() == ["1"]
