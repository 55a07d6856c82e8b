"""A chain's way from its cut to its acknowledgement, without Spark and store."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.protocol.emissions.cuts import Batch, ChainCut, Emissions
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.checkpointing import acknowledging
from streamjob_runtime.checkpointing.acknowledging import Acknowledger, Nodes
from streamjob_runtime.checkpointing.upload.uploader import Progress

UID = ChainUid("chain")


class Held(Exception):
    """The files of the cut are being held."""


def test_the_files_of_a_cut_are_held_once_spark_has_committed_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [True, False, False]

    def is_committed(batch: BatchId) -> bool:
        assert batch == 0
        return answers.pop()

    def hold(*_: object, **__: object) -> None:
        raise Held

    monkeypatch.setattr(acknowledging, "hold", hold)
    emission = EmissionLock(Emissions([UID]))
    cuts: list[ChainCut] = []
    emission.on_cut = lambda checkpoint, cut: cuts.append(cut)
    emission.emit(UID, Batch(batch=BatchId(0)))
    emission.trigger(CheckpointId(1), seal=False, unaligned=False)
    chain = SimpleNamespace(
        uid=UID, checkpoint=tmp_path, is_committed=is_committed, dataflow=SimpleNamespace(directories=())
    )

    with pytest.raises(Held):
        Acknowledger(cast("Any", chain), Nodes((), (), ()), {}, emission).acknowledge(
            CheckpointId(1), cuts[0], directory=tmp_path / "held", target=cast("Any", None), progress=Progress()
        )

    assert answers == []
