"""A process that restarts its job claims the log again, but only from itself."""

from __future__ import annotations

import pytest

from streamjob.errors import Superseded
from streamjob.ids import Attempt, Owner
from streamjob.protocol.log.ownership import Identity
from streamjob.protocol.log.records import JobId
from streamjob.store.base import Store
from streamjob.testing.memory_store import MemoryStore
from streamjob_runtime.checkpointing.ledger import Ledger


def claimed(store: Store, owner: str, *, attempt: int = 0, again: bool = False) -> Ledger:
    identity = Identity(job=JobId(namespace="default", name="job"), owner=Owner(owner), attempt=Attempt(attempt))
    return Ledger.claim(store, identity, lambda: 1.0, 3, again=again)


def test_a_restart_in_the_process_begins_the_next_epoch() -> None:
    store = MemoryStore()
    claimed(store, "a")

    assert claimed(store, "a", again=True).epoch == 2


def test_a_process_that_was_succeeded_does_not_take_the_log_back_when_it_restarts() -> None:
    store = MemoryStore()
    claimed(store, "a")
    claimed(store, "b")
    log = [info.key for info in store.list("log/")]

    with pytest.raises(Superseded, match="another owner has claimed the log of job default/job"):
        claimed(store, "a", again=True)

    assert [info.key for info in store.list("log/")] == log


def test_a_new_process_takes_the_log_over() -> None:
    store = MemoryStore()
    claimed(store, "a")

    assert claimed(store, "b").epoch == 2
