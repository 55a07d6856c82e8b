"""Translates errors of Kafka's client; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamjob.errors import StreamJobError
from streamjob.job.connectors.options import UnusableOptions
from streamjob_runtime.kafka.errors import KafkaRefuses, KafkaUnreachable, TopicMissing, UnusableBeginning

_NOT_MADE = ("Failed to construct kafka", "Failed to create new Kafka")


@dataclass(frozen=True, slots=True)
class Cause:
    """An error of the client: the simple name of its class, and its message."""

    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The context in which the client failed.

    Args:
        who: the part that used the client, at the beginning of a message: `Source 'orders'`.
        servers: the brokers' addresses.
        doing: the attempted operation, as in `could not …`.
    """

    who: str
    servers: str
    doing: str = "connect"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of some causes. In its texts, `{at}` is the context and `{said}` the client's own message.

    Args:
        kinds: the names of the causes; empty for any.
        error: the class of the error.
        what: the problem, after `could not …: `.
        saying: text that the cause's message must contain, too.
    """

    kinds: tuple[str, ...]
    error: type[StreamJobError]
    what: str
    fix: str
    saying: str = ""

    def explains(self, cause: Cause) -> bool:
        """Return whether this explains a cause."""
        return (not self.kinds or cause.name in self.kinds) and self.saying in cause.message

    def of(self, said: str, at: Circumstances) -> StreamJobError:
        """Return the error."""
        what = self.what.format(at=at, said=said)
        return self.error(f"{at.who}: could not {at.doing}: {what}", self.fix.format(at=at, said=said))


_OPTIONS = Explanation(
    ("ConfigException", "PatternSyntaxException"),
    UnusableOptions,
    "its options cannot be used: {said}",
    "correct them, those of Kafka's client are kafka.…",
)

EXPLANATIONS = (
    Explanation(
        ("ConfigException",),
        KafkaUnreachable,
        "the brokers at {at.servers} cannot be found: {said}",
        "check the option kafka.bootstrap.servers and the names in it",
        saying="bootstrap urls",
    ),
    _OPTIONS,
    Explanation(
        (
            *("TimeoutException", "BufferExhaustedException", "DisconnectException"),
            *("NotEnoughReplicasException", "NotEnoughReplicasAfterAppendException"),
            *("CoordinatorNotAvailableException", "BrokerNotAvailableException"),
        ),
        KafkaUnreachable,
        "the brokers at {at.servers} do not answer in time: {said}",
        "start them, or check the options kafka.bootstrap.servers and kafka.security.protocol, the network, and "
        "whether enough replicas are in sync",
    ),
    Explanation(
        (
            *("SaslAuthenticationException", "SslAuthenticationException", "AuthenticationException"),
            *("UnsupportedSaslMechanismException", "IllegalSaslStateException"),
        ),
        KafkaRefuses,
        "the brokers at {at.servers} do not let it in: {said}",
        "check the options kafka.security.protocol, kafka.sasl.… and kafka.ssl.…",
    ),
    Explanation(
        (
            *("TopicAuthorizationException", "GroupAuthorizationException", "ClusterAuthorizationException"),
            *("DelegationTokenAuthorizationException", "AuthorizationException"),
        ),
        KafkaRefuses,
        "it may not: {said}",
        "allow its principal to: Describe and Read on the topics that it reads, and Write on the topics that it "
        "writes to",
    ),
    Explanation(
        ("PolicyViolationException",),
        KafkaRefuses,
        "the brokers' policies do not allow it: {said}",
        "do it by hand, as the policies want it",
    ),
    Explanation(
        (),
        UnusableBeginning,
        "{said}",
        "name a time that a record of each partition has reached, or startingOffsetsByTimestampStrategy: latest",
        saying="No offset matched",
    ),
    Explanation(
        ("UnknownTopicOrPartitionException", "InvalidTopicException", "UnknownTopicIdException"),
        TopicMissing,
        "there is no such topic: {said}",
        "make it, or name another one in the options",
    ),
)
"""Ordered: for the outermost cause that can be explained, the first explanation counts."""


def read_causes(lines: str) -> tuple[Cause, ...]:
    """Parse the causes of an error, outermost first, from one line each: name, tab, message."""
    return tuple(Cause(*line.partition("\t")[::2]) for line in lines.splitlines())


def explained(
    causes: Sequence[Cause],
    at: Circumstances,
    explanations: Sequence[Explanation] = EXPLANATIONS,
    otherwise: type[StreamJobError] = KafkaUnreachable,
) -> StreamJobError:
    """Return the error that explains an error of the client, with a fix.

    Args:
        causes: the causes of the error, outermost first.
        otherwise: the class for an error without explanation.
    """
    for cause in causes:
        for explanation in explanations:
            if explanation.explains(cause):
                return explanation.of(cause.message or cause.name, at)
    if any(cause.message.startswith(_NOT_MADE) for cause in causes):
        return _OPTIONS.of(causes[-1].message, at)
    said = "; ".join(dict.fromkeys(cause.message for cause in causes if cause.message)) or "an unknown error"
    return Explanation((), otherwise, "{said}", "check the logs of the brokers").of(said, at)
