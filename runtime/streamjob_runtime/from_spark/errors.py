"""Why a plain query's checkpoint cannot be taken over, one class per cause. Nothing was started or changed."""

from __future__ import annotations

from streamjob.errors import CannotRestore


class NoQueryThere(CannotRestore):
    """The place holds no checkpoint of a Structured Streaming query."""


class NothingCommitted(CannotRestore):
    """The query has committed no batch, so there is nothing to take over."""


class UnknownCheckpoint(CannotRestore):
    """A file of the checkpoint has a form that Spark 4.3 does not write."""


class NotOneChain(CannotRestore):
    """The job runs as several Spark queries, and the checkpoint is of one."""


class OtherSources(CannotRestore):
    """The query has other sources than the job."""


class OtherState(CannotRestore):
    """The query keeps other state than the job does."""


class UnsupportedState(CannotRestore):
    """The query's state is kept in a way that a job cannot go on with."""
