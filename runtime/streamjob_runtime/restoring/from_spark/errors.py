"""The reasons why a plain query's checkpoint cannot be taken over, one class per cause. Nothing was changed."""

from __future__ import annotations

from typing import ClassVar

from streamjob.comparison.verdicts import Kind
from streamjob.errors import CannotRestore


class NotTaken(CannotRestore):
    """The job cannot continue from the query; `concerns` names the parts of the job that do not fit."""

    concerns: ClassVar[Kind]


class NoQueryThere(CannotRestore):
    """The location has no checkpoint of a Structured Streaming query."""


class NothingCommitted(CannotRestore):
    """The query has committed no batch, so there is nothing to take over."""


class UnknownCheckpoint(CannotRestore):
    """A file of the checkpoint does not have the format of Spark 4.3."""


class IncompleteCheckpoint(CannotRestore):
    """A file of the last committed batch is missing in the checkpoint."""


class NotOneChain(NotTaken):
    """The job runs as several Spark queries, but the checkpoint belongs to one."""

    concerns = Kind.JOB


class OtherSources(NotTaken):
    """The query has other sources than the job."""

    concerns = Kind.SOURCE


class OtherState(NotTaken):
    """The query keeps other state than the job does."""

    concerns = Kind.OPERATOR


class UnsupportedState(NotTaken):
    """The query keeps its state in a way that jobs do not support."""

    concerns = Kind.OPERATOR


class StateNotConverted(CannotRestore):
    """Spark cannot read the query's state, or cannot write it for RocksDB."""
