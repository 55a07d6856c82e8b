"""A missing, altered or misplaced record of a log is damage: never a shorter log, and never a new job."""

from __future__ import annotations

import json

import pytest
from tests.faulty_store import FaultyStore
from tests.unit.protocol.life import JOB, JobEpoch, stored

from streamjob.errors import ExitCode
from streamjob.ids import Attempt, Key, LogSeq, Owner
from streamjob.protocol.log.deleting_garbage import CannotCollect
from streamjob.protocol.log.ownership import Identity, claim_log
from streamjob.protocol.log.records import LogDamaged, LogView, read
from streamjob.snapshot import keys
from streamjob.snapshot.sealing import Seal, check_seal, sealed
from streamjob.store.effects import drive


def crashed(store: FaultyStore) -> JobEpoch:
    """A job that died after its second claim; records 0 and 3 are the claims, 1 and 2 the checkpoints."""
    owner = JobEpoch(store)
    owner.checkpoint("a")
    owner.checkpoint("b")
    return JobEpoch(store)


def version_1(store: FaultyStore) -> None:
    """Let the log be one that a release before version 2 has written."""
    new = {"oldest", "lastId", "previous", "checksum", "manifestSize", "manifestSha256"}
    for key in sorted(stored(store, keys.LOG_PREFIX)):
        fields = json.loads(store.get(Key(key)))
        old = {name: value for name, value in fields.items() if name not in new}
        store.put(Key(key), json.dumps({**old, "formatVersion": 1}).encode())
    store.delete([Key(key) for key in stored(store, keys.COPIES_PREFIX)])


def seen(store: FaultyStore) -> LogView:
    return drive(store, read(JOB))


def record(seq: int) -> Key:
    return keys.log_record(LogSeq(seq))


def refused(store: FaultyStore, named: Key) -> str:
    """Check that no process reads or claims the log, and return the error; `named` is the object in the message."""
    before = stored(store, "")
    with pytest.raises(LogDamaged) as reading:
        drive(store, read(JOB))
    with pytest.raises(LogDamaged):
        drive(store, claim_log(Identity(job=JOB, owner=Owner("o"), attempt=Attempt(0)), 1.0))
    assert reading.value.exit_code is ExitCode.CANNOT_RESTORE
    # A store that lies once must not lead to a repair.
    assert reading.value.fix.index("streamjob snapshots verify") < reading.value.fix.index("streamjob log repair")
    assert "--from" in reading.value.fix
    assert named in reading.value.what
    assert stored(store, "") == before
    return reading.value.what


@pytest.mark.parametrize("version", [1, 2])
def test_a_log_without_its_newest_completion_is_not_that_of_a_new_job(store: FaultyStore, version: int) -> None:
    crashed(store)
    if version == 1:
        version_1(store)
    store.delete([record(2)])

    assert "does not exist" in refused(store, record(2))


@pytest.mark.parametrize("version", [1, 2])
def test_a_log_whose_last_claim_has_another_epoch_is_not_that_of_a_new_job(store: FaultyStore, version: int) -> None:
    crashed(store)
    if version == 1:
        version_1(store)
    store.put(record(3), store.get(record(3)).replace(b'"epoch": 2', b'"epoch": 7').replace(b'"epoch":2', b'"epoch":7'))

    refused(store, record(3))


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_a_record_that_is_missing_is_named(store: FaultyStore, seq: int) -> None:
    crashed(store)
    store.delete([record(seq)])

    assert "does not exist" in refused(store, record(seq))


def test_the_newest_record_of_a_pruned_log_that_is_lost_with_its_copy_is_named(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=2)
    for content in "abcd":
        owner.checkpoint(content)
        owner.collect()
    store.delete([record(4), keys.record_copy(LogSeq(4))])

    assert f"{record(4)} does not exist, nor its copy: {record(2)} is pruned" in refused(store, record(4))


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_every_altered_byte_of_a_record_is_noticed(store: FaultyStore, seq: int) -> None:
    crashed(store)
    content = store.get(record(seq))
    for position in range(len(content)):
        for altered in (content[position] ^ 1, ord(" ")):
            changed = content[:position] + bytes([altered]) + content[position + 1 :]
            if changed != content:
                store.put(record(seq), changed)
                with pytest.raises(LogDamaged, match=record(seq)):
                    drive(store, read(JOB))


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (
            b"<!DOCTYPE html><title>Log in</title>",
            "it is no JSON, and begins with '<!DOCTYPE html><title>Log in</title>'",
        ),
        (b"\x1f\x8b" + bytes(200), "begins with '\\x1f\ufffd\\x00"),
        (b"", "it is empty"),
    ],
)
def test_what_is_there_in_place_of_a_record_is_shown(content: bytes, shown: str, store: FaultyStore) -> None:
    crashed(store)
    store.put(record(2), content)

    assert shown in refused(store, record(2))


