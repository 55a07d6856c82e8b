"""The watermark of a source is the least over its partitions, without idle ones and those at their end."""

from __future__ import annotations

from streamjob.protocol.event_time.partition_times import PartitionTimes


def times(timeout: float | None = None, **watermarks: int) -> PartitionTimes[str]:
    return PartitionTimes(watermarks, timeout)


def test_a_partition_without_a_row_holds_the_watermark_back() -> None:
    source = times()
    source.note({"a": 50}, ["a", "b"], (), 0.0)
    assert source.watermark(1000.0) is None

    source.note({"b": 20}, ["a", "b"], (), 1000.0)
    assert source.watermark(1000.0) == 20


def test_a_new_partition_holds_it_back_like_the_others() -> None:
    source = times(a=50)
    source.note({"a": 60}, ["a", "new"], (), 0.0)

    assert source.watermark(0.0) is None


def test_a_row_behind_others_of_its_partition_does_not_lower_the_watermark() -> None:
    source = times(a=50)
    source.note({"a": 40}, ["a"], (), 0.0)

    assert source.watermark(0.0) == 50


def test_an_idle_partition_does_not_count_until_it_brings_a_row() -> None:
    source = times(30.0, a=50, b=20)
    source.note({}, ["a", "b"], (), 0.0)
    source.note({"a": 60}, ["a", "b"], (), 29.0)
    assert source.watermark(29.0) == 20
    assert source.watermark(30.0) == 60
    assert source.silent(30.0) == {"a": 1.0}

    source.note({"b": 25}, ["a", "b"], (), 31.0)
    assert source.watermark(31.0) == 25


def test_silence_begins_anew_with_a_process() -> None:
    source = times(30.0, a=50, b=20)
    source.note({"a": 60}, ["a", "b"], (), 100.0)

    assert source.watermark(100.0) == 20


def test_if_all_partitions_are_idle_the_latest_row_counts_as_in_a_topic_of_one_partition() -> None:
    source = times(30.0, a=50, b=20)
    assert source.watermark(100.0) is None
    source.note({}, ["a", "b", "empty"], (), 0.0)

    assert source.watermark(29.0) is None
    assert source.watermark(30.0) == 50


def test_a_partition_that_is_read_to_its_end_does_not_count() -> None:
    source = times()
    source.note({"a": 10, "b": 50}, ["a", "b", "empty"], ["a", "empty"], 0.0)
    assert source.watermark(0.0) == 50

    source.note({"b": 70}, ["a", "b", "empty"], ["a", "b", "empty"], 0.0)
    assert source.watermark(0.0) == 70


def test_a_partition_that_is_gone_is_forgotten() -> None:
    source = times(a=50, gone=20)
    source.note({"a": 60}, ["a"], (), 0.0)

    assert source.watermark(0.0) == 60
    assert source.watermarks == {"a": 60}
