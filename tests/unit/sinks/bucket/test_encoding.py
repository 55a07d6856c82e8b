"""Rows become the content of a file."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyarrow import parquet

from streamjob_runtime.sinks.bucket.encoding import Encoding

LINES = pa.table({"line": pa.chunked_array([["1,a", None], ['2,"\u2603\n"']], pa.string())})


def test_lines_are_joined_and_null_is_an_empty_line() -> None:
    assert bytes(Encoding("text", "none").encode(LINES)) == '1,a\n\n2,"\u2603\n"\n'.encode()


def test_each_file_begins_with_the_head_and_ends_lines_as_told() -> None:
    encoding = Encoding("csv", "none", head="n,x", line_end="\r\n")

    assert bytes(encoding.encode(LINES.slice(0, 1))) == b"n,x\r\n1,a\r\n"


@pytest.mark.parametrize(
    ("compression", "suffix", "inflate"),
    [
        ("none", ".json", bytes),
        ("gzip", ".json.gz", gzip.decompress),
        ("bzip2", ".json.bz2", bz2.decompress),
        ("deflate", ".json.deflate", zlib.decompress),
    ],
)
def test_lines_are_compressed(compression: str, suffix: str, inflate: Callable[[bytes], bytes]) -> None:
    encoding = Encoding("json", compression)

    assert encoding.suffix == suffix
    assert inflate(bytes(encoding.encode(LINES.slice(0, 1)))) == b"1,a\n"


@pytest.mark.parametrize(
    ("compression", "suffix", "stored"),
    [
        ("snappy", ".snappy.parquet", "SNAPPY"),
        ("gzip", ".gz.parquet", "GZIP"),
        ("zstd", ".zstd.parquet", "ZSTD"),
        ("none", ".parquet", "UNCOMPRESSED"),
    ],
)
def test_a_parquet_file_has_the_rows_and_the_metadata(compression: str, suffix: str, stored: str) -> None:
    rows = pa.table({"id": pa.array([1, 2, None], pa.int64())}, metadata={b"of": b"spark"})
    encoding = Encoding("parquet", compression, {"org.apache.spark.version": "4"})
    content = bytes(encoding.encode(rows))
    footer = parquet.read_metadata(io.BytesIO(content))

    assert encoding.suffix == suffix
    assert parquet.read_table(io.BytesIO(content)).to_pydict() == {"id": [1, 2, None]}
    assert footer.row_group(0).column(0).compression == stored
    assert footer.metadata == {b"org.apache.spark.version": b"4"}
