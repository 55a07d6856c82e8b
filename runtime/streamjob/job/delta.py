"""The options of the Delta sink, as a job's file gives them; the rest is checked at the table, at the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamjob.job.options import option
from streamjob.job.suggest import did_you_mean

FORMAT = "delta"

_STORAGE = "storage."


def problems(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a sink's options, as written in a file, with the fix; no value is shown."""
    if not option(options, "path"):
        yield "lacks the option 'path'", "add path: a directory, or s3://bucket/path"
    for name in options:
        if name.lower() != "path" and not name.startswith(_STORAGE):
            yield f"has no option {name!r}", did_you_mean(name, ("path", "storage.…"), "options")


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return what gives access to the table's files."""
    return {name.removeprefix(_STORAGE): value for name, value in options.items() if name.startswith(_STORAGE)}
