"""The plan of a batch without data: the offsets stay, time and watermark never go back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import NotCommitted
from streamjob_runtime.spark.checkpoint_dir.forced_batch import (
    END_OF_TIME_MS,
    NO_WATERMARK_MS,
    brings_nothing,
    flush_watermark,
    force_batch,
    forced_entry,
    needs_another_flush,
)
from streamjob_runtime.spark.checkpoint_dir.logs import OffsetEntry, read_offsets

LAST = OffsetEntry("v1", {"batchWatermarkMs": 50, "batchTimestampMs": 1000, "conf": {"a": "b"}}, ('{"x":1}', "-"))


def test_the_offsets_and_settings_stay_and_the_announced_watermark_is_taken() -> None:
    entry = forced_entry(LAST, next_watermark_ms=70, timestamp_ms=2000)

    expected = {"batchWatermarkMs": 70, "batchTimestampMs": 2000, "conf": {"a": "b"}}
    assert entry == OffsetEntry("v1", expected, LAST.sources)


def test_time_and_watermark_never_go_back() -> None:
    entry = forced_entry(LAST, next_watermark_ms=10, timestamp_ms=5, watermark_ms=20)

    assert entry.metadata == LAST.metadata


def test_a_watermark_before_1970_is_later_than_that_of_a_first_batch() -> None:
    first = replace(LAST, metadata={**LAST.metadata, "batchWatermarkMs": 0})

    assert forced_entry(first, next_watermark_ms=-70, timestamp_ms=0).metadata["batchWatermarkMs"] == -70


@pytest.mark.parametrize(
    ("before", "now", "nothing"),
    [(0, NO_WATERMARK_MS, True), (0, -5, False), (NO_WATERMARK_MS, -5, False), (-5, 0, False), (0, 0, True)],
)
def test_a_batch_brings_something_if_its_watermark_has_moved_before_1970(before: int, now: int, nothing: bool) -> None:
    one, other = (replace(LAST, metadata={"batchWatermarkMs": each}) for each in (now, before))

    assert brings_nothing(one, other) is nothing


@pytest.mark.parametrize(
    ("change", "nothing"),
    [
        ({"metadata": {"batchWatermarkMs": 50, "batchTimestampMs": 9000}}, True),
        ({"metadata": {"batchWatermarkMs": 51, "batchTimestampMs": 9000}}, False),
        ({"sources": ('{"x":2}', "-")}, False),
    ],
)
def test_only_processing_time_asks_for_a_batch_without_data_and_with_the_same_watermark(
    change: dict[str, Any], nothing: bool
) -> None:
    assert brings_nothing(replace(LAST, **change), LAST) is nothing


def test_an_entry_is_rendered_as_it_was_read(tmp_path: Path) -> None:
    text = 'v1\n{"batchWatermarkMs":50,"batchTimestampMs":1000,"conf":{"a":"b"}}\n{"x":1}\n-'
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/4").write_text(text)

    assert read_offsets(tmp_path, BatchId(4)).render() == text


def test_a_checkpoint_without_a_committed_batch_has_nothing_to_force(tmp_path: Path) -> None:
    with pytest.raises(NotCommitted):
        force_batch(tmp_path, 0)


def test_each_flush_lies_behind_the_one_before_until_microseconds_overflow() -> None:
    watermarks = [1_700_000_000_000]
    while reached := flush_watermark(watermarks[-1]):
        watermarks.append(reached)

    assert watermarks[1] == END_OF_TIME_MS
    assert watermarks == sorted(set(watermarks))
    assert 20 < len(watermarks) < 40
    assert watermarks[-1] * 1000 < 2**63


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ({"numRowsUpdated": 0, "numRowsRemoved": 9}, False),
        ({"numRowsUpdated": 1}, True),
        ({"operatorName": "transformWithStateExec", "numRowsUpdated": 1}, True),
        ({"operatorName": "applyInPandasWithState", "numRowsUpdated": 1}, True),
        ({"operatorName": "stateStoreSave", "numRowsUpdated": 1, "numRowsRemoved": 1}, False),
        ({"numRowsUpdated": 0, "customMetrics": {"numRegisteredTimers": 1}}, True),
    ],
)
def test_only_an_operator_with_timers_that_took_something_in_may_need_another_flush(
    operator: dict[str, object], expected: bool
) -> None:
    assert needs_another_flush([{"numRowsUpdated": 0}, operator]) is expected
