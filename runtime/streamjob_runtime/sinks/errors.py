"""What can be wrong with the place that a sink writes to, or with the sink itself."""

from __future__ import annotations

from streamjob.errors import InvalidInput, StreamJobError


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
