"""Staging of sinks in the store of their job's snapshots."""

from __future__ import annotations

import pickle
from hashlib import sha256
from pathlib import Path

import pytest

from streamjob.errors import StreamJobError
from streamjob.ids import Epoch, Key, OperatorUid
from streamjob.sink import SinkContext, StagedObject, StagedRowsGone
from streamjob.snapshot import keys
from streamjob.store.base import StoreError
from streamjob.store.local import LocalStore
from streamjob.store.staging import StoreStaging, StoreTaskStaging
from streamjob.testing.memory_store import MemoryStore

REPORT = OperatorUid("report")


def staging(store: MemoryStore, tmp_path: Path, *, sink: str = REPORT, epoch: int = 1) -> StoreStaging:
    return StoreStaging(store, OperatorUid(sink), Epoch(epoch), tmp_path / "scratch" / sink)


def test_what_one_epoch_staged_the_next_one_finds(tmp_path: Path) -> None:
    store = MemoryStore()
    name = staging(store, tmp_path).put(b"rows")

    assert staging(store, tmp_path, epoch=2).fetch(name, tmp_path / "rows")
    assert (tmp_path / "rows").read_bytes() == b"rows"


def test_the_content_may_be_a_file(tmp_path: Path) -> None:
    here = staging(MemoryStore(), tmp_path)
    (here.scratch / "batch").write_bytes(b"rows")

    assert here.fetch(here.put(here.scratch / "batch"), tmp_path / "rows")
    assert (tmp_path / "rows").read_bytes() == b"rows"


def test_tasks_stage_in_the_same_epoch_and_carry_no_credentials(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "a store")
    here = StoreStaging(store, REPORT, Epoch(7), tmp_path / "scratch")
    (tmp_path / "part").write_bytes(b"rows")
    in_task = pickle.loads(pickle.dumps(here.in_tasks()))

    names = [in_task.put(tmp_path / "part"), in_task.put(tmp_path / "part")]

    assert set(here.list()) == {StagedObject(name, Epoch(7)) for name in names}
    assert here.fetch(names[0], tmp_path / "rows")
    assert (tmp_path / "rows").read_bytes() == b"rows"
    assert in_task == StoreTaskStaging(store.uri, REPORT, Epoch(7))


def test_tasks_read_what_any_epoch_staged_and_nothing_that_is_gone_or_damaged(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "a store")
    here, later = (StoreStaging(store, REPORT, Epoch(epoch), tmp_path / "scratch") for epoch in (1, 2))
    kept, gone, damaged = (here.put(content) for content in (b"rows", b"gone", b"damaged"))
    here.delete([gone])
    store.put(keys.staged_object(REPORT, Epoch(1), damaged.partition("/")[2]), b"damageD")
    in_task = pickle.loads(pickle.dumps(later.in_tasks()))

    assert in_task.get(kept) == b"rows"
    with pytest.raises(StagedRowsGone, match=f"sink report: staged/report/{gone} is not in the store"):
        in_task.get(gone)
    with pytest.raises(StagedRowsGone, match=f"sink report: staged/report/{damaged} is damaged"):
        in_task.get(damaged)


def test_an_object_with_a_changed_byte_is_an_error_that_names_it(tmp_path: Path) -> None:
    store = MemoryStore()
    here = staging(store, tmp_path)
    name = here.put(b"rows")
    store.put(keys.staged_object(REPORT, Epoch(1), name.partition("/")[2]), b"rowt")

    hashes = f"its SHA-256 is {sha256(b'rowt').hexdigest()}, and was {sha256(b'rows').hexdigest()} when it was staged"
    with pytest.raises(StagedRowsGone, match=f"sink report: staged/report/{name} is damaged: {hashes}"):
        here.fetch(name, tmp_path / "rows")


def test_an_object_that_an_older_version_staged_without_a_hash_is_fetched(tmp_path: Path) -> None:
    store = MemoryStore()
    store.put(keys.staged_object(REPORT, Epoch(1), "ab" * 16), b"rows")

    assert staging(store, tmp_path).fetch(f"1/{'ab' * 16}", tmp_path / "rows")


def test_what_is_gone_is_told_and_no_error(tmp_path: Path) -> None:
    here = staging(MemoryStore(), tmp_path)
    name = here.put(b"rows")
    here.delete([name])
    here.delete([name])

    assert not here.fetch(name, tmp_path / "rows")


def test_objects_are_listed_with_the_epoch_that_staged_them(tmp_path: Path) -> None:
    store = MemoryStore()
    first, second = staging(store, tmp_path).put(b"1"), staging(store, tmp_path, epoch=12).put(b"2")

    assert set(staging(store, tmp_path, epoch=2).list()) == {
        StagedObject(first, Epoch(1)),
        StagedObject(second, Epoch(12)),
    }


def test_sinks_do_not_see_what_others_have_staged(tmp_path: Path) -> None:
    store = MemoryStore()
    staging(store, tmp_path, sink="report-2").put(b"rows")
    store.put(Key("staged/report/foreign"), b"")

    assert list(staging(store, tmp_path).list()) == []


def test_the_same_content_is_staged_under_names_of_its_own(tmp_path: Path) -> None:
    here = staging(MemoryStore(), tmp_path)

    assert here.put(b"rows") != here.put(b"rows")


@pytest.mark.parametrize("name", ["", "1", "../1/ab", "1/../ab", "1/ab/cd", "log/00000000000000000001.json"])
def test_a_name_never_leads_out_of_what_the_sink_has_staged(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="names nothing that sink report has staged"):
        staging(MemoryStore(), tmp_path).delete([name])


def test_the_keys_of_staged_objects_tell_their_epoch() -> None:
    assert keys.staged_object(REPORT, Epoch(3), "ab") == "staged/report/3/ab"
    assert keys.staged_ids(Key("staged/report/3/ab")) == (3, "ab")
    assert keys.staged_ids(Key("staged/report/ab")) is None


def test_a_sink_that_was_given_no_place_is_told_when_it_stages() -> None:
    context = SinkContext("job", "default", REPORT, Epoch(1), {})

    with pytest.raises(StreamJobError, match="without a place to stage at"):
        context.staging.put(b"rows")
