"""What can be wrong with the place that a sink writes to, or with the sink itself."""

from __future__ import annotations

from streamjob.errors import InvalidInput, StreamJobError
from streamjob.sink import StagedRowsGone as StagedRowsGone


class UnusableSink(InvalidInput):
    """The sink cannot be built from what the job says of it; nothing was started."""


class UnusablePlace(InvalidInput):
    """The sink's path cannot be used: it is no directory, may not be written, or is of no known kind."""


class PlaceTaken(InvalidInput):
    """Another job or another sink writes to the same path."""


class PlaceFull(StreamJobError):
    """No space or quota is left at the sink's path; nothing was published that the checkpoint does not cover."""


class UnreadableCommittable(StreamJobError):
    """A snapshot's committable was not written by this sink, or by a newer version of it."""


class UnusableTable(InvalidInput):
    """The table is not there, is of a kind that cannot be written to, or the rows do not fit."""


class RowsRefused(StreamJobError):
    """The place refuses rows, such as a number that is too large for its column."""


class DatabaseRefuses(InvalidInput):
    """The database answers, and does not let the sink's role in, or not do what the sink has to do."""


class DatabaseUnreachable(StreamJobError):
    """No server answers, or it cannot at the moment; the job continues from its checkpoint once it does."""
