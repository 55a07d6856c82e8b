"""The options of the exactly-once Kafka sink."""

from __future__ import annotations

import pytest

from streamjob.job.connectors.kafka_sink import delivery_problems, key_columns, parse_options, problems
from streamjob.job.connectors.options import UnusableOptions

GIVEN = {"kafka.bootstrap.servers": "broker:9092", "topic": "alerts"}


def test_settings_of_the_client_keep_their_names_and_have_defaults() -> None:
    options = parse_options({**GIVEN, "kafka.linger.ms": "20", "kafka.sasl.mechanism": "PLAIN"}, "sink alerts")

    assert options.client["bootstrap.servers"] == "broker:9092"
    assert options.client["linger.ms"] == "20"
    assert options.client["sasl.mechanism"] == "PLAIN"
    assert options.transaction_timeout == 900
    assert options.longest_request == 1 << 20
    assert (options.topic, options.commits_topic) == ("alerts", "streamjob.commits")


def test_rows_may_name_their_topics_themselves() -> None:
    assert parse_options({"kafka.bootstrap.servers": "broker:9092"}, "sink alerts").topic is None


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"kafka.bootstrap.servers": " "}, "lacks the option 'kafka.bootstrap.servers'"),
        ({"tpic": "a"}, "has no option 'tpic'"),
        ({"includeHeaders": "true"}, "has no option 'includeHeaders'"),
        ({"kafka.transactional.id": "mine"}, "sets 'kafka.transactional.id', which delivery: exactly-once has settled"),
        ({"kafka.acks": "1"}, "sets 'kafka.acks', which delivery: exactly-once has settled"),
        ({"kafka.enable.idempotence": "false"}, "sets 'kafka.enable.idempotence'"),
        ({"kafka.transaction.timeout.ms": "15m"}, "the option 'kafka.transaction.timeout.ms' is not a whole number"),
        ({"kafka.max.request.size": "0"}, "the option 'kafka.max.request.size' is not a whole number above 0"),
        ({"topic": "no spaces"}, "the option 'topic' names no topic that Kafka can have"),
        ({"commitsTopic": ".."}, "the option 'commitsTopic' names no topic that Kafka can have"),
        ({"topic": "streamjob.commits"}, "writes its rows to its own commits topic"),
        ({"mode": "insert"}, "the option 'mode' cannot be 'insert'"),
        ({"key": "id"}, "has a key, and mode append, which has no use for one"),
        ({"mode": "upsert", "key": " "}, "has mode upsert and no key"),
        ({"mode": "upsert", "key": "id, id"}, "names a column twice in key"),
    ],
)
def test_what_cannot_be_used_is_told_with_a_fix(options: dict[str, str], what: str) -> None:
    ((found, fix, _),) = problems({**GIVEN, **options})

    assert found.startswith(what)
    assert fix


def test_a_sink_may_keep_the_newest_row_of_each_key() -> None:
    options = {**GIVEN, "mode": "upsert", "key": "region, id"}

    assert parse_options(options, "sink alerts").upsert
    assert key_columns(options) == ("region", "id")
    assert [each.what for each in delivery_problems(options)] == [
        "has the option 'mode', and delivery: at-least-once, which knows none"
    ]


def test_what_the_environment_has_is_judged_when_it_is_known() -> None:
    options = {**GIVEN, "topic": "${env:TOPIC}", "kafka.max.request.size": "${env:SIZE}"}

    assert list(problems(options)) == []


def test_a_problem_is_an_error_where_the_sink_is_made() -> None:
    with pytest.raises(UnusableOptions, match=r"sink alerts: lacks the option 'kafka\.bootstrap\.servers'"):
        parse_options({}, "sink alerts")
