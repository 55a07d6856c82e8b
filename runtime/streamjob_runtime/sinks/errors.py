"""Errors of sinks and of the places to which they write."""

from __future__ import annotations

from streamjob.errors import CannotRestore, InvalidInput, StreamJobError
from streamjob.sink import StagedRowsGone as StagedRowsGone
from streamjob_runtime.lakes.errors import UnusableTable as UnusableTable


class UnusableSink(InvalidInput):
    """The sink cannot be built from the job's description of it; nothing was started."""


class UnusablePlace(InvalidInput):
    """The sink's path is unusable: not a directory, not writable, or of an unknown kind."""


class PlaceTaken(InvalidInput):
    """Another job or another sink writes to the same path."""


class PlaceFull(StreamJobError):
    """No space or quota is left at the sink's path; nothing beyond completed checkpoints was committed."""


class UnreadableCommittable(CannotRestore):
    """A snapshot's committable was written by another sink, or by a newer version of this one."""


class UnreadableRecord(CannotRestore):
    """A record that a sink keeps where it commits is cut, altered, or written by a newer version."""


class CommitContended(StreamJobError):
    """Other writers changed the table during every attempt of the sink to commit."""


class RowsRefused(StreamJobError):
    """The target refuses rows, such as a number that is too large for its column."""


class DatabaseRefuses(InvalidInput):
    """The database answers, but refuses the sink's role or an operation."""


class DatabaseUnreachable(StreamJobError):
    """No server answers, or it cannot serve requests now; the job continues from its checkpoint once it can."""
