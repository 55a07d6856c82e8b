"""Checks the options of the exactly-once Kafka sink in a job file. The rest is checked on the brokers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from streamjob.job.connectors.connector import OptionProblem
from streamjob.job.connectors.kafka_source import CLIENT, SERVERS, KafkaFields, is_count
from streamjob.job.connectors.kafka_source import FORMAT as FORMAT
from streamjob.job.connectors.misplaced import misplaced
from streamjob.job.connectors.option_model import ColumnNames, key_problems, option_names, refuse_options
from streamjob.job.connectors.options import environment_names
from streamjob.job.model.suggest import did_you_mean

TOPIC = "topic"
COMMITS_TOPIC = "commitsTopic"
DEFAULT_COMMITS_TOPIC = "streamjob.commits"
TRANSACTION_TIMEOUT = "transaction.timeout.ms"
LONGEST_REQUEST = "max.request.size"
MODE = "mode"
KEY = "key"

_DEFAULTS: Mapping[str, str] = {
    # The maximum that brokers allow by default.
    TRANSACTION_TIMEOUT: "900000",
    LONGEST_REQUEST: "1048576",
    # Rows are produced as fast as they are read, so batches larger than the client's default pay off.
    "batch.size": "262144",
    "linger.ms": "5",
    "buffer.memory": "33554432",
}
_NUMBERS = (TRANSACTION_TIMEOUT, LONGEST_REQUEST)
_FIXED: Mapping[str, str] = {
    "transactional.id": "the sink forms it of namespace, job and uid, so that no two processes publish at once",
    "enable.idempotence": "transactions need it, and it is on",
    "acks": "transactions need all of them, and have them",
    "key.serializer": "keys are sent as they are",
    "value.serializer": "values are sent as they are",
    "isolation.level": "commits are read as committed",
}
_ELSEWHERE: Mapping[str, str] = {
    "includeheaders": "headers are written if the rows have a column headers: leave it out",
    "checkpointlocation": "the job's checkpoints are kept where --location says: leave it out",
}
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class KafkaSinkFields(KafkaFields):
    """Options of `format: kafka` with exactly-once delivery. Any `kafka.…` setting of the producer is allowed, too."""

    topic: str | None = Field(
        default=None, description="The topic for all rows. Default: the column `topic` of each row."
    )
    mode: Literal["append", "upsert"] = Field(
        default="append",
        description="`append` adds each row; `upsert` writes the newest row of each key to a compacted topic, and a "
        "tombstone for a row that is deleted.",
    )
    key: ColumnNames = Field(
        default=(),
        description="For `upsert`: the columns that form the record's key, separated by commas. Default: the column "
        "`key`.",
    )
    commits_topic: str = Field(
        default=DEFAULT_COMMITS_TOPIC,
        description="The compacted topic for the records of commits. If it is missing, the sink creates it, if it has "
        "the right.",
    )


@dataclass(frozen=True, slots=True)
class KafkaSinkOptions:
    """Validated options of `format: kafka` with exactly-once delivery.

    Args:
        client: settings of Kafka's client including defaults, without the prefix `kafka.`.
        topic: the topic for all rows; None to use the rows' own column.
        commits_topic: the topic in which the sink records its commits.
        upsert: whether the topic keeps the newest row of each key.
    """

    client: Mapping[str, str]
    topic: str | None
    commits_topic: str
    upsert: bool = False

    @property
    def transaction_timeout(self) -> float:
        """Maximum duration of a transaction, in seconds."""
        return int(self.client[TRANSACTION_TIMEOUT]) / 1000

    @property
    def longest_request(self) -> int:
        """Maximum size of a row in bytes, including overhead."""
        return int(self.client[LONGEST_REQUEST])


def parse_options(options: Mapping[str, str], sink: str) -> KafkaSinkOptions:
    """Return the validated options of a sink; `sink` names it in messages. Raises UnusableOptions."""
    refuse_options(f"{sink}:", problems(options))
    given = {name.removeprefix(CLIENT): value for name, value in options.items() if name.startswith(CLIENT)}
    return KafkaSinkOptions(
        client={**_DEFAULTS, **given},
        topic=options.get(TOPIC),
        commits_topic=options.get(COMMITS_TOPIC, DEFAULT_COMMITS_TOPIC),
        upsert=options.get(MODE) == "upsert",
    )


def key_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns that form the key of an upserting sink; empty for the column `key`."""
    return tuple(name.strip() for name in options.get(KEY, "").split(",") if name.strip())


def problems(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Yield problems with a sink's options, with fixes; values are not shown."""
    if not options.get(SERVERS, "").strip():
        yield OptionProblem(f"lacks the option {SERVERS!r}", f"add {SERVERS}: host:9092")
    for name, value in options.items():
        if name.startswith(CLIENT):
            yield from _client_problems(name, value)
        elif name.lower() in _ELSEWHERE:
            yield OptionProblem(f"has no option {name!r}", _ELSEWHERE[name.lower()])
        elif name not in (TOPIC, COMMITS_TOPIC, MODE, KEY):
            meant = did_you_mean(name, option_names(KafkaSinkFields), "options")
            yield OptionProblem(f"has no option {name!r}", f"{meant}; those of Kafka's client begin with {CLIENT}")
        elif name in (TOPIC, COMMITS_TOPIC) and not any(environment_names(value)) and not _is_topic(value):
            yield OptionProblem(
                f"the option {name!r} names no topic that Kafka can have", "use letters, digits, '.', '_' and '-'", name
            )
    if options.get(TOPIC) is not None and options.get(TOPIC) == options.get(COMMITS_TOPIC, DEFAULT_COMMITS_TOPIC):
        yield OptionProblem("writes its rows to its own commits topic", f"name another one with {COMMITS_TOPIC}")
    mode, key = options.get(MODE, "append"), key_columns(options)
    if mode not in ("append", "upsert"):
        yield OptionProblem(f"the option {MODE!r} cannot be {mode!r}", "say mode: append or mode: upsert", MODE)
    elif KEY in options:
        yield from key_problems(mode, key, "name its columns: key: id")


def encoding_problems(options: Mapping[str, str], *, encodes_key: bool) -> Iterator[OptionProblem]:
    """Yield problems of a sink's key with its encoding, with fixes."""
    if len(key_columns(options)) > 1 and not encodes_key:
        yield OptionProblem(
            "has a key of several columns, and does not say how to encode it", "give the sink key: {format: json}"
        )


def delivery_problems(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Yield options of a sink that delivers at least once that need exactly-once, with fixes."""
    if options.get(MODE) is not None:
        yield OptionProblem(
            f"has the option {MODE!r}, and delivery: at-least-once, which knows none", "leave delivery out"
        )
    else:
        others = {name: value for name, value in options.items() if not name.startswith(CLIENT)}
        yield from misplaced(others, ("topic", "includeHeaders"), {})


def _client_problems(name: str, value: str) -> Iterator[OptionProblem]:
    setting = name.removeprefix(CLIENT)
    if (why := _FIXED.get(setting)) is not None:
        yield OptionProblem(f"sets {name!r}, which delivery: exactly-once has settled: {why}", "leave it out")
    if setting in _NUMBERS and not any(environment_names(value)) and not is_count(value):
        yield OptionProblem(
            f"the option {name!r} is not a whole number above 0", f"{name}: {_DEFAULTS[setting]} is the default", name
        )


def _is_topic(value: str) -> bool:
    return _TOPIC.fullmatch(value) is not None and value not in (".", "..")
