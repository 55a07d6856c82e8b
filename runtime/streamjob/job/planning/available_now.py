"""Refuses runs up to what is there, by a schedule or by hand, that cannot be, before anything is started."""

from __future__ import annotations

from collections.abc import Iterator

from streamjob.errors import InvalidInput, refuse
from streamjob.job.connectors.kafka_source import FORMAT as KAFKA
from streamjob.job.connectors.lake_source import SOURCES
from streamjob.job.model.formats import FILE_FORMATS
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import JobSpec
from streamjob.schedules import BadSchedule, check_cron, next_time


class NotAvailableNow(InvalidInput):
    """A job cannot run up to what is there."""


def check_available_now(spec: JobSpec) -> None:
    """Check that a job can run up to what is there, and go on from there.

    Raises:
        NotAvailableNow: it cannot; the error names each source and the reason.
    """
    refuse(NotAvailableNow, f"Job {spec.name!r} cannot run with --available-now:", _problems(spec))


def schedule_problems(savepoints: str | None, cron: str | None, time_zone: str | None) -> list[Problem]:
    """Return what is wrong with the schedules of a StreamJob: of its savepoints, and of its runs."""
    found = []
    try:
        if savepoints is not None:
            next_time(savepoints, 0.0)
    except BadSchedule as error:
        fix = "write a duration like 6h, or cron's five fields"
        found.append(Problem("spec.savepoints.schedule", str(error), fix))
    try:
        if cron is not None:
            check_cron(cron, time_zone)
    except BadSchedule as error:
        found.append(Problem("spec.schedule", str(error), "write cron's five fields, like 0 3 * * *"))
    return found


def run_problems(spec: JobSpec) -> list[Problem]:
    """Return why a job cannot run by a schedule: each run reads what is there when it begins."""
    return [Problem("spec.schedule", what, fix) for what, fix in _problems(spec)]


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
                "run it all the time; sources of files, lake tables and Kafka do tell",
            )
