"""A task's rows become uploads, or a message to the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc

from streamjob.ids import Epoch
from streamjob.store.base import StoreUnavailable
from streamjob.store.s3_connection import S3Settings
from streamjob.store.s3_uploads import PendingUpload
from streamjob_runtime.sinks.bucket.encoding import Encoding
from streamjob_runtime.sinks.bucket.writing import StagedFile, Target, UploadedFiles, split
from streamjob_runtime.sinks.rows.task_files import write_task


class Uploads:
    """Uploads in memory; the one after `allowed` parts fails."""

    def __init__(self, allowed: int = 1000) -> None:
        self.allowed = allowed
        self.parts: dict[str, list[bytes]] = {}
        self.aborted: list[str] = []

    def begin(self, key: str) -> PendingUpload:
        self.parts[key] = []
        return PendingUpload(key, f"upload of {key}")  # type: ignore[arg-type]

    def put_part(self, upload: PendingUpload, number: int, content: bytes) -> str:
        if sum(map(len, self.parts.values())) >= self.allowed:
            raise StoreUnavailable("down")
        self.parts[upload.key].append(bytes(content))
        assert number == len(self.parts[upload.key])
        return f"tag {number}"

    def abort(self, upload: PendingUpload) -> None:
        self.aborted.append(upload.key)


class MemoryTarget(Target):
    """A target whose uploads stay in memory."""

    def uploads(self) -> Any:
        return UPLOADS[0]


UPLOADS: list[Uploads] = []


@pytest.fixture
def uploads() -> Iterator[Uploads]:
    UPLOADS.append(Uploads())
    yield UPLOADS[0]
    UPLOADS.clear()


def target(*partitions: str, part_size: int = 1 << 20) -> Target:
    settings = S3Settings(part_size=part_size)
    return MemoryTarget(settings, "bucket", "out", Epoch(3), Encoding("text", "none"), partitions)


def batch(*lines: str, day: str | None = None) -> pa.RecordBatch:
    columns: dict[str, list[str | None]] = {"line": list(lines)}
    if day is not None:
        columns["p"] = [day] * len(lines)
    return pa.RecordBatch.from_pydict(columns)


def written(results: Iterator[pa.RecordBatch]) -> list[StagedFile]:
    rows = [row for each in results for row in each.to_pylist()]
    assert [row["rows"] for row in rows] == [None] * len(rows)
    return [StagedFile.model_validate_json(row["file"]) for row in rows]


def test_few_rows_go_to_the_driver_and_upload_nothing(uploads: Uploads) -> None:
    (result,) = write_task(iter([batch("a"), batch("b")]), UploadedFiles(target()), few=1000)
    (row,) = result.to_pylist()

    assert ipc.open_stream(row["rows"]).read_all().to_pydict() == {"line": ["a", "b"]}
    assert row["file"] is None
    assert uploads.parts == {}


def test_no_rows_are_no_result(uploads: Uploads) -> None:
    assert list(write_task(iter([batch()]), UploadedFiles(target()), few=1000)) == []


def test_many_rows_are_uploaded_in_parts_and_in_files_of_bounded_size(uploads: Uploads) -> None:
    results = write_task(iter([batch("aaaa", "bb"), batch("cc")]), UploadedFiles(target(part_size=5)), few=0, many=1)
    first, second = written(results)

    assert uploads.parts == {first.path: [b"aaaa\n", b"bb\n"], second.path: [b"cc\n"]}
    assert (first.size, first.rows, first.parts) == (8, 2, ("tag 1", "tag 2"))
    assert first.upload == f"upload of {first.path}"
    assert first.path.startswith("part-3-")
    assert first.path.endswith("-0.txt")
    assert second.path == first.path.replace("-0.txt", "-1.txt")


def test_each_attempt_of_a_task_writes_other_names(uploads: Uploads) -> None:
    for _ in range(2):
        written(write_task(iter([batch("a")]), UploadedFiles(target()), few=0))

    assert len(uploads.parts) == 2


def test_a_task_that_fails_aborts_its_uploads(uploads: Uploads) -> None:
    uploads.allowed = 1

    with pytest.raises(StoreUnavailable):
        list(write_task(iter([batch("a"), batch("b")]), UploadedFiles(target()), few=0, many=1))

    assert sorted(uploads.aborted) == sorted(uploads.parts)
    assert len(uploads.aborted) == 2


def test_partitions_become_directories_without_their_column(uploads: Uploads) -> None:
    batches = [batch("a", day="1"), batch("b", day="2"), batch("c", day="1")]
    files = written(write_task(iter(batches), UploadedFiles(target("day")), few=0))

    assert {file.path.partition("/")[0]: uploads.parts[file.path] for file in files} == {
        "day=1": [b"a\nc\n"],
        "day=2": [b"b\n"],
    }


def test_rows_keep_their_order_within_a_partition() -> None:
    rows = pa.table({"x": [5, 4, 3, 2, 1], "p": ["a", None, "a", None, "a"], "q": ["1", "1", "1", "2", "1"]})

    found = {tuple(values): part.to_pydict() for values, part in split(rows, 2)}

    assert found == {("a", "1"): {"x": [5, 3, 1]}, (None, "1"): {"x": [4]}, (None, "2"): {"x": [2]}}
