"""The steps of a drain: the batches that begin, the previous event time, and a checkpoint's return to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamjob.ids import BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.protocol.emissions.channels import END_OF_TIME_MS
from streamjob.protocol.emissions.cuts import Batch, Emissions
from streamjob_runtime.chain.ending.gate import BatchRefused, EventTime, Gate
from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.forced_batch import drop_planned, is_flush, is_followed_by_flush
from streamjob_runtime.spark.checkpoint_dir.rewind import rewind_event_time

LEFT, RIGHT = OperatorUid("left"), OperatorUid("right")
FIRST, SECOND = ChainUid("first"), ChainUid("second")


def test_a_closed_gate_refuses_batches_behind_the_last_one_only() -> None:
    gate = Gate()
    gate.enter(BatchId(4))
    gate.close_behind(BatchId(4))
    gate.enter(BatchId(4))
    assert (gate.closed, gate.refused) == (True, False)
    with pytest.raises(BatchRefused, match=r"batch 5 .* batch 4"):
        gate.enter(BatchId(5))
    gate.close_behind(BatchId(4))
    assert gate.refused

    gate.open_for(BatchId(5))
    gate.enter(BatchId(5))
    assert not gate.refused


def test_event_time_is_remembered_from_before_the_drain_and_never_goes_back() -> None:
    event_time = EventTime({LEFT: "a", RIGHT: "b"}, {LEFT: 5})
    assert event_time.query() is None
    event_time.note(BatchId(0), {LEFT: 9, RIGHT: 7})
    event_time.note(BatchId(1), {LEFT: 8})
    event_time.freeze_behind(BatchId(2))
    event_time.note(BatchId(2), {LEFT: 10})
    event_time.note(BatchId(3), {LEFT: 11, RIGHT: END_OF_TIME_MS})

    assert event_time.inputs() == {LEFT: 10, RIGHT: 7}
    assert event_time.query() == 7


def test_an_input_that_had_ended_before_the_drain_stays_at_its_end() -> None:
    event_time = EventTime({LEFT: "a", RIGHT: "b"}, {})
    event_time.note(BatchId(0), {LEFT: 9, RIGHT: END_OF_TIME_MS})
    event_time.freeze_behind(BatchId(0))

    assert event_time.inputs() == {LEFT: 9, RIGHT: END_OF_TIME_MS}
    assert event_time.query() == 9


def test_a_query_without_event_time_has_no_watermark() -> None:
    assert EventTime({}, {}).query() is None


def _checkpoint(root: Path, committed: int, planned: int) -> Path:
    for log, last in (("offsets", planned), ("commits", committed)):
        (root / log).mkdir(parents=True)
        for batch in range(last + 1):
            field = "batchWatermarkMs" if log == "offsets" else "nextBatchWatermarkMs"
            content = json.dumps({field: END_OF_TIME_MS, "other": 1})
            (root / log / str(batch)).write_text(f"v1\n{content}" + ("\n{}\n-" if log == "offsets" else ""))
    return root


def test_the_plan_of_a_refused_batch_is_taken_back(tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path, committed=2, planned=3)
    drop_planned(checkpoint)
    drop_planned(checkpoint)

    assert sorted(file.name for file in (checkpoint / "offsets").iterdir()) == ["0", "1", "2"]


def test_a_query_that_has_committed_nothing_plans_its_first_batch_anew(tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path, committed=-1, planned=0)
    drop_planned(checkpoint)

    assert not list((checkpoint / "offsets").iterdir())


def test_event_time_goes_back_in_copies_of_the_last_entries_alone(tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path / "checkpoint", committed=2, planned=2)
    held = tmp_path / "held"
    held.hardlink_to(checkpoint / "commits" / "2")
    before = held.read_text()
    rewind_event_time(checkpoint, BatchId(2), 70)

    offsets = (checkpoint / "offsets" / "2").read_text().split("\n")
    assert json.loads(offsets[1]) == {"batchWatermarkMs": 70, "other": 1}
    assert (offsets[0], offsets[2:]) == ("v1", ["{}", "-"])
    commit = (checkpoint / "commits" / "2").read_text().split("\n")
    assert json.loads(commit[1]) == {"nextBatchWatermarkMs": 70, "other": 1}
    assert held.read_text() == before
    assert str(END_OF_TIME_MS) in (checkpoint / "commits" / "1").read_text()


def test_event_time_is_never_raised(tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path, committed=0, planned=0)
    rewind_event_time(checkpoint, BatchId(0), 5)
    rewind_event_time(checkpoint, BatchId(0), 70)

    assert '"nextBatchWatermarkMs":5' in (checkpoint / "commits" / "0").read_text()


def test_an_entry_of_another_form_is_not_rewound(tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path, committed=0, planned=0)
    (checkpoint / "offsets" / "0").write_text("v9\n[]")
    with pytest.raises(UnreadableCheckpointFile, match="offsets/0"):
        rewind_event_time(checkpoint, BatchId(0), 5)


@pytest.mark.parametrize(
    ("planned", "announced", "flush", "follows"),
    [(70, 80, False, False), (70, END_OF_TIME_MS, False, True), (END_OF_TIME_MS, END_OF_TIME_MS, True, False)],
)
def test_a_flush_is_the_batch_behind_that_which_announces_the_end_of_time(
    tmp_path: Path, planned: int, announced: int, *, flush: bool, follows: bool
) -> None:
    for log, content in (
        ("offsets", f'v1\n{{"batchWatermarkMs":{planned},"batchTimestampMs":1}}\n-'),
        ("commits", f'v1\n{{"nextBatchWatermarkMs":{announced}}}'),
    ):
        (tmp_path / log).mkdir()
        (tmp_path / log / "2").write_text(content)

    assert is_flush(tmp_path, BatchId(2)) is flush
    assert is_followed_by_flush(tmp_path, BatchId(2)) is follows


def test_a_drained_chain_has_ended_for_its_readers_but_not_for_who_restores_it() -> None:
    emissions = Emissions([FIRST, SECOND], [(FIRST, SECOND)])
    emissions.emit(FIRST, Batch(batch=BatchId(0)))
    emissions.end(FIRST, drained=True)
    end = emissions.frontier(FIRST, SECOND)
    emissions.emit(SECOND, Batch(batch=BatchId(0), consumed={FIRST: end}))
    assert emissions.input_ended(SECOND)
    assert emissions.input_drained(SECOND)
    emissions.end(SECOND, drained=True)

    cuts = {cut.chain: cut for cut in emissions.trigger(CheckpointId(1), seal=True).cuts}
    assert [cuts[chain].ended for chain in (FIRST, SECOND)] == [False, False]
    assert cuts[SECOND].ended_inputs == frozenset()
    assert (cuts[SECOND].consumed, cuts[SECOND].in_flight[FIRST]) == ({FIRST: end}, ())


def test_a_chain_that_has_finished_is_not_drained() -> None:
    emissions = Emissions([FIRST, SECOND], [(FIRST, SECOND)])
    emissions.end(FIRST)

    assert not emissions.input_drained(SECOND)
