"""Errors between a job and its Kafka brokers."""

from __future__ import annotations

from streamjob.errors import CannotRestore, InvalidInput, StreamJobError


class KafkaUnreachable(StreamJobError):
    """No broker, or not enough of them, answered in time; the job will continue from its checkpoint once they do."""


class KafkaRefuses(InvalidInput):
    """The brokers answer, but refuse the job's credentials or an operation."""


class TopicMissing(InvalidInput):
    """A topic or a partition of it does not exist."""


class UnusableBeginning(InvalidInput):
    """The options of a source say that it begins at partitions, offsets or times that do not exist."""


class TransactionOpen(StreamJobError):
    """A position lies inside a transaction that is still open; the job continues when the transaction has ended."""


class TopicMadeAgain(CannotRestore):
    """A topic was deleted, and another one has its name: the offsets of a snapshot mean nothing in it."""


class OffsetsGone(CannotRestore):
    """Kafka no longer has the records at which a snapshot continues."""
