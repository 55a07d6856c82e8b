"""Finds part files without rows: Spark writes one for an empty batch, to keep its schema."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from streamjob_runtime.sinks.files.file_systems import PlacedFile

_FIRST_PARTITION = "part-00000-"
_LARGEST_READ = 1 << 20

_INFLATE: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".deflate": zlib.decompress,
}
_TEXT = frozenset({".csv", ".json", ".txt"})


def is_candidate(file: PlacedFile) -> bool:
    """Return whether a file may be without rows: for empty partitions, Spark writes a file only for the first."""
    return PurePosixPath(file.name).name.startswith(_FIRST_PARTITION) and file.size <= _LARGEST_READ


def holds_no_row(name: str, content: bytes, options: Mapping[str, str]) -> bool:
    """Return whether a part file certainly has no rows. Others are kept, since empty files do not disturb readers.

    Args:
        name: the file's name, which shows its format and compression.
        content: the whole file.
        options: the writer's options.
    """
    suffixes = PurePosixPath(name).suffixes
    if ".parquet" in suffixes:
        return _parquet_rows(content) == 0
    if ".orc" in suffixes:
        return _orc_rows(content) == 0
    if not suffixes or not _TEXT & set(suffixes):
        return False
    if suffixes[-1] not in _TEXT:
        inflate = _INFLATE.get(suffixes[-1])
        if inflate is None:
            return False
        content = inflate(content)
    return not content or (_has_header(suffixes, options) and content.find(b"\n") == len(content) - 1)


def _has_header(suffixes: list[str], options: Mapping[str, str]) -> bool:
    given = {key.lower(): value for key, value in options.items()}
    # With other line endings, a header with a line break cannot be recognised.
    return ".csv" in suffixes and given.get("header", "").lower() == "true" and "linesep" not in given


def _parquet_rows(content: bytes) -> int:
    from pyarrow import parquet

    return int(parquet.read_metadata(io.BytesIO(content)).num_rows)


def _orc_rows(content: bytes) -> int:
    from pyarrow import orc

    return int(orc.ORCFile(io.BytesIO(content)).nrows)