def test_a_record_in_the_place_of_another_one_is_named(store: FaultyStore) -> None:
    crashed(store)
    store.put(record(2), store.get(record(1)))

    assert "not the record of its number" in refused(store, record(2))


def test_a_whole_record_of_the_same_number_from_another_history_is_noticed(store: FaultyStore) -> None:
    owner = crashed(store)
    other = owner.claim.record.model_copy(
        update={"seq": 2, "epoch": 1, "oldest": 0, "last_id": 1, "previous": "0" * 64}
    )
    store.put(record(2), sealed(other.stored_fields()))

    assert f"{record(2)} is not the record that {record(3)} was written on top of" in refused(store, record(2))


def test_a_log_that_lost_all_its_records_is_not_that_of_a_new_job(store: FaultyStore) -> None:
    crashed(store)
    store.delete([Key(key) for key in stored(store, keys.LOG_PREFIX)])
    assert "has no record" in refused(store, Key(keys.LOG_PREFIX))

    store.delete([Key(key) for key in stored(store, keys.COPIES_PREFIX)])
    assert "has no record" in refused(store, Key(keys.LOG_PREFIX))


def test_the_lost_record_of_the_newest_checkpoint_is_known_from_its_copy(store: FaultyStore) -> None:
    owner = JobEpoch(store)
    owner.checkpoint("a")
    owner.checkpoint("b")
    store.delete([record(2)])

    assert keys.record_copy(LogSeq(2)) in refused(store, record(2))


def test_a_record_whose_writer_died_before_the_copy_is_as_good_as_any(store: FaultyStore) -> None:
    crashed(store)
    store.delete([Key(key) for key in stored(store, keys.COPIES_PREFIX)])

    assert [found.seq for found in seen(store).records] == [1, 2, 3]


def test_what_was_pruned_is_no_damage(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    for content in "abc":
        owner.checkpoint(content)
        owner.collect()

    assert stored(store, keys.LOG_PREFIX) == {record(3)}
    assert stored(store, keys.COPIES_PREFIX) == {keys.record_copy(LogSeq(3))}
    assert [found.seq for found in seen(store).records] == [3]


def test_nothing_is_deleted_behind_a_log_with_a_hole(store: FaultyStore) -> None:
    crashed(store)
    owner = JobEpoch(store, num_retained=2)
    owner.checkpoint("c")
    owner.checkpoint("d")
    owner.checkpoint("e")
    store.delete([record(6)])
    before = stored(store, "")

    with pytest.raises(CannotCollect, match=record(6)):
        owner.collect()
    assert stored(store, "") >= before

    owner.checkpoint("f")
    owner.checkpoint("g")
    assert owner.collect().manifests, "the hole lies below what the log needs by now"


def test_a_log_of_version_1_goes_on_in_version_2(store: FaultyStore) -> None:
    crashed(store)
    version_1(store)

    owner = JobEpoch(store)
    owner.checkpoint("c")
    owner.collect()

    view = seen(store)
    assert [(found.seq, found.format_version) for found in view.records] == [(2, 1), (3, 1), (4, 2), (5, 2)]
    assert view.oldest == 2
    store.delete([record(2)])
    refused(store, record(2))


def test_the_log_of_a_deleted_job_of_version_1_begins_anew(store: FaultyStore) -> None:
    """Its controller left a claim and nothing else."""
    crashed(store)
    version_1(store)
    store.delete([Key(key) for key in stored(store, "") if key != record(3)])

    assert JobEpoch(store).claim.epoch == 3


def test_the_checksum_is_that_of_all_bytes_before_it() -> None:
    content = sealed({"formatVersion": 2, "name": "ä"})

    assert check_seal(content) is Seal.WHOLE
    assert check_seal(content.replace(b"name", b"nams")) is Seal.BROKEN
    assert check_seal(content[:-1]) is Seal.ABSENT
    assert json.loads(content)["name"] == "ä"
