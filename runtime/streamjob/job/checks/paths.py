"""Checks paths: every file source and sink has one, and no sink shares its path."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from streamjob.job.checks.subject import Subject, where
from streamjob.job.connectors.options import absolute_path, option
from streamjob.job.model.formats import FILE_FORMATS, PLACED_FORMATS
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import SinkSpec, SourceSpec

_GLOB = re.compile(r"[*?\[{]")


def paths(subject: Subject) -> Iterator[Problem]:
    """File sources and sinks have a path."""
    for part in (*_parts(subject), *subject.spec.tables):
        if part.format in FILE_FORMATS and not option(part.options, "path"):
            yield Problem(where(part), "lacks the option 'path'", "give options: {path: …}; it is relative to the file")


def apart(subject: Subject) -> Iterator[Problem]:
    """No sink writes where another sink writes or a source reads."""
    placed = [(part, place) for part in _parts(subject) if (place := _place(subject, part)) is not None]
    for index, (part, place) in enumerate(placed):
        if not isinstance(part, SinkSpec):
            continue
        for other, there in placed[:index]:
            if _inside(place, there) or _inside(there, place):
                relation = (
                    "writes where" if place == there else "writes inside of where" if _inside(place, there) else ""
                )
                relation = relation or "writes to a directory around the one where"
                verb = "writes" if isinstance(other, SinkSpec) else "reads"
                yield Problem(where(part), f"{relation} the {where(other)} {verb}: {place}", "give it its own path")


def _parts(subject: Subject) -> tuple[SourceSpec | SinkSpec, ...]:
    return (*subject.spec.sources, *subject.spec.sinks)


def _place(subject: Subject, part: SourceSpec | SinkSpec) -> str | None:
    """Return the path of a part's files in canonical form; None if it has no files or the path cannot be determined."""
    path = option(part.options, "path")
    if not path or part.format not in PLACED_FORMATS:
        return None
    if not path.startswith("${env:"):
        path = absolute_path(path, subject.directory)
    scheme, separator, rest = path.partition(":/")
    if not separator:
        scheme, rest = "file", path
    scheme = "s3" if scheme.lower() in ("s3a", "s3n") else scheme.lower()
    if isinstance(part, SourceSpec) and (glob := _GLOB.search(rest)) and not rest.startswith("${env:"):
        rest = posixpath.dirname(rest[: glob.start()] + "x")
    rest = posixpath.normpath("/" + rest.lstrip("/"))
    return rest if scheme == "file" else f"{scheme}:/{rest}"


def _inside(place: str, directory: str) -> bool:
    return place == directory or place.startswith(directory.rstrip("/") + "/")
