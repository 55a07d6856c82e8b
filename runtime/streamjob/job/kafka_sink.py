"""The options of the exactly-once Kafka sink, as a job's file gives them; the rest is checked on the brokers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import Field

from streamjob.errors import refuse
from streamjob.job.kafka import CLIENT, SERVERS, KafkaFields, is_count
from streamjob.job.kafka import FORMAT as FORMAT
from streamjob.job.option_model import option_names
from streamjob.job.options import UnusableOptions, environment_names
from streamjob.job.suggest import did_you_mean

TOPIC = "topic"
COMMITS_TOPIC = "commitsTopic"
DEFAULT_COMMITS_TOPIC = "streamjob.commits"
TRANSACTION_TIMEOUT = "transaction.timeout.ms"
LONGEST_REQUEST = "max.request.size"

_DEFAULTS: Mapping[str, str] = {
    # What brokers allow at most if they are not told otherwise.
    TRANSACTION_TIMEOUT: "900000",
    LONGEST_REQUEST: "1048576",
    # Rows come as fast as they can be read: larger batches than the client's own are worth it.
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
    """Options of `format: kafka` with exactly-once delivery, besides any setting `kafka.…` of the producer."""

    topic: str | None = Field(
        default=None, description="The topic for all rows. Default: the column `topic` of each row."
    )
    commits_topic: str = Field(
        default=DEFAULT_COMMITS_TOPIC,
        description="The compacted topic for the records of commits. If it is missing, the sink creates it, if it has "
        "the right.",
    )


@dataclass(frozen=True, slots=True)
class KafkaSinkOptions:
    """Options of `format: kafka` that delivers exactly once.

    Args:
        client: settings of Kafka's client, without `kafka.` before their names, defaults included.
        topic: where all rows go; None for the rows' own column.
        commits_topic: where the sink records what it has committed.
    """

    client: Mapping[str, str]
    topic: str | None
    commits_topic: str

    @property
    def transaction_timeout(self) -> float:
        """How long a transaction may take, in seconds."""
        return int(self.client[TRANSACTION_TIMEOUT]) / 1000

    @property
    def longest_request(self) -> int:
        """The bytes that a row may have at most, with what goes along with it."""
        return int(self.client[LONGEST_REQUEST])


def parse_options(options: Mapping[str, str], sink: str) -> KafkaSinkOptions:
    """Return a sink's options, checked.

    Args:
        options: as the sink gets them.
        sink: what to call it in a message.

    Raises:
        UnusableOptions: one is unknown, missing, or cannot have its value; says all that is wrong.
    """
    refuse(UnusableOptions, f"{sink}:", problems(options))
    given = {name.removeprefix(CLIENT): value for name, value in options.items() if name.startswith(CLIENT)}
    return KafkaSinkOptions(
        client={**_DEFAULTS, **given},
        topic=options.get(TOPIC),
        commits_topic=options.get(COMMITS_TOPIC, DEFAULT_COMMITS_TOPIC),
    )


def problems(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a sink's options, as written in a file, with the fix; no value is shown."""
    if not options.get(SERVERS, "").strip():
        yield f"lacks the option {SERVERS!r}", f"add {SERVERS}: host:9092"
    for name, value in options.items():
        if name.startswith(CLIENT):
            yield from _client_problems(name, value)
        elif name.lower() in _ELSEWHERE:
            yield f"has no option {name!r}", _ELSEWHERE[name.lower()]
        elif name not in (TOPIC, COMMITS_TOPIC):
            meant = did_you_mean(name, option_names(KafkaSinkFields), "options")
            yield f"has no option {name!r}", f"{meant}; those of Kafka's client begin with {CLIENT}"
        elif not any(environment_names(value)) and not _is_topic(value):
            yield f"the option {name!r} names no topic that Kafka can have", "use letters, digits, '.', '_' and '-'"
    if options.get(TOPIC) is not None and options.get(TOPIC) == options.get(COMMITS_TOPIC, DEFAULT_COMMITS_TOPIC):
        yield "writes its rows to its own commits topic", f"name another one with {COMMITS_TOPIC}"


def _client_problems(name: str, value: str) -> Iterator[tuple[str, str]]:
    setting = name.removeprefix(CLIENT)
    if (why := _FIXED.get(setting)) is not None:
        yield f"sets {name!r}, which delivery: exactly-once has settled: {why}", "leave it out"
    if setting in _NUMBERS and not any(environment_names(value)) and not is_count(value):
        yield f"the option {name!r} is not a whole number above 0", f"{name}: {_DEFAULTS[setting]} is the default"


def _is_topic(value: str) -> bool:
    return _TOPIC.fullmatch(value) is not None and value not in (".", "..")
