"""Why a plain query's checkpoint cannot be taken over, one class per cause. Nothing was started or changed."""

from __future__ import annotations

from typing import ClassVar

from streamjob.comparison.verdicts import Kind
from streamjob.errors import CannotRestore


class NotTaken(CannotRestore):
    """The job cannot go on from the query; `concerns` is what of the job does not fit."""

    concerns: ClassVar[Kind]


class NoQueryThere(CannotRestore):
    """The place holds no checkpoint of a Structured Streaming query."""


class QueryOutOfReach(CannotRestore):
    """The place of the query's checkpoint does not exist, or may not be read."""


class NothingCommitted(CannotRestore):
    """The query has committed no batch, so there is nothing to take over."""


class UnknownCheckpoint(CannotRestore):
    """A file of the checkpoint has a form that Spark 4.3 does not write."""


class IncompleteCheckpoint(CannotRestore):
    """A file that the last committed batch needs is not in the checkpoint."""


class NotOneChain(NotTaken):
    """The job runs as several Spark queries, and the checkpoint is of one."""

    concerns = Kind.JOB


class OtherSources(NotTaken):
    """The query has other sources than the job."""

    concerns = Kind.SOURCE


class OtherState(NotTaken):
    """The query keeps other state than the job does."""

    concerns = Kind.OPERATOR


class UnsupportedState(NotTaken):
    """The query's state is kept in a way that a job cannot go on with."""

    concerns = Kind.OPERATOR
