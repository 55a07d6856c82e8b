"""How a job's file says where a bounded Kafka source ends."""

from __future__ import annotations

import pytest

from streamjob.job.connectors.kafka_end import NotEndingOffsets, TopicPartition, ending_offsets, problems


@pytest.mark.parametrize("text", [None, "latest", " Latest "])
def test_the_end_is_the_latest_offset_unless_another_is_named(text: str | None) -> None:
    assert ending_offsets(text) is None


def test_offsets_are_named_by_topic_and_partition() -> None:
    assert ending_offsets('{"a": {"0": 7, "1": -1}, "b": {"0": 0}}') == {
        TopicPartition("a", 0): 7,
        TopicPartition("a", 1): None,
        TopicPartition("b", 0): 0,
    }


@pytest.mark.parametrize(
    "text",
    [
        "earliest", "7", "[]", '{"a": 7}', '{"a": {"x": 7}}', '{"a": {"0": -2}}', '{"a": {"0": "7"}}',
        '{"a": {"0": true}}', '{"a": {"0": 1.5}}', "{", "",
    ],
)  # fmt: skip
def test_what_is_no_end_is_refused(text: str) -> None:
    with pytest.raises(NotEndingOffsets, match="endingOffsets"):
        ending_offsets(text)
    assert [each.what for each in problems({"endingOffsets": text}, bounded=True)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingTimestamp": "1"}, "has endingTimestamp"),
        ({"endingoffsetsbytimestamp": "{}"}, "has endingOffsetsByTimestamp"),
        ({"startingOffsets": "latest"}, "would read nothing"),
    ],
)
def test_what_does_not_go_with_an_end_is_refused(options: dict[str, str], said: str) -> None:
    [(what, fix, _)] = problems(options, bounded=True)

    assert said in what
    assert fix


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_source_that_is_not_bounded_has_no_end(name: str) -> None:
    [(what, *_)] = problems({name: "latest"}, bounded=False)

    assert what == f"has {name}, and is not bounded"


def test_an_end_that_the_environment_names_is_looked_at_later() -> None:
    assert not list(problems({"endingOffsets": "${env:END}", "startingOffsets": "earliest"}, bounded=True))
