"""Changes of the number of state partitions if there is no state to rewrite."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from streamjob.ids import BatchId, ChainUid
from streamjob_runtime.restoring.rewriting import NeedsOneDisk, RestoredChain, keep_partitions, rewrite_state
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets

NO_SPARK: Any = None
"""Nothing is asked of it."""


@pytest.fixture
def chain(tmp_path: Path) -> RestoredChain:
    """A chain without state after batch 4, restored by a hard link to files of the previous epoch."""
    held, checkpoint = tmp_path / "held", tmp_path / "checkpoint"
    for log in ("offsets", "commits"):
        (checkpoint / log).mkdir(parents=True)
    metadata = {"batchWatermarkMs": 7, "conf": {"spark.sql.shuffle.partitions": "2", "spark.other": "x"}}
    held.write_text(f'v1\n{json.dumps(metadata)}\n{{"logOffset":3}}')
    os.link(held, checkpoint / "offsets" / "4")
    (checkpoint / "commits" / "4").write_text('v2\n{"nextBatchWatermarkMs":9,"stateUniqueIds":{}}')
    return RestoredChain(ChainUid("clean"), checkpoint, "job:///clean/checkpoint", BatchId(4))


def test_a_chain_without_state_goes_on_behind_its_batch_with_the_new_number(
    chain: RestoredChain, tmp_path: Path
) -> None:
    before = (tmp_path / "held").read_text()

    assert rewrite_state(NO_SPARK, [chain], 4) == {"clean": 4}

    entry = read_offsets(chain.checkpoint, chain.batch)
    assert entry.metadata == {"batchWatermarkMs": 7, "conf": {"spark.sql.shuffle.partitions": "4", "spark.other": "x"}}
    assert entry.sources == ('{"logOffset":3}',)
    assert (tmp_path / "held").read_text() == before


def test_a_chain_that_has_the_number_is_left_alone(chain: RestoredChain) -> None:
    before = (chain.checkpoint / "offsets" / "4").read_text()

    assert rewrite_state(NO_SPARK, [chain], 2) == {}

    assert (chain.checkpoint / "offsets" / "4").read_text() == before


def test_state_that_other_processes_have_keeps_its_number_and_a_chain_without_state_takes_the_new_one(
    chain: RestoredChain,
) -> None:
    keep_partitions([chain], 4)
    assert read_offsets(chain.checkpoint, chain.batch).partitions == 4

    (chain.checkpoint / "commits" / "4").write_text('v2\n{"nextBatchWatermarkMs":9,"stateUniqueIds":{"0":[["a"]]}}')
    with pytest.raises(NeedsOneDisk, match="has 4 partitions and not 2"):
        keep_partitions([chain], 2)
