"""The coordinator's events for failed completions: only certain failures count as not written."""

from __future__ import annotations

import queue
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.faulty_store import FaultyStore

from streamjob.ids import Attempt, ChainUid, CheckpointId, Key, Owner
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import CheckpointProperties, SnapshotKind
from streamjob.protocol.emissions.cuts import Emissions
from streamjob.protocol.log.creating import OutcomeUnknown
from streamjob.protocol.log.ownership import Identity
from streamjob.protocol.log.records import JobId
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import StoreDenied, StoreFull, StoreUnavailable
from streamjob.testing.memory_store import MemoryStore
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.checkpointing.checkpoints import Checkpoints
from streamjob_runtime.checkpointing.ledger import Ledger
from streamjob_runtime.checkpointing.log_work import CheckpointListener

JOB = JobId(namespace="default", name="job")
FIVE = CheckpointId(5)
WITHIN = 10.0


class FailingStore(MemoryStore):
    """Fails at chosen places."""

    fails_to_put: Exception | None = None
    fails_to_create: Exception | None = None

    def put(self, key: Key, content: bytes | Path) -> None:
        if self.fails_to_put is not None:
            raise self.fails_to_put
        super().put(key, content)

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        if self.fails_to_create is not None:
            raise self.fails_to_create
        return super().put_if_absent(key, content)


def claimed(store: MemoryStore | FaultyStore, owner: str = "owner") -> Ledger:
    ledger = Ledger.claim(store, Identity(job=JOB, owner=Owner(owner), attempt=Attempt(0)), lambda: 1.0, 1)
    ledger.log.begin(FIVE)
    return ledger


def manifest_of(ledger: Ledger) -> Manifest:
    return Manifest(
        job=JOB.name,
        namespace=JOB.namespace,
        id=FIVE,
        epoch=ledger.epoch,
        kind="checkpoint",
        triggered=0.0,
        completed=1.0,
        graph={},
    )


class Listener(CheckpointListener):
    """Queues the events."""

    def __init__(self, events: queue.SimpleQueue[m.Event]) -> None:
        self._events = events

    def post(self, event: m.Event) -> None:
        self._events.put(event)

    def completed(self, action: m.CompleteCheckpoint, manifest: Manifest) -> None:
        pass

    def discarded(self, checkpoint: CheckpointId) -> None:
        pass


def failure(ledger: Ledger, holds: Path, make: Callable[[Ledger], Manifest] = manifest_of) -> m.CompletionFailure:
    events: queue.SimpleQueue[m.Event] = queue.SimpleQueue()
    checkpoints = Checkpoints(
        acknowledgers={},
        emission=EmissionLock(Emissions([ChainUid("chain")])),
        ledger=ledger,
        outputs=cast("Any", SimpleNamespace()),
        manifest_of=lambda action: make(ledger),
        holds=holds,
        clock=lambda: 0.0,
        listener=Listener(events),
    )
    properties = CheckpointProperties(kind=SnapshotKind.CHECKPOINT)
    checkpoints.complete(m.CompleteCheckpoint(id=FIVE, properties=properties, triggered=0.0, acknowledgements={}))
    checkpoints.close()
    event = events.get(timeout=WITHIN)
    assert isinstance(event, m.CompletionFailed)
    return event.failure


@pytest.mark.parametrize("error", [StoreFull("full"), StoreDenied("denied")], ids=["full", "denied"])
def test_a_record_that_the_store_refused_was_not_written(error: Exception, tmp_path: Path) -> None:
    store = FailingStore()
    ledger = claimed(store)
    store.fails_to_create = error

    assert failure(ledger, tmp_path) is m.CompletionFailure.NOT_WRITTEN


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("a defect")], ids=["unavailable", "defect"])
def test_without_its_manifest_a_checkpoint_is_not_completed(error: Exception, tmp_path: Path) -> None:
    store = FailingStore()
    ledger = claimed(store)
    store.fails_to_put = error

    assert failure(ledger, tmp_path) is m.CompletionFailure.NOT_WRITTEN


def test_a_checkpoint_of_which_no_manifest_can_be_made_is_not_completed(tmp_path: Path) -> None:
    def fail(ledger: Ledger) -> Manifest:
        raise ValueError("a defect")

    assert failure(claimed(MemoryStore()), tmp_path, fail) is m.CompletionFailure.NOT_WRITTEN


def test_a_record_of_unknown_outcome_stays_unknown_at_the_end_of_the_epoch(tmp_path: Path) -> None:
    store = FailingStore()
    ledger = claimed(store)
    store.fails_to_create = StoreUnavailable("away")

    assert failure(ledger, tmp_path) is m.CompletionFailure.UNKNOWN


def test_a_defect_while_the_record_is_created_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    store = FailingStore()
    ledger = claimed(store)
    store.fails_to_create = ValueError("a defect")

    assert failure(ledger, tmp_path) is m.CompletionFailure.UNKNOWN


def test_a_defect_behind_the_record_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    store = MemoryStore()
    ledger = claimed(store)

    # It was completed without having been started, so its bookkeeping after the record fails.
    assert failure(ledger, tmp_path) is m.CompletionFailure.UNKNOWN
    assert claimed(store, "next").newest_manifest() == manifest_of(ledger)


def test_a_lost_log_is_told_as_lost(tmp_path: Path) -> None:
    store = MemoryStore()
    ledger = claimed(store)
    claimed(store, "successor")

    assert failure(ledger, tmp_path) is m.CompletionFailure.SUPERSEDED


def test_asking_again_completes_a_checkpoint_and_leaves_its_manifest_alone() -> None:
    inner = FailingStore()
    store = FaultyStore(inner)
    ledger = claimed(store)
    inner.fails_to_create = StoreUnavailable("away")
    with pytest.raises(OutcomeUnknown):
        ledger.complete(manifest_of(ledger))
    inner.fails_to_create = None
    store.delete([keys.manifest(ledger.epoch, FIVE)])

    ledger.complete(manifest_of(ledger))
    assert ledger.log.uri_of(manifest_of(ledger)) == store.uri + keys.manifest(ledger.epoch, FIVE)
    assert not list(store.list(keys.CHECKPOINTS_PREFIX))
