"""Checks the options of an exactly-once file sink whose path is in a bucket. Its tasks write the files themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from streamjob.job.connectors.connector import OptionProblem
from streamjob.job.connectors.options import option
from streamjob.job.model.suggest import did_you_mean

COMPRESSIONS: Mapping[str, tuple[str, ...]] = {
    "parquet": ("snappy", "gzip", "zstd", "none"),
    "csv": ("none", "gzip", "bzip2", "deflate"),
    "json": ("none", "gzip", "bzip2", "deflate"),
    "text": ("none", "gzip", "bzip2", "deflate"),
}
"""Compressions by format; the first is the default, as in Spark."""

_LINES = frozenset({"compression", "encoding", "lineSep"})
_TIMES = frozenset({"dateFormat", "locale", "timeZone", "timestampFormat", "timestampNTZFormat"})

_OPTIONS: Mapping[str, frozenset[str]] = {
    "parquet": frozenset({"compression"}),
    "csv": _LINES
    | _TIMES
    | {
        "charToEscapeQuoteEscaping", "delimiter", "emptyValue", "escape", "escapeQuotes", "header",
        "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "nullValue", "quote", "quoteAll", "sep",
    },
    "json": _LINES | _TIMES | {"ignoreNullFields"},
    "text": _LINES,
}  # fmt: skip

_BUCKET_PATH = re.compile(r"s3://[A-Za-z0-9][A-Za-z0-9._-]{1,254}(/[^\\\x00-\x1f\x7f]*)?")
_LONGEST_PREFIX = 512
_HADOOP = re.compile(r"s3[an]:/")


def is_in_bucket(path: str) -> bool:
    """Return whether a sink's path is in a bucket."""
    return path.startswith("s3://")


def path_problem(file_format: str, path: str) -> tuple[str, str] | None:
    """Return the problem with a path that is not a directory, with its fix; None if it is a usable path in a bucket.

    Args:
        path: the path, absolute or a URI; references to the environment may be unresolved.
    """
    if _HADOOP.match(path):
        return f"has the path {path}, with Hadoop's scheme", f"write it as s3{path[3:]}"
    if not is_in_bucket(path):
        return (
            f"delivers exactly-once, which takes a directory that can rename files or s3://bucket/path, and not {path}",
            "name a directory, which may be a mounted volume, name s3://bucket/path, or say delivery: at-least-once",
        )
    if file_format not in COMPRESSIONS:
        return (
            f"delivers exactly-once {file_format} files, which cannot go to a bucket",
            f"use one of {', '.join(sorted(COMPRESSIONS))}, or a directory",
        )
    if "${env:" in path:
        return None
    inner = path.removeprefix("s3://").partition("/")[2].strip("/")
    if (
        not _BUCKET_PATH.fullmatch(path)
        or any(part in ("", ".", "..") for part in inner.split("/") if inner)
        or len(inner.encode()) > _LONGEST_PREFIX
    ):
        return (
            f"has the path {path}, which is no place in a bucket",
            f"write s3://bucket/path with at most {_LONGEST_PREFIX} bytes after the bucket, and no empty part or '..'",
        )
    return None


def problems(file_format: str, options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Yield problems with the options of a sink whose path is in a bucket, with fixes.

    Args:
        file_format: one of the formats in `COMPRESSIONS`.
        options: the sink's options.
    """
    known = _OPTIONS[file_format] | {"path"}
    lower = {name.lower() for name in known}
    for name in options:
        if name.lower() not in lower:
            yield OptionProblem(
                f"has no option {name!r} for {file_format} files in a bucket", did_you_mean(name, known, "options")
            )
    compression = option(options, "compression")
    if compression is not None and "${env:" not in compression and compression_of(file_format, options) is None:
        allowed = COMPRESSIONS[file_format]
        yield OptionProblem(
            f"cannot write compression {compression!r}", did_you_mean(compression, allowed, "compressions")
        )
    encoding = option(options, "encoding")
    if encoding is not None and encoding.upper().replace("-", "") != "UTF8":
        yield OptionProblem(
            f"cannot write encoding {encoding!r} into a bucket", "leave it out: files are written in UTF-8"
        )


def compression_of(file_format: str, options: Mapping[str, str]) -> str | None:
    """Return the compression that the options name, or the default; None if it is unknown."""
    allowed = COMPRESSIONS[file_format]
    named = (option(options, "compression") or allowed[0]).lower()
    named = {"uncompressed": "none", "gz": "gzip"}.get(named, named)
    return named if named in allowed else None
