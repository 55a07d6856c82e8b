"""Errors of a test of a job, one class per cause."""

from __future__ import annotations

from streamjob.errors import InvalidInput, JobFailed


class UnknownPart(InvalidInput):
    """A test names a source, operator or sink that the job does not have."""


class InvalidRows(InvalidInput):
    """Rows of a test do not fit the columns of their source or sink."""


class NoColumns(InvalidInput):
    """Nothing says which columns a source has."""


class NoEventTime(InvalidInput):
    """A test advances the event time of something that has none."""


class JobUnderTestFailed(JobFailed):
    """The job under test failed."""


class NotWithin(JobFailed):
    """The job under test has not done its work in time."""


class TableInUse(InvalidInput):
    """A test gives a table rows after the job has begun with the rows that the table reads itself."""
