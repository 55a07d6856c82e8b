"""Giving a checkpoint up while a chain is still at work for it, without Spark and store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.failures import AbortReason
from streamjob.protocol.coordination.triggers import CheckpointProperties, SnapshotKind
from streamjob.protocol.emissions.cuts import Batch, Emissions
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import StoreUnavailable
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.checkpointing.checkpoints import Checkpoints
from streamjob_runtime.checkpointing.log_work import CheckpointListener

UID = ChainUid("chain")
FIVE = CheckpointId(5)
WITHIN = 10.0


class SlowAcknowledger:
    """Links files until it is let go; what becomes of the checkpoint meanwhile it does not look at."""

    def __init__(self, holds: Path) -> None:
        self._holds = holds
        self.began, self.go_on = threading.Event(), threading.Event()

    def hold_directory(self, checkpoint: CheckpointId) -> Path:
        return self._holds / str(checkpoint) / UID

    def acknowledge(self, checkpoint: CheckpointId, *_: Any, **__: Any) -> None:
        folder = self.hold_directory(checkpoint)
        folder.mkdir(parents=True)
        (folder / "first").touch()
        self.began.set()
        assert self.go_on.wait(WITHIN)
        (folder / "second").touch()
        raise StoreUnavailable("the store is away")


class Unheard(CheckpointListener):
    """Does nothing with what it hears."""

    def post(self, event: m.Event) -> None:
        pass

    def completed(self, action: m.CompleteCheckpoint, manifest: Manifest) -> None:
        pass

    def discarded(self, checkpoint: CheckpointId) -> None:
        pass


class FakeLedger:
    def __getattr__(self, name: str) -> Any:
        return self if name in ("log", "claim") else lambda *_: None

    def collect(self) -> tuple[CheckpointId, ...]:
        raise ValueError("this cannot be collected")


@pytest.fixture
def acknowledger(tmp_path: Path) -> SlowAcknowledger:
    return SlowAcknowledger(tmp_path)


@pytest.fixture
def checkpoints(tmp_path: Path, acknowledger: SlowAcknowledger) -> Iterator[Checkpoints]:
    emission = EmissionLock(Emissions([UID]))
    emission.emit(UID, Batch(batch=BatchId(0)))
    made = Checkpoints(
        acknowledgers={UID: cast("Any", acknowledger)},
        emission=emission,
        ledger=cast("Any", FakeLedger()),
        outputs=cast("Any", SimpleNamespace()),
        manifest_of=lambda action: cast("Any", SimpleNamespace(sinks=())),
        holds=tmp_path,
        clock=lambda: 0.0,
        listener=Unheard(),
    )
    yield made
    acknowledger.go_on.set()
    made.close()


def start(checkpoints: Checkpoints) -> m.StartCheckpoint:
    action = m.StartCheckpoint(
        id=FIVE, properties=CheckpointProperties(kind=SnapshotKind.CHECKPOINT), triggered=0.0, chains=(UID,)
    )
    checkpoints.start(action)
    return action


def test_files_are_held_until_whoever_links_them_has_ended_and_no_longer(
    checkpoints: Checkpoints, acknowledger: SlowAcknowledger, tmp_path: Path
) -> None:
    start(checkpoints)
    assert acknowledger.began.wait(WITHIN)

    checkpoints.abort(m.AbortCheckpoint(id=FIVE, reason=AbortReason.EXPIRED))
    still_there = (acknowledger.hold_directory(FIVE) / "first").exists()
    acknowledger.go_on.set()
    checkpoints.close()

    assert still_there
    assert not (tmp_path / str(FIVE)).exists()


def test_a_defect_in_work_beside_the_stream_is_told(
    checkpoints: Checkpoints, acknowledger: SlowAcknowledger, caplog: pytest.LogCaptureFixture
) -> None:
    acknowledger.go_on.set()
    started = start(checkpoints)
    completion = m.CompleteCheckpoint(id=FIVE, properties=started.properties, triggered=0.0, acknowledgements={})

    with caplog.at_level(logging.ERROR, "streamjob"):
        checkpoints.complete(completion)
        checkpoints.commit(m.CommitOutput(id=FIVE))
        checkpoints.close()

    assert "this cannot be collected" in caplog.text
