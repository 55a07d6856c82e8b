"""Where a bounded Kafka source ends, and what of it is left to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from streamjob.errors import ExitCode
from streamjob.ids import BatchId, OperatorUid
from streamjob.job.connectors.kafka_end import TopicPartition
from streamjob_runtime.chain.ending.end_of_input import read_end
from streamjob_runtime.kafka.bounded import (
    EndingOffsetsDoNotFit,
    KafkaEnd,
    RecordsBeforeEndGone,
    bound_topics,
)
from streamjob_runtime.kafka.positions import Offsets

ORDERS = OperatorUid("orders")
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OPTIONS = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "a,b"}


class Broker:
    """Returns the ends of partitions, and records its calls."""

    def __init__(self, latest: Offsets) -> None:
        self.latest = dict(latest)
        self.asked: list[Mapping[str, str]] = []

    def __call__(self, options: Mapping[str, str]) -> Offsets:
        self.asked.append(options)
        if "assign" not in options:
            return self.latest
        assigned = json.loads(options["assign"])
        return {each: end for each, end in self.latest.items() if each.partition in assigned.get(each.topic, ())}


def test_at_the_first_start_a_source_ends_where_its_partitions_end() -> None:
    broker = Broker({A0: 7, A1: 0, B0: 3})

    bounded = bound_topics(ORDERS, OPTIONS, None, None, broker)

    assert bounded.end == KafkaEnd({A0: 7, A1: 0, B0: 3})
    assert json.loads(bounded.options["endingOffsets"]) == {"a": {"0": 7, "1": 0}, "b": {"0": 3}}
    assert broker.asked == [{**OPTIONS, "startingOffsets": "earliest"}]


def test_a_stream_is_of_the_partitions_that_have_an_end_alone() -> None:
    bounded = bound_topics(ORDERS, {**OPTIONS, "startingoffsets": "{}"}, None, None, Broker({A0: 7, B0: 3}))

    assert bounded.options == {
        "kafka.bootstrap.servers": "broker:9092",
        "startingoffsets": "{}",
        "assign": '{"a": [0], "b": [0]}',
        "endingOffsets": '{"a": {"0": 7}, "b": {"0": 3}}',
    }


def test_an_end_that_is_known_is_not_moved() -> None:
    known = KafkaEnd({A0: 7}).to_json()
    broker = Broker({A0: 9, A1: 4})

    bounded = bound_topics(ORDERS, {**OPTIONS, "endingOffsets": '{"a": {"0": 8}}'}, known, {"a": {"0": 5}}, broker)

    assert bounded.end == KafkaEnd({A0: 7})
    assert json.loads(bounded.options["endingOffsets"]) == {"a": {"0": 7}}


def test_an_end_may_be_named() -> None:
    options = {**OPTIONS, "endingOffsets": '{"a": {"0": 5, "1": -1}}'}

    assert bound_topics(ORDERS, options, None, None, Broker({A0: 7, A1: 2})).end == KafkaEnd({A0: 5, A1: 2})


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ('{"a": {"0": 5}}', "names none for partition 1 of topic 'a'"),
        ('{"a": {"0": 5, "1": 1, "2": 0}}', "names one for partition 2 of topic 'a', which the source does not read"),
        ('{"a": {"0": 8, "1": 1}}', "has 8 for partition 0 of topic 'a', which ends at 7"),
    ],
)
def test_an_end_that_does_not_fit_the_topics_is_refused(named: str, said: str) -> None:
    with pytest.raises(EndingOffsetsDoNotFit, match="'orders'") as refused:
        bound_topics(ORDERS, {**OPTIONS, "endingOffsets": named}, None, None, Broker({A0: 7, A1: 2}))

    assert said in refused.value.what


@pytest.mark.parametrize(
    ("now", "found"), [({A0: 6, A1: 2}, "it ends at 6"), ({A1: 2}, "it is gone")], ids=["shorter", "gone"]
)
def test_a_topic_that_no_longer_reaches_its_end_cannot_be_read_on(now: Offsets, found: str) -> None:
    known = KafkaEnd({A0: 7, A1: 2}).to_json()

    with pytest.raises(RecordsBeforeEndGone) as gone:
        bound_topics(ORDERS, OPTIONS, known, {"a": {"0": 5, "1": 2}}, Broker(now))

    assert gone.value.what == f"Source 'orders' is to read partition 0 of topic 'a' up to offset 7, and {found}"
    assert gone.value.exit_code is ExitCode.CANNOT_RESTORE


def test_what_was_read_up_to_its_end_is_not_asked_for_again() -> None:
    broker, end = Broker({A1: 2}), KafkaEnd({A0: 7, A1: 2}).to_json()

    bounded = bound_topics(ORDERS, OPTIONS, end, {"a": {"0": 7, "1": 1}}, broker)
    assert [json.loads(each["assign"]) for each in (*broker.asked, bounded.options)] == [{"a": [1]}, {"a": [1]}]
    assert (bounded.end.to_json(), json.loads(bounded.options["endingOffsets"])) == (end, {"a": {"0": 7, "1": 2}})

    bounded = bound_topics(ORDERS, OPTIONS, KafkaEnd({A0: 7}).to_json(), {"a": {"0": 9}}, broker)
    assert len(broker.asked) == 1
    assert json.loads(bounded.options["assign"]) == {}


def test_an_end_survives_the_manifest() -> None:
    end = KafkaEnd({A0: 7, A1: 0, B0: 3})

    assert read_end(json.loads(json.dumps(end.to_json()))) == end


@pytest.mark.parametrize(
    ("position", "unread"),
    [
        ('{"a":{"0":7,"1":0}}', None),
        ('{"a":{"0":9,"1":1}}', None),
        ('{"a":{"0":6,"1":0}}', "partition 0 of topic 'a' up to offset 7"),
        ("-", "partition 0 of topic 'a' up to offset 7"),
    ],
)
def test_a_source_is_at_its_end_when_each_partition_is(tmp_path: Path, position: str, unread: str | None) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_text(f"v1\n{{}}\n-\n{position}")

    assert KafkaEnd({A0: 7, A1: 0}).unread(tmp_path, BatchId(4), 1, 1) == unread


def test_topics_without_partitions_are_at_their_end_before_anything_is_read(tmp_path: Path) -> None:
    assert KafkaEnd({}).unread(tmp_path, None, 0, 0) is None
    assert KafkaEnd({A0: 1}).unread(tmp_path, None, 0, 0) is not None
