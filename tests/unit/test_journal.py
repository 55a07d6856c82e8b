"""The journal of a sink that publishes each batch: what has to run again behind a checkpoint."""

from __future__ import annotations

import pytest

from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.journal import (
    BatchPlan,
    JournalIncomplete,
    JournalRecord,
    published_batch,
    published_marker,
    replay_of,
)

OUT, ALERTS = OperatorUid("out"), OperatorUid("alerts")


def plan(batch: int, position: int | None = None) -> BatchPlan:
    end = batch * 10 if position is None else position
    return BatchPlan(version="v1", timestamp_ms=batch, watermark_ms=0, sources=(f'{{"t":{{"0":{end}}}}}',))


def record(batch: int, *without_rows: int, position: int | None = None) -> JournalRecord:
    plans = {BatchId(each): plan(each) for each in without_rows} | {BatchId(batch): plan(batch, position)}
    return JournalRecord(epoch=Epoch(1), batch=BatchId(batch), plans=plans, rows=3, hash=batch)


def replayed(journals: dict[OperatorUid, list[JournalRecord]], behind: int) -> list[int]:
    return list(replay_of(journals, CheckpointId(7), BatchId(behind)).plans)


def test_batches_behind_the_checkpoint_run_again_and_those_before_it_do_not() -> None:
    assert replayed({OUT: [record(each) for each in (5, 3, 4, 6)]}, behind=4) == [5, 6]


def test_batches_without_rows_run_again_before_the_one_that_was_published() -> None:
    found = replay_of({OUT: [record(6, 4, 5)]}, CheckpointId(7), BatchId(3))
    assert list(found.plans) == [4, 5, 6]
    assert list(found.published[OUT]) == [6]


def test_what_one_sink_has_published_and_another_has_not_runs_again() -> None:
    found = replay_of({OUT: [record(4), record(5)], ALERTS: [record(4)]}, CheckpointId(7), BatchId(3))
    assert list(found.plans) == [4, 5]
    assert {sink: list(published) for sink, published in found.published.items()} == {OUT: [4, 5], ALERTS: [4]}


def test_an_empty_journal_leaves_nothing_to_run_again() -> None:
    assert replayed({OUT: []}, behind=3) == []


@pytest.mark.parametrize(
    ("records", "what"),
    [
        ([record(4), record(6)], "has batch 6, and lacks batch 5"),
        ([record(5)], "has batch 5, and lacks batch 4"),
        ([record(6, 5)], "has batch 5, and lacks batch 4"),
    ],
)
def test_a_journal_with_a_gap_behind_the_checkpoint_is_refused(records: list[JournalRecord], what: str) -> None:
    with pytest.raises(JournalIncomplete, match=f"sink out: its journal does not continue checkpoint 7: it {what}"):
        replayed({OUT: records}, behind=3)


def test_two_sinks_that_disagree_about_a_batch_are_refused() -> None:
    with pytest.raises(JournalIncomplete, match="another plan for batch 4 than the other sinks"):
        replayed({OUT: [record(4)], ALERTS: [record(4, position=41)]}, behind=3)


def test_a_record_and_a_marker_come_back_as_they_were() -> None:
    made = record(6, 4, 5)
    assert JournalRecord.model_validate_json(made.model_dump_json()) == made
    assert published_batch(published_marker(BatchId(6))) == 6
    assert published_batch({"names": ["a"], "rows": 1}) is None
