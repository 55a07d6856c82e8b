"""What an error of Kafka's client means for a sink; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from streamjob.errors import StreamJobError
from streamjob.job.kafka_sink import CLIENT, LONGEST_REQUEST, TRANSACTION_TIMEOUT, UnusableOptions
from streamjob_runtime.sinks.kafka.errors import (
    BrokersRefuse,
    BrokersUnreachable,
    PublicationFailed,
    PublisherFenced,
    RowsRefused,
    StagedRowsGone,
    TransactionTimedOut,
    UnusableTopic,
)

_SETTING = CLIENT + TRANSACTION_TIMEOUT
_NOT_MADE = ("Failed to construct kafka", "Failed to create new Kafka")


@dataclass(frozen=True, slots=True)
class Cause:
    """An error of the client: the simple name of its class, and what it says."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What was going on when the client failed.

    Args:
        sink: what to call the sink in a message.
        servers: the brokers' addresses.
        transactional_id: under which the sink makes its transactions.
        doing: what was tried, such as `publish checkpoint 7`.
        topic: the topic that it was about; None if it was about none.
        transaction_timeout: how long a transaction may take, in seconds.
        elapsed: how long the transaction had been open, in seconds; 0 if none was.
    """

    sink: str
    servers: str
    transactional_id: str
    doing: str
    topic: str | None = None
    transaction_timeout: float = 900.0
    elapsed: float = 0.0


def read_causes(lines: str) -> tuple[Cause, ...]:
    """Return the causes of an error, outermost first, from a line for each: name, tab, message."""
    return tuple(Cause(*line.partition("\t")[::2]) for line in lines.splitlines())


def explained(causes: Sequence[Cause], at: Circumstances) -> StreamJobError:
    """Return the error that says what an error of the client means, and what can be done."""
    for cause in causes:
        if "transaction.max.timeout.ms" in cause.message:
            # Its class is the general one.
            return _too_long_a_timeout(cause, at)
        if (explain := _EXPLANATIONS.get(cause.name)) is not None:
            return explain(cause, at)
    if any(cause.message.startswith(_NOT_MADE) for cause in causes):
        return _settings(causes[-1], at)
    said = "; ".join(dict.fromkeys(cause.message for cause in causes if cause.message)) or "an unknown error"
    where = f" to topic {at.topic}" if at.topic and at.topic not in at.doing else ""
    return PublicationFailed(f"{at.sink}: could not {at.doing}{where}: {said}", "see what the brokers have logged")


def _unreachable(cause: Cause, at: Circumstances) -> StreamJobError:
    if at.topic is not None and "not present in metadata" in cause.message:
        return UnusableTopic(
            f"{at.sink}: could not {at.doing}: topic {at.topic} is not there, or lacks the partition: {cause.message}",
            "make the topic, or give it as many partitions as the column partition names",
        )
    return BrokersUnreachable(
        f"{at.sink}: could not {at.doing}: the brokers at {at.servers} do not answer in time: {cause.message}",
        "check the option kafka.bootstrap.servers, the network, and whether enough replicas are in sync",
    )


def _not_let_in(cause: Cause, at: Circumstances) -> StreamJobError:
    return BrokersRefuse(
        f"{at.sink}: the brokers at {at.servers} do not let the sink in: {cause.message}",
        "check the options kafka.security.protocol, kafka.sasl.… and kafka.ssl.…",
    )


def _no_transactions(cause: Cause, at: Circumstances) -> StreamJobError:
    return BrokersRefuse(
        f"{at.sink}: the sink may not use the transactional id {at.transactional_id}",
        "allow Write and Describe on transactional ids that begin with streamjob/, or say delivery: at-least-once",
    )


def _no_topic_rights(cause: Cause, at: Circumstances) -> StreamJobError:
    topic = f"topic {at.topic}" if at.topic else f"a topic ({cause.message})"
    return BrokersRefuse(f"{at.sink}: the sink may not {at.doing}: {topic}", "allow Write, Describe and Read on it")


def _no_cluster_rights(cause: Cause, at: Circumstances) -> StreamJobError:
    return BrokersRefuse(
        f"{at.sink}: could not {at.doing}: {cause.message}",
        "allow IdempotentWrite on the cluster, or Write on the topic",
    )


def _too_long_a_timeout(cause: Cause, at: Circumstances) -> StreamJobError:
    return BrokersRefuse(
        f"{at.sink}: a transaction of {at.transaction_timeout:g} s is longer than the brokers allow",
        f"lower the option {_SETTING}, or raise transaction.max.timeout.ms of the brokers",
    )


def _fenced(cause: Cause, at: Circumstances) -> StreamJobError:
    if at.elapsed >= at.transaction_timeout:
        return TransactionTimedOut(
            f"{at.sink}: could not {at.doing}: the transaction had taken {at.elapsed:.0f} s, and the brokers give it "
            f"up after {at.transaction_timeout:g} s",
            f"raise the option {_SETTING}, and transaction.max.timeout.ms of the brokers with it; or take checkpoints "
            "more often, so that each publishes less",
        )
    return PublisherFenced(
        f"{at.sink}: could not {at.doing}: another process makes transactions with the id {at.transactional_id}, or "
        f"the brokers gave the transaction up after {at.elapsed:.0f} s",
        "let one job of this namespace and name write to these brokers",
    )


def _forgotten(cause: Cause, at: Circumstances) -> StreamJobError:
    return PublicationFailed(
        f"{at.sink}: could not {at.doing}: the brokers have forgotten the transactional id {at.transactional_id}",
        "the restart takes it anew; their transactional.id.expiration.ms tells how long they keep an idle one",
    )


def _too_large(cause: Cause, at: Circumstances) -> StreamJobError:
    topic = at.topic or "its topic"
    return RowsRefused(
        f"{at.sink}: could not {at.doing}: a row is too large for {topic}: {cause.message}",
        f"raise max.message.bytes of {topic} (kafka.{LONGEST_REQUEST} is the client's limit)",
    )


def _no_topic(cause: Cause, at: Circumstances) -> StreamJobError:
    return UnusableTopic(
        f"{at.sink}: could not {at.doing}: there is no topic {at.topic or ''}".rstrip(), "make the topic"
    )


def _row(cause: Cause, at: Circumstances) -> StreamJobError:
    return RowsRefused(
        f"{at.sink}: could not {at.doing}: topic {at.topic} refuses a row: {cause.message}",
        "change the topic's settings, or what the job writes",
    )


def _settings(cause: Cause, at: Circumstances) -> StreamJobError:
    return UnusableOptions(f"{at.sink}: the client cannot be made: {cause.message}", "correct the options kafka.…")


def _no_address(cause: Cause, at: Circumstances) -> StreamJobError:
    if "bootstrap" in cause.message:
        return BrokersUnreachable(
            f"{at.sink}: the brokers at {at.servers} cannot be found: {cause.message}",
            "check the option kafka.bootstrap.servers and the names in it",
        )
    return _settings(cause, at)


def _damaged(cause: Cause, at: Circumstances) -> StreamJobError:
    return StagedRowsGone(
        f"{at.sink}: could not {at.doing}: its staged rows cannot be read: {cause.message}",
        "bring the object back from a copy of the store",
    )


_Explanation: TypeAlias = Callable[[Cause, Circumstances], StreamJobError]
_EXPLANATIONS: Mapping[str, _Explanation] = {
    **dict.fromkeys(("TimeoutException", "BufferExhaustedException", "DisconnectException"), _unreachable),
    **dict.fromkeys(("NotEnoughReplicasException", "NotEnoughReplicasAfterAppendException"), _unreachable),
    **dict.fromkeys(("CoordinatorNotAvailableException", "BrokerNotAvailableException"), _unreachable),
    **dict.fromkeys(
        ("SaslAuthenticationException", "SslAuthenticationException", "AuthenticationException"), _not_let_in
    ),
    "UnsupportedSaslMechanismException": _not_let_in,
    "TransactionalIdAuthorizationException": _no_transactions,
    "TopicAuthorizationException": _no_topic_rights,
    "ClusterAuthorizationException": _no_cluster_rights,
    "InvalidTxnTimeoutException": _too_long_a_timeout,
    **dict.fromkeys(("ProducerFencedException", "InvalidProducerEpochException", "FencedInstanceIdException"), _fenced),
    "InvalidPidMappingException": _forgotten,
    "InvalidTxnStateException": _fenced,
    **dict.fromkeys(("RecordTooLargeException", "RecordBatchTooLargeException"), _too_large),
    **dict.fromkeys(
        ("UnknownTopicOrPartitionException", "InvalidTopicException", "UnknownTopicIdException"), _no_topic
    ),
    **dict.fromkeys(("InvalidTimestampException", "InvalidRecordException", "CorruptRecordException"), _row),
    **dict.fromkeys(("PolicyViolationException", "SerializationException"), _row),
    "ConfigException": _no_address,
    "Unreadable": _damaged,
}
"""By the class of the outermost cause that is known."""
