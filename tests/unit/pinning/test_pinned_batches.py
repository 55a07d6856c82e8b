"""Records of batches that cannot follow one another are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamjob.ids import NO_BATCH, BatchId, ChainUid
from streamjob_runtime.pinning.batches import PinnedBatch, WrongPinnedBatch, check_pinned, check_planned
from streamjob_runtime.spark.checkpoint_dir.forced_batch import END_OF_TIME_MS

CHAIN = ChainUid("totals")


def entry(*sources: str, watermark: int = 7, time: int = 9, partitions: int = 4) -> str:
    metadata = (
        f'{{"batchWatermarkMs":{watermark},"batchTimestampMs":{time},'
        f'"conf":{{"spark.sql.shuffle.partitions":"{partitions}"}}}}'
    )
    return "\n".join(("v1", metadata, *(sources or ('{"orders":{"0":5}}',))))


def pinned(batch: int, text: str | None = None) -> PinnedBatch:
    return PinnedBatch(BatchId(batch), entry() if text is None else text)


def test_batches_in_a_row_behind_the_restored_one_are_accepted() -> None:
    check_pinned(CHAIN, BatchId(4), 1, (pinned(5), pinned(6)))
    check_pinned(CHAIN, NO_BATCH, 2, (pinned(0, entry("{}", "-")),))
    check_pinned(CHAIN, BatchId(4), 1, ())


@pytest.mark.parametrize(
    ("batches", "batch", "problem"),
    [
        ((pinned(6),), 6, "batch 5 comes next"),
        ((pinned(5), pinned(7)), 7, "batch 6 comes next"),
        ((pinned(5), pinned(5)), 5, "batch 6 comes next"),
        ((pinned(5, entry("{}", "{}")),), 5, "its record has 2 positions, and the chain 1 sources"),
        ((pinned(5, "v9\n{}"),), 5, "its record cannot be read: unknown version 'v9'"),
        ((pinned(5, ""),), 5, "its record cannot be read: unknown version ''"),
        ((pinned(5, "v1\n{\n{}"),), 5, "its record cannot be read"),
        ((pinned(5, 'v1\n{"batchTimestampMs":1}\n{}'),), 5, "its record has no time or no watermark"),
        ((pinned(5, entry(watermark=END_OF_TIME_MS)),), 5, "it is the flush at the end of the input"),
    ],
)
def test_a_wrong_record_is_an_error_that_names_chain_and_batch(
    batches: tuple[PinnedBatch, ...], batch: int, problem: str
) -> None:
    with pytest.raises(WrongPinnedBatch, match="report it") as raised:
        check_pinned(CHAIN, BatchId(4), 1, batches)

    assert raised.value.what.startswith(f"Chain 'totals' cannot run batch {batch} as it ran before: {problem}")
    assert (raised.value.chain, raised.value.batch) == (CHAIN, batch)


def planned(directory: Path, batch: int, text: str) -> Path:
    (directory / "offsets").mkdir()
    (directory / "offsets" / str(batch)).write_text(text)
    return directory


def test_a_planned_batch_may_differ_in_the_settings_of_the_checkpoint(tmp_path: Path) -> None:
    check_planned(CHAIN, pinned(5), planned(tmp_path, 5, entry(partitions=7)))


@pytest.mark.parametrize("other", [entry('{"orders":{"0":6}}'), entry(watermark=8), entry(time=10)])
def test_a_planned_batch_with_other_offsets_time_or_watermark_is_refused(tmp_path: Path, other: str) -> None:
    with pytest.raises(WrongPinnedBatch, match="Spark has planned it as"):
        check_planned(CHAIN, pinned(5), planned(tmp_path, 5, other))
