"""Checks the options of the Delta sink in a job file. The rest is checked at the table, when the job starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamjob.job.options import option
from streamjob.job.suggest import did_you_mean

FORMAT = "delta"

_STORAGE = "storage."


def problems(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield problems with a sink's options, with fixes; values are not shown."""
    if not option(options, "path"):
        yield "lacks the option 'path'", "add path: a directory, or s3://bucket/path"
    for name in options:
        if name.lower() != "path" and not name.startswith(_STORAGE):
            yield f"has no option {name!r}", did_you_mean(name, ("path", "storage.…"), "options")


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for access to the table's files."""
    return {name.removeprefix(_STORAGE): value for name, value in options.items() if name.startswith(_STORAGE)}
