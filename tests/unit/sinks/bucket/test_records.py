"""Records of commits that have begun."""

from __future__ import annotations

import itertools

import pytest

from streamjob.ids import CheckpointId
from streamjob.testing.memory_store import MemoryStore
from streamjob_runtime.sinks.bucket.records import CommitRecords
from streamjob_runtime.sinks.errors import UnreadableRecord


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
    assert len(store.bucket.objects) == 1099

    records.add(CheckpointId(1099), ["a"])

    assert len(store.bucket.objects) == 1000
    assert not records.covers(CheckpointId(99), ["a"])
    assert records.covers(CheckpointId(100), ["a"])
    assert records.covers(CheckpointId(1099), ["a"])
