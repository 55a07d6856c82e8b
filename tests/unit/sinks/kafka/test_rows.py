"""Rows that can become records of Kafka, and what they need of their topics."""

from __future__ import annotations

import pytest

from streamjob_runtime.kafka.admin import Topic
from streamjob_runtime.sinks.kafka.rows import HEADERS, mismatches
from streamjob_runtime.sinks.kafka.topics import TopicUse, refusal, uses


@pytest.mark.parametrize(
    ("columns", "topic"),
    [
        ({"value": "string"}, "alerts"),
        ({"value": "binary", "key": "binary", "topic": "string"}, None),
        ({"value": "string", "headers": HEADERS, "partition": "int", "timestamp": "timestamp"}, "alerts"),
        ({"value": "string", "timestamp": "timestamp_ntz"}, "alerts"),
    ],
)
def test_columns_that_a_record_has_fit(columns: dict[str, str], topic: str | None) -> None:
    assert list(mismatches(columns, topic)) == []


@pytest.mark.parametrize(
    ("columns", "topic", "what"),
    [
        ({"key": "string"}, "alerts", "rows have no column value"),
        ({"value": "string"}, None, "neither an option topic nor a column topic names a topic for the rows"),
        ({"value": "struct<a:int>"}, "alerts", "the column value is struct<a:int>, and has to be string or binary"),
        ({"value": "string", "partition": "bigint"}, "alerts", "the column partition is bigint, and has to be int"),
        ({"value": "string", "offset": "bigint"}, "alerts", "a record has no place for the column offset"),
    ],
)
def test_what_does_not_fit_is_told_with_a_fix(columns: dict[str, str], topic: str | None, what: str) -> None:
    ((found, fix),) = mismatches(columns, topic)

    assert found == what
    assert fix


TOPIC = Topic(2, True, True, {"cleanup.policy": "delete", "max.message.bytes": "1000"})
COMPACTED = Topic(2, True, True, {"cleanup.policy": "compact,delete", "max.message.bytes": "1000"})
FITTING = TopicUse(partition=1, longest=1000, keyless=True)


def test_the_needs_of_all_tasks_are_joined() -> None:
    texts = ["a\t-1\t10\t0\nb\t3\t20\t1\n", "", "a\t2\t5\t1\n"]

    assert uses(texts) == {"a": TopicUse(2, 10, True), "b": TopicUse(3, 20, True)}


@pytest.mark.parametrize(
    ("use", "topic", "compressed", "why"),
    [
        (FITTING, TOPIC, False, None),
        (TopicUse(-1, 1, False), COMPACTED, False, None),
        (FITTING, None, False, "a row is for topic t, which does not exist"),
        (FITTING, Topic(2, True, False, {}), False, "to which the sink may not write"),
        (TopicUse(2, 1, True), TOPIC, False, "a row has the partition 2, and topic t has 2"),
        (TopicUse(-1, 1, True), COMPACTED, False, "a row has no key, and topic t is compacted"),
        (TopicUse(-1, 1001, True), TOPIC, False, "a row has 1001 bytes, and max.message.bytes of topic t is 1000"),
        # The size that counts is that after compression.
        (TopicUse(-1, 1001, True), TOPIC, True, None),
        # The settings may not be readable.
        (TopicUse(-1, 1001, True), Topic(2, False, True, {}), False, None),
    ],
)
def test_a_topic_takes_rows_or_the_reason_is_told(
    use: TopicUse, topic: Topic | None, compressed: bool, why: str | None
) -> None:
    found = refusal("t", use, topic, compressed=compressed)

    assert found is None if why is None else found is not None and why in found[0]
