"""Which part files are known to hold no row."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Mapping

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from streamjob_runtime.sinks.files.empty_part_files import holds_no_row, is_candidate
from streamjob_runtime.sinks.files.file_systems import PlacedFile

HEADER: Mapping[str, str] = {"header": "true"}


def table(rows: int) -> pa.Table:
    return pa.table({"id": pa.array(range(rows), pa.int64())})


def parquet_file(rows: int) -> bytes:
    content = io.BytesIO()
    parquet.write_table(table(rows), content)
    return content.getvalue()


def orc_file(rows: int) -> bytes:
    content = io.BytesIO()
    orc.write_table(table(rows), content)
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("part-00000-a-c000.snappy.parquet", parquet_file(0), {}),
        ("part-00000-a-c000.snappy.orc", orc_file(0), {}),
        ("part-00000-a-c000.csv", b"", {}),
        ("part-00000-a-c000.csv", b"id,name\n", HEADER),
        ("part-00000-a-c000.csv", b"id,name\n", {"HEADER": "TRUE"}),
        ("part-00000-a-c000.csv.gz", gzip.compress(b"id,name\n", mtime=0), HEADER),
        ("part-00000-a-c000.json", b"", {}),
        ("part-00000-a-c000.json.gz", gzip.compress(b"", mtime=0), {}),
        ("part-00000-a-c000.json.bz2", bz2.compress(b""), {}),
        ("part-00000-a-c000.json.deflate", zlib.compress(b""), {}),
        ("part-00000-a-c000.txt", b"", {}),
        ("p=1.5/part-00000-a.c000.csv", b"", {}),
    ],
)
def test_a_file_without_rows_is_recognized(name: str, content: bytes, options: Mapping[str, str]) -> None:
    assert holds_no_row(name, content, options)


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("part-00000-a-c000.snappy.parquet", parquet_file(1), {}),
        ("part-00000-a-c000.snappy.orc", orc_file(1), {}),
        ("part-00000-a-c000.csv", b"1,a\n", {}),
        ("part-00000-a-c000.csv", b"\n", {}),
        ("part-00000-a-c000.csv", b"id,name\n1,a\n", HEADER),
        ("part-00000-a-c000.csv", b"id\n\n", HEADER),
        ("part-00000-a-c000.csv", b'"a\nb"\n', HEADER),
        ("part-00000-a-c000.csv", b"id|1|", {**HEADER, "lineSep": "|"}),
        ("part-00000-a-c000.csv", b"id|1|\n", {**HEADER, "lineSep": "|"}),
        ("part-00000-a-c000.csv.gz", gzip.compress(b"id,name\n1,a\n", mtime=0), HEADER),
        ("part-00000-a-c000.json", b"{}\n", {}),
        ("part-00000-a-c000.json.gz", gzip.compress(b"{}\n", mtime=0), {}),
        ("part-00000-a-c000.txt", b"\n", {}),
    ],
)
def test_a_file_with_a_row_is_kept(name: str, content: bytes, options: Mapping[str, str]) -> None:
    assert not holds_no_row(name, content, options)


@pytest.mark.parametrize("name", ["part-00000-a-c000.json.snappy", "part-00000-a-c000", "part-00000-a-c000.avro"])
def test_a_file_that_cannot_be_judged_is_kept(name: str) -> None:
    assert not holds_no_row(name, b"", {})


def test_only_the_first_partitions_small_files_are_looked_into() -> None:
    assert is_candidate(PlacedFile("p=1/part-00000-a.c000.csv", 10, ""))
    assert not is_candidate(PlacedFile("part-00001-a-c000.csv", 10, ""))
    assert not is_candidate(PlacedFile("part-00000-a-c000.csv", 2 << 20, ""))
