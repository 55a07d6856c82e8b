"""What can go wrong between a sink and its Kafka brokers."""

from __future__ import annotations

from streamjob.errors import InvalidInput, StreamJobError


class BrokersRefuse(InvalidInput):
    """The brokers answer, and do not let the sink in, or not do what it has to do."""


class UnusableTopic(InvalidInput):
    """A topic is not there, cannot serve, or the rows do not fit."""


class BrokersUnreachable(StreamJobError):
    """No broker answers, or not enough of them; the job goes on from its checkpoint once they do."""


class PublicationFailed(StreamJobError):
    """The transaction of a checkpoint did not come about; the next process finds out, and makes it if it is due."""


class PublisherFenced(StreamJobError):
    """Another process publishes for the sink, which ends this one's right to do so."""


class TransactionTimedOut(StreamJobError):
    """A transaction took longer than it may, and the brokers gave it up."""


class RowsRefused(StreamJobError):
    """A row cannot be written to Kafka, such as one that is too large."""


class StagedRowsGone(StreamJobError):
    """Rows of a completed checkpoint are neither committed nor staged, or are damaged."""
