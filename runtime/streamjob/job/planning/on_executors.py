"""Refuses what does not work on executors in processes of their own, before anything is started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamjob.errors import InvalidInput, refuse
from streamjob.job.connectors.file_source import is_elsewhere
from streamjob.job.connectors.options import option
from streamjob.job.model.formats import FILE_FORMATS, PLACED_FORMATS
from streamjob.job.model.spec import JobSpec, SinkSpec, SourceSpec, TableSpec

_LOCAL: Mapping[type, tuple[str, str]] = {
    SourceSpec: ("source {!r} reads files of", "read them from"),
    TableSpec: ("table {!r} reads files of", "read them from"),
    SinkSpec: ("sink {!r} writes files to", "write them to"),
}
"""By kind of part: what it does with a path, and what it could do instead."""


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
    parts: tuple[SourceSpec | TableSpec | SinkSpec, ...] = (*spec.sources, *spec.tables, *spec.sinks)
    for part in parts:
        formats = PLACED_FORMATS if isinstance(part, SourceSpec) else FILE_FORMATS
        if part.format in formats and not is_elsewhere(option(part.options, "path") or ""):
            what, fix = _LOCAL[type(part)]
            yield (
                f"{what.format(part.name)} a local path, which other machines do not have",
                f"{fix} s3://, or name a shared volume and say --executors-share-files",
            )
