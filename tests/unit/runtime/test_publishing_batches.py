"""A sink that publishes each batch: what is published, compared, staged and forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import pytest
from pydantic import JsonValue

from streamjob.errors import JobFailed
from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.journal import BatchPlan, JournalRecord, ReplayDiverged, published_marker
from streamjob.sink import Measured, SinkContext, Staged
from streamjob_runtime.chain.emissions.publishing import BatchPublisher
from streamjob_runtime.spark.checkpoint_dir.forced_batch import END_OF_TIME_MS

UID = OperatorUid("out")


class Target:
    """A sink in memory: rows are strings, and the hash is the sum of their lengths."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.records: list[JournalRecord] = []
        self.staged: list[str] = []

    def open(self, context: SinkContext) -> None: ...

    def stage(self, batch: Any, batch_id: BatchId) -> Staged:
        self.staged += batch
        return Staged({"names": list(batch)}, len(batch))

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...

    def take_journal(self) -> None: ...

    def journal(self) -> Sequence[JournalRecord]:
        return self.records

    def journal_id(self) -> str:
        return "journal"

    def drop_journal(self) -> int:
        return 0

    def measure(self, batch: Any) -> Measured:
        return Measured(len(batch), sum(map(len, batch)))

    def publish(
        self, batch: Any, record: Callable[[Measured], JournalRecord], *, always: bool = False
    ) -> JournalRecord | None:
        if not batch and not always:
            return None
        made = record(self.measure(batch))
        self.rows += batch
        self.records.append(made)
        return made


def publisher(target: Target, *, publishes: bool = True, most: int = 100) -> BatchPublisher:
    return BatchPublisher(UID, target, Epoch(2), publishes=publishes, most=most)


def plan(batch: int, watermark_ms: int = 0) -> BatchPlan:
    return BatchPlan(version="v1", timestamp_ms=batch, watermark_ms=watermark_ms, sources=(str(batch),))


def stage(publisher: BatchPublisher, batch: int, *rows: str, watermark_ms: int = 0) -> Staged:
    return publisher.stage(cast(Any, list(rows)), BatchId(batch), lambda number: plan(number, watermark_ms))


def again(target: Target, *, has_state: bool = True, **options: Any) -> BatchPublisher:
    """Return the publisher of the next epoch, for which all batches run again."""
    made = publisher(target, **options)
    records = {each.batch: each for each in target.records}
    made.replay(records, max(records), has_state=has_state)
    return made


def test_rows_are_published_with_a_record_of_the_batch_and_of_those_without_rows_before_it() -> None:
    target = Target()
    mine = publisher(target)
    assert stage(mine, 0) == Staged(None, 0)
    assert stage(mine, 1, "a", "bc") == Staged(published_marker(BatchId(1)), 2, published=True)
    assert stage(mine, 2, "d") == Staged(published_marker(BatchId(2)), 1, published=True)
    assert target.rows == ["a", "bc", "d"]
    assert [(each.batch, list(each.plans), each.rows, each.hash) for each in target.records] == [
        (1, [0, 1], 2, 3),
        (2, [2], 1, 1),
    ]


def test_batches_that_run_again_with_the_same_rows_publish_nothing() -> None:
    target = Target()
    first = publisher(target)
    stage(first, 0)
    stage(first, 1, "a", "bc")
    second = again(target)
    # Their rows were counted when they were published.
    assert stage(second, 0) == Staged(None, 0, published=True)
    assert stage(second, 1, "bc", "a") == Staged(published_marker(BatchId(1)), 0, published=True)
    assert stage(second, 2, "d") == Staged(published_marker(BatchId(2)), 1, published=True)
    assert target.rows == ["a", "bc", "d"]


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (["a"], "another number of rows: 2 were published"),
        (["a", "bcd"], "other rows: 2 were published"),
        ([], "another number of rows"),
    ],
)
def test_a_batch_that_runs_again_with_other_rows_stops_the_job(rows: list[str], what: str) -> None:
    target = Target()
    stage(publisher(target), 1, "a", "bc")
    with pytest.raises(ReplayDiverged, match=f"sink out: batch 1 ran again and has {what}"):
        stage(again(target), 1, *rows)
    assert target.rows == ["a", "bc"]


def test_a_batch_that_had_no_rows_and_has_some_now_stops_the_job() -> None:
    target = Target()
    first = publisher(target)
    stage(first, 0)
    stage(first, 1, "a")
    with pytest.raises(ReplayDiverged, match="batch 0 ran again and has another number of rows: 0 were published"):
        stage(again(target), 0, "b")


