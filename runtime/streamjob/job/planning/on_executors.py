"""Refuses what does not work on executors in processes of their own, before anything is started."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamjob.errors import InvalidInput, refuse
from streamjob.job.connectors.options import option
from streamjob.job.model.formats import FILE_FORMATS, PLACED_FORMATS
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.plan import Plan

_ELSEWHERE = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*:/")


class NotOnExecutors(InvalidInput):
    """A job has parts that do not work on executors."""


def check_on_executors(spec: JobSpec, plan: Plan, *, local_files: bool) -> None:
    """Check that a job can run on executors.

    Args:
        plan: its chains.
        local_files: whether the executors reach the local paths of sources and sinks.

    Raises:
        NotOnExecutors: it cannot; the error names each part and the reason.
    """
    refuse(NotOnExecutors, f"Job {spec.name!r} cannot run on executors:", _problems(spec, plan, local_files))


def _problems(spec: JobSpec, plan: Plan, local_files: bool) -> Iterator[tuple[str, str]]:
    if local_files:
        return
    for source in spec.sources:
        if source.format in PLACED_FORMATS and _is_local(option(source.options, "path") or ""):
            yield (
                f"source {source.name!r} reads files of a local path, which other machines do not have",
                "read them from s3://, or name a shared volume and say --executors-share-files",
            )
    for table in spec.tables:
        if table.format in FILE_FORMATS and _is_local(option(table.options, "path") or ""):
            yield (
                f"table {table.name!r} reads files of a local path, which other machines do not have",
                "read them from s3://, or name a shared volume and say --executors-share-files",
            )
    for sink in spec.sinks:
        if sink.format in FILE_FORMATS and _is_local(option(sink.options, "path") or ""):
            yield (
                f"sink {sink.name!r} writes files to a local path, which other machines do not have",
                "write them to s3://, or name a shared volume and say --executors-share-files",
            )


def _is_local(path: str) -> bool:
    return _ELSEWHERE.match(path) is None
