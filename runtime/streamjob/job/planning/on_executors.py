"""Refuses what does not work on executors in processes of their own, before anything is started."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from streamjob.errors import InvalidInput, refuse
from streamjob.job.connectors.options import option
from streamjob.job.model.formats import FILE_FORMATS, PLACED_FORMATS
from streamjob.job.model.spec import JobSpec, SinkSpec, SourceSpec, TableSpec

_ELSEWHERE = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*:/")


class NotOnExecutors(InvalidInput):
    """A job has parts that do not work on executors."""


def check_on_executors(spec: JobSpec, *, local_files: bool) -> None:
    """Check that a job can run on executors.

    Args:
        local_files: whether the executors reach the local paths of sources and sinks.

    Raises:
        NotOnExecutors: it cannot; the error names each part and the reason.
    """
    refuse(NotOnExecutors, f"Job {spec.name!r} cannot run on executors:", _problems(spec, local_files))


def _problems(spec: JobSpec, local_files: bool) -> Iterator[tuple[str, str]]:
    if local_files:
        return
    reads = "reads files of a local path", "read them from s3://"
    writes = "writes files to a local path", "write them to s3://"
    parts: tuple[tuple[str, SourceSpec | TableSpec | SinkSpec, Collection[str], str, str], ...] = (
        *(("source", each, PLACED_FORMATS, *reads) for each in spec.sources),
        *(("table", each, FILE_FORMATS, *reads) for each in spec.tables),
        *(("sink", each, FILE_FORMATS, *writes) for each in spec.sinks),
    )
    for kind, part, formats, what, fix in parts:
        if part.format in formats and _ELSEWHERE.match(option(part.options, "path") or "") is None:
            yield (
                f"{kind} {part.name!r} {what}, which other machines do not have",
                f"{fix}, or name a shared volume and say --executors-share-files",
            )