def test_batches_without_state_are_not_computed_again() -> None:
    target = Target()
    first = publisher(target)
    stage(first, 0)
    stage(first, 1, "a", "bc")
    second = again(target, has_state=False)
    target.measure = partial(pytest.fail, "computed")  # type: ignore[method-assign]
    assert stage(second, 0, "b") == Staged(None, 0, published=True)
    assert stage(second, 1, "d") == Staged(published_marker(BatchId(1)), 0, published=True)
    assert target.rows == ["a", "bc"]


def test_a_batch_that_runs_again_for_another_sink_only_waits_for_its_checkpoint() -> None:
    target = Target()
    stage(publisher(target), 0, "a")
    second = publisher(target)
    second.replay({BatchId(0): target.records[0]}, BatchId(1), has_state=True)
    stage(second, 0, "a")

    # Nothing is published before that is committed: readers would see it too early.
    staged = [stage(second, number, row).committable for number, row in ((1, "b"), (2, "c"))]
    second.covered(staged[:1])
    staged.append(stage(second, 3, "d").committable)
    second.covered(staged)
    assert stage(second, 4, "e").published

    assert (target.rows, target.staged) == (["a", "e"], ["b", "c", "d"])


def test_the_flush_at_the_end_of_input_waits_for_its_checkpoint() -> None:
    target = Target()
    staged = stage(publisher(target), 3, "last", watermark_ms=END_OF_TIME_MS)
    assert staged.committable == {"names": ["last"]}
    assert target.rows == []


def test_a_sink_that_publishes_by_checkpoint_again_compares_what_it_has_published_and_stages_the_rest() -> None:
    target = Target()
    stage(publisher(target), 0, "a")
    now = again(target, publishes=False)
    assert stage(now, 0, "a").committable == published_marker(BatchId(0))
    assert stage(now, 1, "b").committable == {"names": ["b"]}
    assert target.rows == ["a"]


def test_many_batches_without_rows_get_a_record_of_their_own() -> None:
    target = Target()
    mine = publisher(target)
    for batch in range(1001):
        stage(mine, batch)
    assert [(each.batch, len(each.plans), each.rows) for each in target.records] == [(999, 1000, 0)]
    second = again(target)
    assert stage(second, 999).committable == published_marker(BatchId(999))


def test_a_full_journal_waits_until_a_checkpoint_covers_batches() -> None:
    mine = publisher(Target(), most=2)
    markers = [stage(mine, batch, "row").committable for batch in range(2)]
    went_on = threading.Event()

    def wait() -> None:
        mine.wait_for_room(BatchId(2), lambda: False, lambda: None)
        went_on.set()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert not went_on.wait(0.2)
    mine.covered(markers[:1])
    assert went_on.wait(10)


def test_a_full_journal_does_not_keep_a_job_from_stopping() -> None:
    mine = publisher(Target(), most=1)
    stage(mine, 0, "row")
    mine.wait_for_room(BatchId(1), lambda: True, lambda: None)


def test_a_full_journal_does_not_keep_its_batches_from_running_again() -> None:
    target = Target()
    first = publisher(target)
    for batch in range(3):
        stage(first, batch, "row")
    again(target, most=2).wait_for_room(BatchId(2), lambda: False, lambda: None)


def test_long_plans_of_batches_without_rows_get_a_record_before_kafka_refuses_it() -> None:
    target = Target()
    mine = publisher(target)
    for batch in range(5):
        long = BatchPlan(version="v1", timestamp_ms=batch, watermark_ms=0, sources=("x" * 60_000,))
        mine.stage(cast(Any, []), BatchId(batch), lambda number, long=long: long)  # type: ignore[misc]
    assert [(each.batch, list(each.plans)) for each in target.records] == [(3, [0, 1, 2, 3])]


def test_a_checkpoint_is_asked_for_when_the_journal_is_half_full() -> None:
    mine = publisher(Target(), most=4)
    asked: list[int] = []
    for batch in range(4):
        mine.wait_for_room(BatchId(batch), lambda: True, lambda batch=batch: asked.append(batch))  # type: ignore[misc]
        stage(mine, batch, "row")
    assert asked == [2, 3]


def test_rows_are_published_only_when_that_may_begin() -> None:
    target = Target()

    def begin() -> None:
        raise JobFailed("the chain was stopped")

    def publish(*rows: str) -> Staged:
        return publisher(target).stage(cast(Any, list(rows)), BatchId(0), plan, begin)

    assert publish() == Staged(None, 0)
    with pytest.raises(JobFailed):
        publish("row")
    assert (target.rows, target.records) == ([], [])
