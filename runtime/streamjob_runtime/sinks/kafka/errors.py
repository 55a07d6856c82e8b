"""Errors between the Kafka sink and its brokers, in addition to those of any job."""

from __future__ import annotations

from streamjob.errors import InvalidInput, StreamJobError


class UnusableTopic(InvalidInput):
    """A topic is unsuitable, or the rows do not fit it."""


class CommitFailed(StreamJobError):
    """The transaction of a checkpoint failed; the next process finds out whether it is still due, and repeats it."""


class ProducerFenced(StreamJobError):
    """Another process commits for the sink and has fenced off this one."""


class TransactionTimedOut(StreamJobError):
    """A transaction exceeded its timeout, and the brokers aborted it."""
