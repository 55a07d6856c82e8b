"""What can go wrong between a job and its Kafka servers."""

from __future__ import annotations

from streamjob.errors import CannotRestore, InvalidInput, StreamJobError


class KafkaUnreachable(StreamJobError):
    """No broker answers in time; the job goes on from its checkpoint once one does."""


class KafkaRefuses(InvalidInput):
    """The brokers answer, and do not let the job in, or not do what it has to do; or its options fit no client."""


class TopicMissing(InvalidInput):
    """A topic is not there."""


class UnusableBeginning(InvalidInput):
    """The option `startingOffsets` names other partitions than there are, or offsets that they do not have."""


class OffsetsGone(CannotRestore):
    """Kafka no longer has the records at which a snapshot goes on."""
