"""What the coordinator is told of a completion that did not succeed: only what certainly was not written, counts so."""

from __future__ import annotations

import queue
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.errors import Superseded
from streamjob.ids import ChainUid, CheckpointId
from streamjob.protocol import messages as m
from streamjob.protocol.cuts import Publications
from streamjob.protocol.ownership import OutcomeUnknown
from streamjob.protocol.triggers import CheckpointProperties, SnapshotKind
from streamjob.store.base import StoreDenied, StoreFull, StoreUnavailable
from streamjob_runtime.checkpoints import Checkpoints
from streamjob_runtime.publication import Publication

FIVE = CheckpointId(5)
WITHIN = 10.0


class Ledger:
    """Fails where it is told to."""

    def __init__(self, *, write: Exception | None = None, complete: Exception | None = None) -> None:
        self._write, self._complete = write, complete

    def write(self, manifest: object) -> None:
        if self._write is not None:
            raise self._write

    def complete(self, manifest: object) -> str:
        assert self._complete is not None
        raise self._complete


def failure(ledger: Ledger, holds: Path) -> m.CompletionFailure:
    events: queue.SimpleQueue[m.Event] = queue.SimpleQueue()
    checkpoints = Checkpoints(
        acknowledgers={},
        publication=Publication(Publications([ChainUid("chain")])),
        ledger=cast("Any", ledger),
        outputs=cast("Any", SimpleNamespace()),
        manifest_of=lambda action: cast("Any", SimpleNamespace(sinks=())),
        holds=holds,
        clock=lambda: 0.0,
        post=events.put,
        on_completed=lambda action, manifest: None,
        on_discarded=lambda checkpoint: None,
    )
    properties = CheckpointProperties(kind=SnapshotKind.CHECKPOINT)
    checkpoints.complete(m.CompleteCheckpoint(id=FIVE, properties=properties, triggered=0.0, acknowledgements={}))
    checkpoints.close()
    event = events.get(timeout=WITHIN)
    assert isinstance(event, m.CompletionFailed)
    return event.failure


@pytest.mark.parametrize("error", [StoreFull("full"), StoreDenied("denied")], ids=["full", "denied"])
def test_a_record_that_the_store_refused_was_not_written(error: Exception, tmp_path: Path) -> None:
    assert failure(Ledger(complete=error), tmp_path) is m.CompletionFailure.NOT_WRITTEN


def test_without_its_manifest_a_checkpoint_is_not_completed(tmp_path: Path) -> None:
    assert failure(Ledger(write=StoreUnavailable("away")), tmp_path) is m.CompletionFailure.NOT_WRITTEN


def test_a_record_of_unknown_outcome_stays_unknown_at_the_end_of_the_epoch(tmp_path: Path) -> None:
    assert failure(Ledger(complete=OutcomeUnknown("?")), tmp_path) is m.CompletionFailure.UNKNOWN


def test_a_defect_behind_the_record_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    assert failure(Ledger(complete=ValueError("a defect")), tmp_path) is m.CompletionFailure.UNKNOWN


def test_a_lost_log_is_told_as_lost(tmp_path: Path) -> None:
    assert failure(Ledger(complete=Superseded("lost")), tmp_path) is m.CompletionFailure.SUPERSEDED
