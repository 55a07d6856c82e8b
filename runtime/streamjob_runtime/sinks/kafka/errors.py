"""What can go wrong between a sink and its Kafka brokers, beside what can for any job."""

from __future__ import annotations

from streamjob.errors import InvalidInput, StreamJobError


class UnusableTopic(InvalidInput):
    """A topic cannot serve, or the rows do not fit."""


class PublicationFailed(StreamJobError):
    """The transaction of a checkpoint did not come about; the next process finds out, and makes it if it is due."""


class PublisherFenced(StreamJobError):
    """Another process publishes for the sink, which ends this one's right to do so."""


class TransactionTimedOut(StreamJobError):
    """A transaction took longer than it may, and the brokers gave it up."""
