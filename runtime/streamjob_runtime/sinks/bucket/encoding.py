"""Encodes rows as the content of a file. Tasks do this in Python, since they upload what they encode."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

_SUFFIXES: Mapping[str, str] = {
    "snappy": ".snappy",
    "zstd": ".zstd",
    "gzip": ".gz",
    "bzip2": ".bz2",
    "deflate": ".deflate",
    "none": "",
}
_TEXT_SUFFIXES: Mapping[str, str] = {"csv": ".csv", "json": ".json", "text": ".txt"}
_COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    # Without a time, the same rows give the same bytes.
    "gzip": lambda content: gzip.compress(content, mtime=0),
    "bzip2": bz2.compress,
    "deflate": zlib.compress,
}


@dataclass(frozen=True, slots=True)
class Encoding:
    """How rows become a file.

    Args:
        file_format: `parquet`, or a format of lines: `csv`, `json`, `text`. Rows of these have a single column, the
            line.
        compression: `none`, or one of those in `streamjob.job.connectors.bucket_files`.
        metadata: entries for a Parquet file's footer.
        head: the first line of each file; None for none.
        line_end: what ends a line.
    """

    file_format: str
    compression: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    head: str | None = None
    line_end: str = "\n"

    @property
    def suffix(self) -> str:
        """The end of a file's name, as Spark's writers choose it."""
        shown = _SUFFIXES[self.compression]
        return f"{shown}.parquet" if self.file_format == "parquet" else f"{_TEXT_SUFFIXES[self.file_format]}{shown}"

    def encode(self, rows: pa.Table) -> memoryview:
        """Return the content of a file with these rows."""
        return self._parquet(rows) if self.file_format == "parquet" else self._lines(rows)

    def _parquet(self, rows: pa.Table) -> memoryview:
        sink = pa.BufferOutputStream()
        rows = rows.replace_schema_metadata(None)
        compression = "NONE" if self.compression == "none" else self.compression
        with parquet.ParquetWriter(sink, rows.schema, compression=compression, store_schema=False) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata(dict(self.metadata))
        return memoryview(sink.getvalue())

    def _lines(self, rows: pa.Table) -> memoryview:
        column = rows.column(0)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        text = pc.fill_null(column.cast(pa.large_string()), "")
        lines = pa.LargeListArray.from_arrays(pa.array([0, len(text)], pa.int64()), text)
        end = pa.scalar(self.line_end, pa.large_string())
        joined = pc.binary_join(lines, end)[0].as_py()
        head = "" if self.head is None else self.head + self.line_end
        return memoryview(_COMPRESS[self.compression](f"{head}{joined}{self.line_end}".encode()))
