"""Which records of the log are deleted, and that nothing written late in their place counts."""

from __future__ import annotations

import pytest
from tests.faulty_store import Fault, FaultyStore, ScriptedFaults
from tests.unit.protocol.life import JobEpoch, stored

from streamjob.ids import CheckpointId, Epoch, LogSeq, Owner
from streamjob.protocol.log.ownership import Claim
from streamjob.protocol.log.records import encode_record
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import StoreUnavailable


def test_the_log_is_pruned_up_to_the_oldest_retained_checkpoint(store: FaultyStore) -> None:
    first = JobEpoch(store)
    for content in "abc":
        first.checkpoint(content)
    second = JobEpoch(store, num_retained=2)
    second.checkpoint("d")
    second.collect()
    # Records 0 and 4 are the claims; checkpoints 3 and 4 are retained.
    assert stored(store, "log/") == {keys.log_record(LogSeq(seq)) for seq in (3, 4, 5)}
    second.checkpoint("e")
    second.checkpoint("f")
    second.collect()

    assert stored(store, "log/") == {keys.log_record(LogSeq(seq)) for seq in (6, 7)}
    third = JobEpoch(store)
    assert (third.claim.epoch, third.claim.last_seq, third.resolution.last_id) == (3, 8, 6)


def test_an_epoch_that_lasts_keeps_the_records_of_its_retained_checkpoints_and_no_others(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=2)
    for number in range(50):
        owner.checkpoint(str(number))
        owner.collect()

    assert len(stored(store, "log/")) == 2
    assert JobEpoch(store, num_retained=2).claim.below.epoch == 1


def test_what_was_not_pruned_is_pruned_with_the_next_checkpoint(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    owner.checkpoint("a")
    owner.collect()
    owner.checkpoint("b")
    store.plan = ScriptedFaults([None, Fault.BEFORE], verbs=["delete"])
    with pytest.raises(StoreUnavailable):
        owner.collect()
    owner.checkpoint("c")
    owner.collect()

    assert stored(store, "log/") == {keys.log_record(LogSeq(3))}


def pruned(store: FaultyStore) -> JobEpoch:
    """Return the owner of epoch 2, whose claim has number 2; only records 4 and above are left."""
    JobEpoch(store).checkpoint("a")
    owner = JobEpoch(store, num_retained=1)
    owner.checkpoint("b")
    owner.checkpoint("c")
    owner.collect()
    return owner


def completion_by(claim: Claim, seq: int, number: int, **changes: object) -> LogRecord:
    place = f"checkpoints/{claim.epoch}-{number}/manifest.json"
    fields = {"seq": LogSeq(seq), "kind": RecordKind.CHECKPOINT, "id": CheckpointId(number), "manifest": place}
    return claim.record.model_copy(update=fields | changes)


@pytest.mark.parametrize("seq", [2, 3])
@pytest.mark.parametrize(
    "who",
    [
        "completer of the epoch before",
        "completer of the epoch before in the same process",
        "claimer of the same epoch",
        "claimer of the next epoch",
    ],
)
def test_what_is_written_late_where_the_claim_was_pruned_does_not_count(store: FaultyStore, seq: int, who: str) -> None:
    owner = pruned(store)
    sleeper = owner.claim.record.model_copy(update={"seq": LogSeq(seq), "owner": Owner("sleeper")})
    if who == "completer of the epoch before":
        sleeper = completion_by(owner.claim, seq, 9, epoch=Epoch(1), owner=Owner("sleeper"))
    if who == "completer of the epoch before in the same process":
        sleeper = completion_by(owner.claim, seq, 9, epoch=Epoch(1))
    if who == "claimer of the next epoch":
        sleeper = sleeper.model_copy(update={"epoch": Epoch(3)})
    store.put(keys.log_record(LogSeq(seq)), encode_record(sleeper))

    below = JobEpoch(store).claim.below
    assert [record.seq for record in below.records] == [4]
    assert below.epoch == 2


def test_the_claim_that_comes_back_late_changes_nothing(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    owner.checkpoint("a")
    owner.collect()
    assert stored(store, "log/") == {keys.log_record(LogSeq(1))}
    store.put(keys.log_record(LogSeq(0)), encode_record(owner.claim.record))

    below = JobEpoch(store).claim.below
    assert [record.seq for record in below.records] == [1]
    assert (below.epoch, below.last_id) == (1, 1)
