"""Names of local files that Spark cannot hold: its paths are URIs, in which a colon ends the scheme."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from streamjob_runtime.spark.text.error_text import PLACE

# Spark fails when it lists all files, or when it looks for the checksums of one, `.NAME.crc`, or when it reads it. The
# place in the job's code that `describe` adds is no part of the name.
_LISTING = re.compile(rf"Relative path in absolute URI: ([^\n]+?)\s*(?:{PLACE})?$", re.MULTILINE)
_CHECKSUMS = re.compile(r"\.(.+)\.crc")
_READING = re.compile(r"reading file file:[^\n]*/([^/\n]*:[^/\n]*?)\.?\s+SQLSTATE")


def unusable_name_in(text: str) -> str | None:
    """Return the name of the file that the text of one of Spark's errors is about; None if it is another error."""
    if (listed := _LISTING.search(text)) is not None:
        checksums = _CHECKSUMS.fullmatch(listed[1])
        return listed[1] if checksums is None else checksums[1]
    return unquote(read[1]) if (read := _READING.search(text)) is not None else None


def unusable_name(name: str, paths: Mapping[str, str]) -> tuple[str, str]:
    """Return what is wrong with a file that Spark cannot list, and what to do.

    Args:
        name: the name of the file.
        paths: the paths of the sources that may have it, by the names of the sources.
    """
    sources, places = ", ".join(map(repr, paths)), ", ".join(paths.values())
    return (
        f"Source {sources}: Spark cannot list a file with a colon in its name, {name}, below {places}",
        "rename it without the colon, and change the names that its producer writes, as in 2024-05-01T10-00-00.json",
    )
