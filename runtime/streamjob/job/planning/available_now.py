"""Refuses a run up to what is there if it is unknown what that is, before anything is started."""

from __future__ import annotations

from collections.abc import Iterator

from streamjob.errors import InvalidInput, refuse
from streamjob.job.connectors.kafka_source import FORMAT as KAFKA
from streamjob.job.connectors.lake_source import SOURCES
from streamjob.job.model.formats import FILE_FORMATS
from streamjob.job.model.spec import JobSpec


class NotAvailableNow(InvalidInput):
    """A job cannot run up to what is there."""


def check_available_now(spec: JobSpec) -> None:
    """Check that a job can run up to what is there, and go on from there.

    Raises:
        NotAvailableNow: it cannot; the error names each source and the reason.
    """
    refuse(NotAvailableNow, f"Job {spec.name!r} cannot run with --available-now:", _problems(spec))


def _problems(spec: JobSpec) -> Iterator[tuple[str, str]]:
    if all(each.bounded for each in spec.sources):
        yield (
            "all its sources are bounded, so that its first run would finish it, and no other one would read on",
            "leave out `bounded: true`",
        )
    for source in spec.sources:
        if source.format not in (KAFKA, *FILE_FORMATS, *SOURCES):
            yield (
                f"source {source.name!r} has the format {source.format!r}, which does not tell what is there now",
                "run it without the option; sources of files, lake tables and Kafka do tell",
            )
