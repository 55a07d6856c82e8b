"""What can go wrong between a job and its Kafka brokers."""

from __future__ import annotations

from streamjob.errors import CannotRestore, InvalidInput, StreamJobError


class KafkaUnreachable(StreamJobError):
    """No broker answers in time, or not enough of them; the job continues from its checkpoint once they do."""


class KafkaRefuses(InvalidInput):
    """The brokers answer, and do not let the job in, or not do what it has to do."""


class TopicMissing(InvalidInput):
    """A topic is not there, or lacks a partition."""


class UnusableBeginning(InvalidInput):
    """The option `startingOffsets` names other partitions than there are, or offsets that they do not have."""


class OffsetsGone(CannotRestore):
    """Kafka no longer has the records at which a snapshot goes on."""
