"""Checks the options of a Kafka source in a job file. The brokers are asked when the job starts.

The options are those of Spark's connector, whose errors are found here before anything starts, and two of our own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pydantic import Field

from streamjob.job.connectors.connector import OptionProblem
from streamjob.job.connectors.option_model import option_names
from streamjob.job.connectors.options import environment_names, option
from streamjob.job.model.spec_fields import Spec

if TYPE_CHECKING:
    from streamjob.job.model.encoding_spec import Registry
    from streamjob.job.model.spec import SinkSpec, SourceSpec

FORMAT = "kafka"
CLIENT = "kafka."
"""The prefix of options for Kafka's client."""
SERVERS = CLIENT + "bootstrap.servers"
SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
CONSUMER_GROUP = "consumerGroup"
REPORT_OFFSETS = "reportOffsets"
STARTING_OFFSETS = "startingOffsets"
FAIL_ON_DATA_LOSS = "failOnDataLoss"
ISOLATION_LEVEL = CLIENT + "isolation.level"
READ_COMMITTED = "read_committed"

_BOOLEANS = (FAIL_ON_DATA_LOSS, "includeHeaders", REPORT_OFFSETS)
_COUNTS = ("minPartitions", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxRecordsPerPartition")
_OTHERS = (
    *(
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
    ),
    *("minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition", "groupIdPrefix"),
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
)
"""Options of the connector that our reference leaves to Spark's."""
_REFUSED = {
    "kafka.auto.offset.reset": "say where to begin with startingOffsets",
    "kafka.key.deserializer": "keys arrive as bytes: decode them with `key: {format: …}`",
    "kafka.value.deserializer": "values arrive as bytes: decode them with `value: {format: …}`",
    "kafka.enable.auto.commit": f"leave it out: positions are in checkpoints, and reported to {CONSUMER_GROUP}",
    "kafka.interceptor.classes": "leave it out",
}
"""Options that Spark's connector sets itself and refuses."""
_BOOLEAN = re.compile(r"true|false", re.IGNORECASE)
_ISOLATION = re.compile(r"read_committed|read_uncommitted")


class KafkaFields(Spec):
    """Options that sources and sinks share."""

    bootstrap_servers: str = Field(
        alias="kafka.bootstrap.servers", description="The brokers, as `host:9092,host:9092`."
    )


class KafkaSourceFields(KafkaFields):
    """Options of `format: kafka`, in addition to `kafka.…` settings and other options of Spark's connector."""

    subscribe: str | None = Field(default=None, description="Topics, separated by commas.")
    subscribe_pattern: str | None = Field(default=None, description="As an alternative: a Java pattern for topics.")
    assign: str | None = Field(default=None, description='As an alternative: partitions, `{"orders": [0, 1]}`.')
    starting_offsets: str = Field(
        default="latest",
        description="Starting point of a job without state: `earliest`, `latest`, or an offset for each partition, "
        '`{"orders": {"0": 17, "1": -2}}`, where -2 is the earliest and -1 the latest.',
    )
    starting_timestamp: int | None = Field(default=None, description="As an alternative: ms since 1970.")
    ending_offsets: str = Field(
        default="latest",
        description="End of a bounded source: `latest` at the job's first start, or an offset for each partition, "
        "where -1 is the latest.",
    )
    max_offsets_per_trigger: int | None = Field(
        default=None,
        description="Maximum number of records in a batch. Default: as many as take `batchDuration`.",
    )
    include_headers: bool = Field(default=False, description="Whether rows have a column `headers`.")
    fail_on_data_loss: bool = Field(
        default=True,
        description="Whether the job fails if unread records are gone. Otherwise it skips them with a warning.",
    )
    consumer_group: str | None = Field(
        default=None,
        description="The consumer group that receives the positions of completed checkpoints. Default: "
        "`streamjob-<namespace>-<job>-<uid>`.",
    )
    report_offsets: bool = Field(default=True, description="Whether positions are reported.")
    isolation_level: str = Field(
        default=READ_COMMITTED,
        alias="kafka.isolation.level",
        description="`read_committed`: records of aborted transactions are not read, and those of an open one wait for "
        "its end. `read_uncommitted` reads both.",
    )


_KNOWN = (*option_names(KafkaSourceFields), *_OTHERS)


def problems(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Yield problems with a source's options, with fixes; secrets are not shown."""
    yield from _places(options)
    yield from _beginnings(options)
    for name, fix in _REFUSED.items():
        if option(options, name) is not None:
            yield OptionProblem(f"has the option {name}, which Spark's connector sets itself", fix)
    for name in _BOOLEANS:
        yield from _checked(options, name, _BOOLEAN.fullmatch, "is neither true nor false", "say true or false")
    for name in _COUNTS:
        yield from _checked(options, name, is_count, "is not a whole number above 0", "give one, such as 10000")
    yield from _checked(
        options,
        ISOLATION_LEVEL,
        _ISOLATION.fullmatch,
        "is neither read_committed nor read_uncommitted",
        "leave it out for read_committed",
    )
    if option(options, CONSUMER_GROUP) == "":
        yield OptionProblem(f"names no {CONSUMER_GROUP}", f"name one, or say {REPORT_OFFSETS}: false")
    yield from _misspelt(options)


def subject_of(part: SourceSpec | SinkSpec, name: str, registry: Registry) -> str | None:
    """Return the subject with the schema of `key` or `value`; None without one, and without a single topic."""
    if registry.subject is not None:
        return registry.subject
    topic = option(part.options, "topic") or option(part.options, "subscribe")
    return None if topic is None or "," in topic else f"{topic.strip()}-{name}"


def fails_on_data_loss(options: Mapping[str, str]) -> bool:
    """Return whether the job fails if records were deleted before it could read them."""
    return (option(options, FAIL_ON_DATA_LOSS) or "true").lower() != "false"


def reads_committed(options: Mapping[str, str]) -> bool:
    """Return whether a source leaves out the records of aborted transactions, and waits for the end of open ones."""
    return (option(options, ISOLATION_LEVEL) or READ_COMMITTED) == READ_COMMITTED


def reports_offsets(options: Mapping[str, str]) -> bool:
    """Return whether positions are reported to a consumer group."""
    return (option(options, REPORT_OFFSETS) or "true").lower() != "false"


def consumer_group(options: Mapping[str, str], namespace: str, job: str, uid: str) -> str:
    """Return the consumer group to which positions are reported."""
    return option(options, CONSUMER_GROUP) or f"streamjob-{namespace}-{job}-{uid}"


def subscription(options: Mapping[str, str]) -> tuple[tuple[str, ...], str | None]:
    """Return a source's topics, and the pattern of its topics if it names none."""
    topics = option(options, "subscribe")
    if topics is not None:
        return tuple(dict.fromkeys(name.strip() for name in topics.split(",") if name.strip())), None
    assigned = option(options, "assign")
    if assigned is not None:
        return tuple(json.loads(assigned)), None
    return (), option(options, "subscribePattern")


def is_count(value: str) -> bool:
    """Return whether a value is a positive whole number."""
    return value.isascii() and value.isdecimal() and int(value) > 0


def _places(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    if not option(options, SERVERS):
        yield OptionProblem(f"lacks the option {SERVERS}", f"add {SERVERS}: host:9092")
    given = [name for name in SUBSCRIPTIONS if option(options, name) is not None]
    if not given:
        yield OptionProblem("names no topics", "add subscribe: topic, or subscribePattern, or assign")
    if len(given) > 1:
        yield OptionProblem(f"has {' and '.join(given)}", "keep one of them")
    for name in given:
        value = option(options, name) or ""
        if not value.strip(" ,"):
            yield OptionProblem(f"has an empty {name}", "name topics")
    yield from _checked(
        options,
        "assign",
        _is_assignment,
        "assigns no partitions",
        'write {"topic": [0, 1]}, with numbers of partitions',
    )


def _beginnings(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    yield from _checked(
        options,
        "startingOffsets",
        _is_beginning,
        "is not a valid starting point",
        'say earliest or latest, or give offsets: {"topic": {"0": 17, "1": -2}}, where -2 is earliest and -1 latest',
    )
    yield from _checked(
        options, "startingTimestamp", str.isdecimal, "is not a time", "give milliseconds since 1970, as 1735689600000"
    )


def _checked(
    options: Mapping[str, str], name: str, holds: Callable[[str], object], what: str, fix: str
) -> Iterator[OptionProblem]:
    value = option(options, name)
    if value and not any(environment_names(value)) and not holds(value.strip()):
        yield OptionProblem(f"its option {name} {what}: {value!r}", fix, name)


def _misspelt(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Return whether an unknown option is probably a misspelt one. Other unknown options are left to the connector."""
    known = {name.lower() for name in _KNOWN}
    for key in options:
        if key.lower() not in known and not key.lower().startswith(CLIENT):
            for meant in get_close_matches(key, _KNOWN, n=1, cutoff=0.8):
                yield OptionProblem(f"has the unknown option {key!r}", f"did you mean {meant!r}?")


def _is_assignment(value: str) -> bool:
    try:
        topics = json.loads(value)
        return bool(topics) and all(
            isinstance(number, int) and number >= 0 for numbers in topics.values() for number in numbers
        )
    except (ValueError, AttributeError, TypeError):
        return False


def _is_beginning(value: str) -> bool:
    if value.lower() in ("earliest", "latest"):
        return True
    try:
        offsets = [offset for partitions in json.loads(value).values() for offset in partitions.values()]
        return all(isinstance(offset, int) and offset >= -2 for offset in offsets)
    except (ValueError, AttributeError):
        return False
