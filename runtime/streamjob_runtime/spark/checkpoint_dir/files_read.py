"""Lists the files that Spark's file source has read, from its log below `sources/`."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.sources import file_source_entries


def sparks_files(log: Path, position: int) -> frozenset[str]:
    """Return the files in a log of Spark's file source up to an entry: absolute paths, or URIs if not local.

    Raises:
        UnreadableCheckpointFile: the log does not have the format of Spark 4.3.
    """
    found: set[str] = set()
    for name in file_source_entries([each.name for each in log.iterdir()], position):
        # Not by the line breaks of Unicode, which a name may contain.
        lines = (log / name).read_text("utf-8").split("\n")
        if lines[0] != "v1":
            raise UnreadableCheckpointFile(log / name, f"unknown version {lines[0]!r}")
        found.update(local_path(json.loads(line)["path"]) for line in lines[1:] if line)
    return frozenset(found)


def local_path(uri: str) -> str:
    """Return the path of a `file:` URI; return another file system's URI without escapes."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme in ("", "file") else unquote(uri)
