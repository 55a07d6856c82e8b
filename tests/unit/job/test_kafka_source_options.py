"""A Kafka source's options in a job file, and the errors that are found before anything starts."""

from __future__ import annotations

import pytest

from streamjob.job.checks import Subject
from streamjob.job.checks.sources import connections
from streamjob.job.connectors import kafka_source
from streamjob.job.model.spec import JobSpec

RIGHT = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


def said(**changed: str | None) -> list[str]:
    options = {**RIGHT, **{key.replace("__", "."): value for key, value in changed.items()}}
    return [
        each.what for each in kafka_source.problems({key: value for key, value in options.items() if value is not None})
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subscribe": "a, b"},
        {"subscribe": None, "subscribePattern": "orders-.*"},
        {"subscribe": None, "assign": '{"orders": [0, 2]}'},
        {"startingOffsets": "Latest", "failondataloss": "FALSE", "maxOffsetsPerTrigger": "1000"},
        {"startingOffsets": '{"orders": {"0": 17, "1": -2}}'},
        {"startingTimestamp": "1735689600000", "includeHeaders": "true"},
        {"startingOffsets": "${env:BEGINNING}", "maxOffsetsPerTrigger": "${env:MOST}", "assign": None},
        {"kafka__group__id": "mine", "kafka__isolation__level": "read_committed", "consumerGroup": "watched"},
        {"someOptionOfAnotherConnector": "x", "reportOffsets": "false"},
    ],
)
def test_what_the_connector_takes_is_no_problem(options: dict[str, str | None]) -> None:
    assert said(**options) == []


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"kafka__bootstrap__servers": None}, "lacks the option kafka.bootstrap.servers"),
        ({"subscribe": None}, "names no topics"),
        ({"subscribe": " , "}, "has an empty subscribe"),
        ({"assign": '{"orders": [0]}'}, "has subscribe and assign"),
        ({"subscribe": None, "assign": "orders"}, "its option assign assigns no partitions: 'orders'"),
        ({"subscribe": None, "assign": '{"orders": ["x"]}'}, "its option assign assigns no partitions"),
        ({"startingOffsets": "newest"}, "its option startingOffsets is not a valid starting point: 'newest'"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "its option startingOffsets is not a valid starting point"),
        ({"startingTimestamp": "yesterday"}, "its option startingTimestamp is not a time"),
        ({"failOnDataLoss": "no"}, "its option failOnDataLoss is neither true nor false"),
        ({"maxOffsetsPerTrigger": "0"}, "its option maxOffsetsPerTrigger is not a whole number above 0"),
        ({"consumerGroup": ""}, "names no consumerGroup"),
        (
            {"kafka__isolation__level": "READ_COMMITTED"},
            "its option kafka.isolation.level is neither read_committed nor",
        ),
        ({"kafka__auto__offset__reset": "earliest"}, "has the option kafka.auto.offset.reset, which Spark's connector"),
        ({"kafka__value__deserializer": "x"}, "has the option kafka.value.deserializer, which Spark's connector"),
        ({"kafka__enable__auto__commit": "true"}, "has the option kafka.enable.auto.commit, which Spark's connector"),
        ({"startingOffset": "earliest"}, "has the unknown option 'startingOffset'"),
    ],
)
def test_what_the_connector_would_refuse_is_told(options: dict[str, str | None], what: str) -> None:
    (problem,) = said(**options)

    assert problem.startswith(what)


def test_a_problem_names_the_source_and_each_has_a_fix(tmp_path: object) -> None:
    spec = JobSpec.model_validate(
        {
            "name": "job",
            "sources": [{"name": "orders", "format": "kafka", "options": {"subscribe": "orders"}}],
            "sinks": [{"name": "out", "input": "orders", "format": "console"}],
        }
    )
    (problem,) = connections(Subject(spec, tmp_path, {}))  # type: ignore[arg-type]

    assert str(problem).startswith("source 'orders': lacks the option kafka.bootstrap.servers")
    assert all(
        each.fix for each in kafka_source.problems({"assign": "x", "startingOffsets": "y", "minPartitions": "z"})
    )


def test_data_loss_is_a_failure_and_positions_are_reported_unless_told_otherwise() -> None:
    assert kafka_source.fails_on_data_loss({})
    assert not kafka_source.fails_on_data_loss({"failondataloss": "False"})
    assert kafka_source.reports_offsets({})
    assert not kafka_source.reports_offsets({"reportOffsets": "false"})


def test_the_consumer_group_is_of_the_job_and_the_source_unless_one_is_named() -> None:
    assert kafka_source.consumer_group({}, "shop", "totals", "orders") == "streamjob-shop-totals-orders"
    assert kafka_source.consumer_group({"consumergroup": "mine"}, "shop", "totals", "orders") == "mine"


def test_topics_are_named_or_matched() -> None:
    assert kafka_source.subscription({"subscribe": "a, b,a"}) == (("a", "b"), None)
    assert kafka_source.subscription({"assign": '{"a": [0], "b": [1]}'}) == (("a", "b"), None)
    assert kafka_source.subscription({"subscribepattern": "a.*"}) == ((), "a.*")
