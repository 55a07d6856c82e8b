"""Errors of sinks and of the places to which they write."""

from __future__ import annotations

from streamjob.errors import CannotRestore, InvalidInput, StreamJobError
from streamjob.job.connectors.file_source import in_bucket, is_elsewhere
from streamjob.sink import StagedRowsGone as StagedRowsGone
from streamjob.stored.sparks_output import SINK_LOG


class UnusableSink(InvalidInput):
    """The sink cannot be built from the job's description of it; nothing was started."""


class UnusablePlace(InvalidInput):
    """The sink's path is unusable: not a directory, not writable, or of an unknown kind."""


class PlaceTaken(InvalidInput):
    """Another job or another sink writes to the same path."""


class PlaceOfQuery(InvalidInput):
    """The sink's path is the output of a plain query, whose log hides the job's files from Spark's readers."""

    @classmethod
    def at(cls, whom: str, place: str) -> PlaceOfQuery:
        """Return the error for the sink that is named, with the place as the user wrote it."""
        adopted = in_bucket(place) or not is_elsewhere(place)
        return cls(
            f"{whom}: {place} has {SINK_LOG}, the log of a plain query, so Spark's readers would see no row of the job",
            f"stop the query for good, and run `streamjob adopt {place}`, which keeps what the query has committed, "
            "and removes all else and the log; or name another path"
            if adopted
            else "name another path: `streamjob adopt` works for buckets and local directories",
        )


class PlaceFull(StreamJobError):
    """No space or quota is left at the sink's path; nothing beyond completed checkpoints was committed."""


class UnreadableCommittable(CannotRestore):
    """A snapshot's committable was written by another sink, or by a newer version of this one."""


class UnreadableRecord(CannotRestore):
    """A record that a sink keeps where it commits is cut, altered, or written by a newer version."""


class UnusableTable(InvalidInput):
    """The table does not exist, cannot be written to, or does not fit the rows."""


class CommitContended(StreamJobError):
    """Other writers changed the table during every attempt of the sink to commit."""


class OthersPublish(StreamJobError):
    """Another process publishes the batches of the sink."""

    def __init__(self, sink: str) -> None:
        super().__init__(f"{sink}: another process publishes its batches", "this process ends; the other one goes on")


class RowsRefused(StreamJobError):
    """The target refuses rows, such as a number that is too large for its column."""


class DatabaseRefuses(InvalidInput):
    """The database answers, but refuses the sink's role or an operation."""


class DatabaseUnreachable(StreamJobError):
    """No server answers, or it cannot serve requests now; the job continues from its checkpoint once it can."""
