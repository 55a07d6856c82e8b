"""The history of a file source, which Spark writes whole every ten batches, goes up by what is new of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamjob.ids import BatchId
from streamjob_runtime.checkpointing.upload.packing import LARGEST_PIECE
from streamjob_runtime.spark.checkpoint_dir.compaction import settle_intervals
from streamjob_runtime.spark.checkpoint_dir.hold import Hold, hold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from tests.integration.spark_checkpoint.conftest import Lab

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES_A_BATCH = 200
_NAME = "a-name-that-is-long-enough-for-a-history-of-several-pieces"

_LOGS = 32 * 1024
"""More than all other files of such a query have, in bytes."""


def put(folder: Path, numbers: range) -> None:
    """Add files of one line each, in the order in which they are to be read."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        file = folder / f"{_NAME}-{number:06}.txt"
        file.write_text(str(number))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def lines(lab: Lab, folder: Path, files_a_batch: int = FILES_A_BATCH) -> DataFrame:
    reader = lab.spark.readStream.format("text").option("maxFilesPerTrigger", files_a_batch)
    return reader.load(str(folder))


def compacted(held: Hold) -> Path:
    (log,) = (held.directory / path for path in held.files if path.endswith(".compact"))
    return log


def stored_bytes(lab: Lab) -> int:
    return sum(info.size for info in lab.store.list(""))


def test_a_restarted_source_reads_on_behind_its_history_of_which_only_the_end_was_uploaded_again(lab: Lab) -> None:
    folder, checkpoint = lab.root / "many", lab.directory()
    put(folder, range(20 * FILES_A_BATCH))
    holds: list[Hold] = []

    def hold_behind_the_first_compaction(number: int) -> None:
        if number == 11:
            holds.append(hold(checkpoint, BatchId(10), lab.directory("hold")))

    read = lab.run(lines(lab, folder), checkpoint, before_batch=hold_behind_the_first_compaction)
    holds.append(hold(checkpoint, BatchId(max(read.rows)), lab.directory("hold")))
    early, late = (compacted(held).read_bytes() for held in holds)
    assert late.startswith(early)
    assert len(early) > LARGEST_PIECE

    lab.restore(holds[0])
    before = stored_bytes(lab)
    restored = lab.restore(holds[1])

    assert (restored / compacted(holds[1]).relative_to(holds[1].directory)).read_bytes() == late
    whole = len(early) // LARGEST_PIECE * LARGEST_PIECE
    assert 0 < stored_bytes(lab) - before < len(late) - whole + _LOGS
    put(folder, range(20 * FILES_A_BATCH, 20 * FILES_A_BATCH + 50))
    again = lab.run(lines(lab, folder), restored)
    assert sorted(int(row[0]) for row in again.all_rows()) == list(range(20 * FILES_A_BATCH, 20 * FILES_A_BATCH + 50))


def test_a_source_finds_its_compactions_however_often_it_restarts_from_cuts(lab: Lab) -> None:
    folder, checkpoint = lab.root / "files", lab.directory()
    total = 0
    # Spark would find `19.compact` alone, compact every 20 entries from then on, and look for `49.compact` at last.
    for count in (25, 30, 5):
        put(folder, range(total, total + count))
        read = lab.run(lines(lab, folder, 1), checkpoint)
        assert sorted(int(row[0]) for row in read.all_rows()) == list(range(total, total + count))
        total += count
        checkpoint = lab.restore(hold(checkpoint, BatchId(max(read.rows)), lab.directory("hold")))
        settle_intervals(checkpoint)
