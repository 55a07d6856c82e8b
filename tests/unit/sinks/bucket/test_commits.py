"""A bucket sink's commits: the names of its objects, records of what has begun, and the work that is left."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from streamjob.ids import CheckpointId, Epoch
from streamjob.testing.memory_store import MemoryStore
from streamjob_runtime.sinks.bucket.layout import epoch_of, file_name, partition_directory, probe_key, record_key
from streamjob_runtime.sinks.bucket.records import CommitRecords, is_record_of
from streamjob_runtime.sinks.bucket.writing import StagedFile
from streamjob_runtime.sinks.errors import UnreadableRecord

UNIQUE = "0123456789abcdef" * 2


def test_a_files_name_tells_the_epoch_that_wrote_it() -> None:
    name = file_name(Epoch(12), UNIQUE, 3, ".snappy.parquet")

    assert name == f"part-12-{UNIQUE}-3.snappy.parquet"
    assert epoch_of(name) == 12
    assert epoch_of(f"day=2013-01-01/hour=5/{name}") == 12
    assert epoch_of(probe_key(Epoch(12), UNIQUE)) == 12


@pytest.mark.parametrize(
    "key", ["part-x.parquet", f"part-1-{UNIQUE[:-1]}-0.json", f"part-1-{UNIQUE}-0", "_streamjob/probe-1", "video.mp4"]
)
def test_an_upload_of_anybody_else_has_no_epoch(key: str) -> None:
    assert epoch_of(key) is None


def test_partition_directories_are_those_of_spark() -> None:
    values = ["a b", "x/y=%ü{}", "2013-01-01 06:17:00", None, ""]

    assert partition_directory(["a", "b", "at", "n", "e:"], values) == (
        "a=a b/b=x%2Fy%3D%25ü%7B}/at=2013-01-01 06%3A17%3A00/n=__HIVE_DEFAULT_PARTITION__/"
        "e%3A=__HIVE_DEFAULT_PARTITION__/"
    )
    assert partition_directory([], []) == ""


def test_records_sort_by_time_and_are_found_by_checkpoint_and_batch() -> None:
    earlier = record_key(999.9, CheckpointId(20), UNIQUE)
    later = record_key(1000.0, CheckpointId(3), UNIQUE)

    assert earlier < later
    assert is_record_of(later, CheckpointId(3), UNIQUE)
    assert not is_record_of(later, CheckpointId(3), UNIQUE[::-1])
    assert not is_record_of(record_key(1000.0, CheckpointId(13), UNIQUE), CheckpointId(3), UNIQUE)


def test_a_record_covers_its_batches_for_every_later_process() -> None:
    store = MemoryStore()
    CommitRecords(store, lambda: 7.0).add(CheckpointId(4), ["a", "b"])
    later = CommitRecords(store, lambda: 0.0)

    assert later.covers(CheckpointId(4), ["a", "b"])
    assert later.covers(CheckpointId(4), ["a"])
    assert not later.covers(CheckpointId(4), ["a", "b", "c"])
    assert not later.covers(CheckpointId(5), ["a"])
    assert not later.covers(CheckpointId(4), ["b"])


@pytest.mark.parametrize("content", [b"", b"{", b"null", b'{"formatVersion": 9, "checkpoint": 4, "batches": ["a"]}'])
def test_a_damaged_record_is_an_error_that_names_it(content: bytes) -> None:
    store = MemoryStore()
    records = CommitRecords(store, lambda: 7.0)
    records.add(CheckpointId(4), ["a"])
    (info,) = store.list("")
    store.put(info.key, content)

    with pytest.raises(UnreadableRecord, match=f"{info.key} cannot be read"):
        records.covers(CheckpointId(4), ["a"])
    assert [problem for problem in records.problems() if info.key in problem.what]


def test_the_oldest_records_are_deleted_a_hundred_at_a_time() -> None:
    store, times = MemoryStore(), itertools.count(1)
    former = CommitRecords(store, lambda: float(next(times)))
    for number in range(600):
        former.add(CheckpointId(number), ["a"])
    records = CommitRecords(store, lambda: float(next(times)))
    for number in range(600, 1099):
        records.add(CheckpointId(number), ["a"])
    assert len(store.objects) == 1099

    records.add(CheckpointId(1099), ["a"])

    assert len(store.objects) == 1000
    assert not records.covers(CheckpointId(99), ["a"])
    assert records.covers(CheckpointId(100), ["a"])
    assert records.covers(CheckpointId(1099), ["a"])


FILE = StagedFile(path="part-1-x-0.parquet", size=7, rows=1, upload="u", parts=("a", "b"))


@pytest.mark.parametrize(
    ("parts", "pending"),
    [
        ({1: "a", 2: "b"}, True),
        ({1: "a", 2: "b", 3: "of an attempt that failed"}, True),
        ({1: "a"}, False),
        ({1: "a", 2: "other"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_an_upload_waits_if_all_parts_of_the_file_are_there(parts: Mapping[int, str] | None, pending: bool) -> None:
    assert FILE.waits(parts) is pending
