"""A Kafka source's client, its positions compared with the brokers' offsets, and the reports to consumer groups."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.errors import ExitCode
from streamjob.ids import OperatorUid
from streamjob_runtime.kafka.admin import KafkaAdmin
from streamjob_runtime.kafka.client import client_settings, for_batches, with_defaults
from streamjob_runtime.kafka.errors import (
    KafkaUnreachable,
    OffsetsGone,
    TopicMadeAgain,
    TopicMissing,
    TransactionOpen,
    UnusableBeginning,
)
from streamjob_runtime.kafka.positions import (
    TopicPartition,
    assignment,
    find_losses,
    lags,
    read_offsets,
    write_offsets,
)
from streamjob_runtime.kafka.reporting import OffsetReporter, OffsetReports, ReportedSource
from streamjob_runtime.kafka.source_checks import KafkaInput, check_input
from streamjob_runtime.kafka.starting import KafkaStart, beginning_at
from streamjob_runtime.kafka.topic_ids import KnownTopics

ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))


def test_offsets_are_read_as_spark_writes_them() -> None:
    assert read_offsets('{"orders": {"0": 97, "1": 101}}') == {ZERO: 97, ONE: 101}
    assert read_offsets({"orders": {"0": 97}}) == {ZERO: 97}


def test_offsets_and_partitions_are_written_as_spark_reads_them() -> None:
    assert write_offsets({ONE: 101, ZERO: 97}) == '{"orders": {"0": 97, "1": 101}}'
    assert assignment([ONE, ZERO]) == '{"orders": [0, 1]}'


@pytest.mark.parametrize("value", [None, "-", 3, "3", {"logOffset": 3}, {"orders": {"x": 1}}])
def test_what_are_no_offsets_of_partitions_is_none(value: object) -> None:
    assert read_offsets(value) == {}


def test_lag_is_what_is_between_position_and_end_and_never_below_nothing() -> None:
    assert lags({ZERO: 97, ONE: 5, TWO: 1}, {ZERO: 100, ONE: 3}) == {ZERO: 3, ONE: 0}


@pytest.mark.parametrize(
    ("position", "beginning", "end", "message"),
    [
        (10, 0, 20, None),
        (10, 10, 20, None),
        (20, 10, 20, None),
        (10, 11, 20, "from offset 10, and begins at offset 11: earlier records have been deleted"),
        (10, 0, 9, "from offset 10, and ends at offset 9: it was recreated or truncated"),
        (10, None, None, "from offset 10, and does not exist any more"),
    ],
)
def test_a_position_has_to_be_among_what_the_partition_has(
    position: int, beginning: int | None, end: int | None, message: str | None
) -> None:
    beginnings = {} if beginning is None else {ZERO: beginning}
    ends = {} if end is None else {ZERO: end}

    losses = find_losses({ZERO: position}, {ZERO}, beginnings, ends)

    told = None if message is None else f"partition 0 of topic 'orders' is to be read {message}"
    assert [str(loss) for loss in losses] == ([] if told is None else [told])


def test_a_partition_that_is_new_is_read_from_its_beginning_which_must_be_there() -> None:
    assert find_losses({ZERO: 5}, {ZERO, ONE}, {ZERO: 0, ONE: 0}, {ZERO: 5, ONE: 7}) == []
    (loss,) = find_losses({ZERO: 5}, {ZERO, ONE}, {ZERO: 0, ONE: 3}, {ZERO: 5, ONE: 7})
    assert (loss.partition, loss.position, loss.beginning) == (ONE, 0, 3)


def test_a_partition_that_is_no_longer_named_is_a_loss() -> None:
    (loss,) = find_losses({ZERO: 5, ONE: 5}, {ZERO}, {ZERO: 0, ONE: 0}, {ZERO: 5, ONE: 7})

    assert str(loss).endswith("offset 5, but the options do not name this partition")


class Brokers:
    """Replaces the admin client: topics with the beginning and end of each partition."""

    def __init__(self, topics: Mapping[str, Mapping[int, tuple[int, int]]]) -> None:
        self._ranges = {
            TopicPartition(topic, number): ends for topic, each in topics.items() for number, ends in each.items()
        }
        self.reported: list[tuple[str, dict[TopicPartition, int]]] = []
        self.failure: Exception | None = None
        self.stable: dict[TopicPartition, int] = {}
        self.ids: dict[str, str] = {}
        self.closed = threading.Event()

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed.set()

    def matching(self, pattern: str) -> frozenset[str]:
        return frozenset(each.topic for each in self._ranges if each.topic.startswith(pattern.removesuffix(".*")))

    def partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        return sorted(each for each in self._ranges if each.topic in topics)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        if self.failure is not None:
            raise self.failure
        return {topic: self.ids.get(topic, f"id-of-{topic}") for topic in topics if self.partitions([topic])}

    def partitions_and_ids(self, topics: Collection[str]) -> tuple[list[TopicPartition], dict[str, str]]:
        return self.partitions(topics), self.topic_ids(topics)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self._ranges[each][0] for each in partitions}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        return {each: (self.stable if committed else {}).get(each, self._ranges[each][1]) for each in partitions}

    def report_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self.failure is not None:
            raise self.failure
        self.reported.append((group, dict(offsets)))


def check(
    brokers: Brokers, *, position: Any = None, end: Any = None, ids: Mapping[str, str] | None = None, **options: str
) -> KafkaStart:
    given = {"kafka.bootstrap.servers": "broker:9092", **(options or {"subscribe": "orders"})}
    source = KafkaInput(
        uid=OperatorUid("orders"), name="orders", options=given, position=position, end=end, ids=ids or {}
    )
    return check_input(source, lambda _: cast(KafkaAdmin, brokers), lambda _: {ZERO: 90})


def test_a_topic_that_is_not_there_is_told_before_the_start() -> None:
    with pytest.raises(TopicMissing, match="Source 'orders': Kafka has no topic 'orders'"):
        check(Brokers({"other": {0: (0, 1)}}))


def test_an_assigned_partition_that_is_not_there_is_told() -> None:
    with pytest.raises(TopicMissing, match="no partition 1 of topic 'orders'"):
        check(Brokers({"orders": {0: (0, 1)}}), assign='{"orders": [0, 1]}')


def test_where_a_source_begins_is_asked_once_and_new_partitions_are_read_from_their_beginning() -> None:
    brokers = Brokers({"orders": {0: (0, 95), 1: (0, 7)}})

    ids = {"orders": "id-of-orders"}
    assert check(brokers) == KafkaStart({ZERO: 90}, first=True, ids=ids)
    assert check(brokers, position={ZERO: 90}) == KafkaStart({ZERO: 90, ONE: 0}, ids=ids, ends={ZERO: 95, ONE: 7})
    # What a bounded source has read to its end stays read.
    bounded = check(brokers, position={ZERO: 90}, end={ZERO: 90, ONE: 7})
    assert (bounded.offsets, bounded.ids) == ({ZERO: 90, ONE: 0}, ids)


def test_a_topic_that_was_made_again_ends_the_job_however_long_it_is() -> None:
    brokers = Brokers({"orders": {0: (0, 95)}})
    check(brokers, position={ZERO: 90}, ids={"orders": "id-of-orders"})
    # Snapshots of older versions have no ids.
    check(brokers, position={ZERO: 90})

    for loss in ("true", "false"):
        with pytest.raises(TopicMadeAgain, match="had the id old, this has the id id-of-orders") as error:
            check(brokers, position={ZERO: 90}, ids={"orders": "old"}, subscribe="orders", failOnDataLoss=loss)
        assert error.value.exit_code is ExitCode.CANNOT_RESTORE
        assert "another uid and startingOffsets: earliest" in error.value.fix


def test_a_topic_that_was_made_again_after_a_bounded_source_had_read_it_is_none_of_its_business() -> None:
    returned = TopicPartition("returned", 0)
    start = check(
        Brokers({"orders": {0: (0, 20)}, "returned": {0: (0, 20)}}),
        position={ZERO: 3, returned: 9},
        end={ZERO: 20, returned: 9},
        ids={"orders": "id-of-orders", "returned": "old"},
        subscribe="orders,returned",
    )

    assert start.ids == {"orders": "id-of-orders"}
    assert start.offsets == {ZERO: 3, returned: 9}


def known(brokers: Brokers, told: list[TopicMadeAgain], *, bounded: bool = False) -> KnownTopics:
    ids = {"orders": "id-of-orders"}
    return KnownTopics("Source 'orders'", ids, lambda: cast(KafkaAdmin, brokers), told.append, bounded=bounded)


def test_a_topic_that_is_made_again_while_it_is_read_is_told_at_the_next_checkpoint() -> None:
    brokers, told = Brokers({"orders": {0: (0, 95)}, "more": {0: (0, 5)}}), list[TopicMadeAgain]()
    topics = known(brokers, told)
    more = TopicPartition("more", 0)
    assert topics.check({ZERO: 5}) == {"orders": "id-of-orders"}
    assert topics.check({ZERO: 5, more: 2}) == {"orders": "id-of-orders", "more": "id-of-more"}
    assert known(brokers, told, bounded=True).check({ZERO: 5, more: 2}) == {"orders": "id-of-orders"}
    assert told == []

    brokers.ids = {"more": "another"}
    with pytest.raises(TopicMadeAgain, match=r"topic 'more'.*had the id id-of-more, this has the id another"):
        topics.check({ZERO: 5, more: 2})
    assert len(told) == 1
    topics.close()
    assert brokers.closed.is_set()


def test_brokers_that_do_not_answer_stop_checkpoints_only_of_what_was_read() -> None:
    brokers = Brokers({"orders": {0: (0, 95)}})
    topics = known(brokers, [])
    topics.check({ZERO: 5})

    brokers.failure = KafkaUnreachable("no broker answers")
    assert topics.check({ZERO: 5}) == {"orders": "id-of-orders"}
    with pytest.raises(KafkaUnreachable):
        topics.check({ZERO: 6})


def test_a_stream_begins_where_it_is_told_and_has_no_other_beginning() -> None:
    given = {"subscribe": "orders", "startingtimestamp": "17", "startingOffsets": "latest"}

    assert beginning_at(given, {ZERO: 90}) == {"subscribe": "orders", "startingOffsets": '{"orders": {"0": 90}}'}
    assigned = beginning_at({"assign": '{"orders": [1, 2]}'}, {ZERO: 90, ONE: 5})
    assert assigned["startingOffsets"] == '{"orders": {"1": 5, "2": -2}}'


def test_a_pattern_may_match_nothing_yet() -> None:
    check(Brokers({}), subscribePattern="orders.*")


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ('{"orders": {"0": 50}}', "have none for partition 1 of topic 'orders'"),
        ('{"orders": {"0": 50, "1": 0, "2": 0}}', "have one for partition 2 of topic 'orders', which it does not read"),
        ('{"orders": {"0": 39, "1": 0}}', "have 39 for partition 0 of topic 'orders', which goes from 40 to 90"),
        ('{"orders": {"0": 91, "1": 0}}', "have 91 for partition 0 of topic 'orders', which goes from 40 to 90"),
    ],
)
def test_offsets_to_begin_at_have_to_be_there_for_each_partition(offsets: str, message: str) -> None:
    with pytest.raises(UnusableBeginning, match=message):
        check(Brokers({"orders": {0: (40, 90), 1: (0, 9)}}), subscribe="orders", startingOffsets=offsets)


@pytest.mark.parametrize("offsets", ["earliest", '{"orders": {"0": -2, "1": -1}}', '{"orders": {"0": 40, "1": 9}}'])
def test_offsets_that_are_there_can_be_begun_at(offsets: str) -> None:
    check(Brokers({"orders": {0: (40, 90), 1: (0, 9)}}), subscribe="orders", startingOffsets=offsets)


def test_a_position_that_has_expired_ends_the_job_and_names_partition_and_offsets() -> None:
    with pytest.raises(OffsetsGone) as error:
        check(Brokers({"orders": {0: (40, 90), 1: (0, 9)}}), position={ZERO: 17, ONE: 9})

    assert error.value.exit_code is ExitCode.CANNOT_RESTORE
    assert "partition 0 of topic 'orders' is to be read from offset 17, and begins at offset 40" in error.value.what
    assert "partition 1" not in error.value.what
    assert "failOnDataLoss: false" in error.value.fix


@pytest.mark.parametrize("begin", [{"position": {ZERO: 60}}, {"startingOffsets": '{"orders": {"0": 60}}'}])
def test_a_reader_of_committed_records_waits_for_the_end_of_the_transaction_at_its_position(
    begin: dict[str, Any],
) -> None:
    brokers = Brokers({"orders": {0: (0, 90)}})
    for ended in (60, 70, 90):
        brokers.stable = {ZERO: ended}
        check(brokers, subscribe="orders", **begin)
    brokers.stable = {ZERO: 59}

    with pytest.raises(TransactionOpen, match="from offset 60, and has an open transaction that begins at offset 59"):
        check(brokers, subscribe="orders", **begin)
    check(brokers, **{"subscribe": "orders", "kafka.isolation.level": "read_uncommitted", **begin})


def test_a_topic_that_was_read_and_is_gone_ends_the_job() -> None:
    with pytest.raises(OffsetsGone, match="does not exist any more"):
        check(Brokers({}), position={ZERO: 17})


def test_without_fail_on_data_loss_what_is_given_up_is_told_loudly(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "streamjob"):
        check(Brokers({"orders": {0: (40, 90)}}), position={ZERO: 17}, subscribe="orders", failOnDataLoss="false")

    (message,) = caplog.messages
    assert "Source 'orders' gives up records, as failOnDataLoss is false" in message
    assert "offset 17, and begins at offset 40" in message


def test_what_a_bounded_source_has_read_up_to_its_end_may_be_gone() -> None:
    check(Brokers({}), position={ZERO: 9}, end={ZERO: 9})
    check(Brokers({"orders": {1: (0, 20)}}), position={ZERO: 9, ONE: 3}, end={ZERO: 9, ONE: 20})
    check(Brokers({"orders": {0: (30, 40), 1: (0, 20)}}), position={ZERO: 9, ONE: 3}, end={ZERO: 9, ONE: 20})


def test_a_topic_that_a_bounded_source_has_read_up_to_its_end_may_be_gone_while_it_reads_another() -> None:
    returned = TopicPartition("returned", 0)

    check(
        Brokers({"orders": {0: (0, 20)}}),
        position={ZERO: 3, returned: 9},
        end={ZERO: 20, returned: 9},
        subscribe="orders,returned",
    )


def test_what_a_bounded_source_has_yet_to_read_may_not() -> None:
    with pytest.raises(OffsetsGone, match="offset 3, and begins at offset 5"):
        check(Brokers({"orders": {1: (5, 20)}}), position={ZERO: 9, ONE: 3}, end={ZERO: 9, ONE: 20})


def test_settings_of_the_client_are_the_options_that_begin_with_kafka() -> None:
    options = {"KAFKA.Bootstrap.Servers": "b:1", "kafka.isolation.level": "read_committed", "subscribe": "x"}

    assert client_settings(options) == {"bootstrap.servers": "b:1", "isolation.level": "read_committed"}


SOURCE = ReportedSource(OperatorUid("orders"), "orders", "streamjob-shop-totals-orders", {})


def completed(position: Any) -> Any:
    return SimpleNamespace(sources=(SimpleNamespace(uid=OperatorUid("orders"), position=position),))


def reporter(brokers: Brokers, reports: OffsetReports) -> OffsetReporter:
    return OffsetReporter((SOURCE,), lambda _: cast(KafkaAdmin, brokers), reports)


def test_positions_of_a_completed_checkpoint_are_reported_before_the_reporter_closes() -> None:
    brokers, reports = Brokers({}), OffsetReports()
    made = reporter(brokers, reports)
    made.note(completed({"orders": {"0": 97, "1": 101}}))
    made.close()

    assert brokers.reported == [("streamjob-shop-totals-orders", {ZERO: 97, ONE: 101})]
    assert brokers.closed.is_set()
    assert reports.failures == {"orders": 0}


def test_a_checkpoint_without_a_position_reports_nothing() -> None:
    brokers = Brokers({})
    made = reporter(brokers, OffsetReports())
    made.note(completed(None))
    made.close()

    assert brokers.reported == []


def test_a_report_that_fails_is_counted_each_time_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    brokers, reports = Brokers({}), OffsetReports()
    brokers.failure = KafkaUnreachable("no broker answers")
    with caplog.at_level(logging.WARNING, "streamjob"):
        for _ in range(2):
            made = reporter(brokers, reports)
            made.note(completed({"orders": {"0": 97}}))
            made.close()

    assert reports.failures == {"orders": 2}
    (message,) = caplog.messages
    assert "source 'orders'" in message
    assert "no broker answers" in message


def test_a_job_without_kafka_starts_no_thread() -> None:
    before = threading.active_count()
    made = OffsetReporter((), lambda _: cast(KafkaAdmin, None), OffsetReports())
    made.note(completed({"orders": {"0": 97}}))

    assert threading.active_count() == before
    made.close()


OPTIONS = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


def test_a_source_asks_brokers_not_to_wait_for_records_behind_a_batch() -> None:
    assert client_settings(for_batches(OPTIONS))["fetch.max.wait.ms"] == "1"


@pytest.mark.parametrize("name", ["kafka.fetch.max.wait.ms", "KAFKA.Fetch.Max.Wait.Ms"])
def test_the_job_s_own_wait_takes_precedence(name: str) -> None:
    given = {**OPTIONS, name: "500"}

    assert client_settings(for_batches(given))["fetch.max.wait.ms"] == "500"


def test_by_default_committed_records_are_read_and_no_topic_is_made() -> None:
    by_default = {"isolation.level": "read_committed", "allow.auto.create.topics": "false"}
    assert by_default.items() <= client_settings(for_batches(OPTIONS)).items()
    given = {**OPTIONS, "kafka.Isolation.level": "read_uncommitted", "kafka.allow.auto.create.topics": "true"}
    assert with_defaults(given) == given
