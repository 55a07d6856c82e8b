"""Uploaded files come back byte by byte, or the restore names the wrong object."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from streamjob.errors import CannotRestore
from streamjob.ids import BatchId, Epoch, Key
from streamjob.snapshot.keys import shared_file
from streamjob.snapshot.manifest import FileRef
from streamjob.store.base import Store, StoreUnavailable
from streamjob.store.local import LocalStore
from streamjob_runtime.checkpointing.upload.packing import known_files
from streamjob_runtime.checkpointing.upload.repacking import FAN
from streamjob_runtime.checkpointing.upload.uploader import HeldFileChanged, Progress, UploadCancelled, Uploader
from streamjob_runtime.restoring.download import (
    SnapshotFileCorrupt,
    SnapshotFileMissing,
    UnsafePath,
    download,
    merge_reads,
)
from streamjob_runtime.spark.checkpoint_dir.files import CutFiles
from streamjob_runtime.spark.checkpoint_dir.hold import Hold

CONTENTS = {
    "metadata": b"{}",
    "offsets/3": b"v1\noffsets",
    "state/0/0/_metadata/schema": b"schema",
    "state/0/1/_metadata/schema": b"schema",
    "state/0/0/4_a.changelog": b"small",
    "state/0/0/5_b.changelog": b"",
    "state/0/0/SSTs/000008-c.sst": bytes(range(256)) * 2000,
}


class RecordingStore(LocalStore):
    """A local directory that records reads and writes, and fails at chosen places."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.puts: list[Key] = []
        self.reads: list[tuple[Key, int, int]] = []
        self.before_put: Callable[[], object] = lambda: None

    def put(self, key: Key, content: bytes | Path) -> None:
        self.before_put()
        self.puts.append(key)
        super().put(key, content)

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        self.reads.append((key, offset, length))
        return super().get_range(key, offset, length)


@pytest.fixture
def store(tmp_path: Path) -> RecordingStore:
    return RecordingStore(tmp_path / "store")


def hold_of(directory: Path, contents: dict[str, bytes]) -> Hold:
    for path, content in contents.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(content)
    unique = tuple(path for path in contents if "." in path)
    return Hold(directory, CutFiles(BatchId(3), unique, tuple(path for path in contents if "." not in path)))


def upload(
    store: Store, hold: Hold, known: tuple[FileRef, ...] = (), progress: Progress | None = None
) -> tuple[FileRef, ...]:
    uploader = Uploader(store, threads=1)
    try:
        return uploader.upload(hold, known_files(known), partial(shared_file, Epoch(4)), progress)
    finally:
        uploader.close()


def test_what_was_uploaded_is_restored_byte_by_byte(tmp_path: Path, store: RecordingStore) -> None:
    refs = upload(store, hold_of(tmp_path / "hold", CONTENTS))
    statistics = download(refs, lambda name: (store, Key(name)), tmp_path / "new")

    assert {path: (tmp_path / "new" / path).read_bytes() for path in CONTENTS} == CONTENTS
    assert statistics.downloaded_bytes == sum(map(len, CONTENTS.values()))


def test_objects_are_named_by_their_own_hash_and_references_by_the_file_s(
    tmp_path: Path, store: RecordingStore
) -> None:
    refs = upload(store, hold_of(tmp_path / "hold", CONTENTS))

    for key in store.puts:
        assert key.endswith(hashlib.sha256(store.get(key)).hexdigest())
    assert {ref.path: ref.sha256 for ref in refs} == {
        path: hashlib.sha256(content).hexdigest() for path, content in CONTENTS.items()
    }


def test_small_files_share_an_object_and_are_read_back_with_one_request_each_object(
    tmp_path: Path, store: RecordingStore
) -> None:
    refs = upload(store, hold_of(tmp_path / "hold", CONTENTS))
    download(refs, lambda name: (store, Key(name)), tmp_path / "new")

    assert len(store.puts) == 3  # lasting small files, short-lived small files, the large SST
    assert len(store.reads) == 3


def test_the_next_checkpoint_uploads_only_what_is_new(tmp_path: Path, store: RecordingStore) -> None:
    first = upload(store, hold_of(tmp_path / "hold", CONTENTS))
    store.puts.clear()
    progress = Progress()

    second = upload(store, hold_of(tmp_path / "hold2", {**CONTENTS, "offsets/3": b"v1\nmore"}), first, progress)

    assert len(store.puts) == 1
    statistics = progress.statistics()
    assert (statistics.objects, statistics.upload_bytes) == (1, 7)
    assert statistics.total_bytes == sum(ref.length for ref in second)


def test_a_cancelled_upload_stops_before_its_next_object(tmp_path: Path, store: RecordingStore) -> None:
    progress = Progress()
    store.before_put = progress.cancel

    with pytest.raises(UploadCancelled):
        upload(store, hold_of(tmp_path / "hold", CONTENTS), progress=progress)

    assert len(store.puts) == 1


def test_a_store_that_fails_ends_the_upload_with_its_error(tmp_path: Path, store: RecordingStore) -> None:
    def fail() -> None:
        raise StoreUnavailable("away")

    store.before_put = fail

    with pytest.raises(StoreUnavailable):
        upload(store, hold_of(tmp_path / "hold", CONTENTS))


def test_several_chains_upload_at_a_time(tmp_path: Path, store: RecordingStore) -> None:
    both_are_writing = threading.Barrier(2, timeout=20)
    store.before_put = both_are_writing.wait
    uploader = Uploader(store, threads=2)
    holds = [hold_of(tmp_path / f"hold{n}", {"metadata": b"%d" % n}) for n in range(2)]
    threads = [
        threading.Thread(target=uploader.upload, args=(held, {}, partial(shared_file, Epoch(1)))) for held in holds
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    uploader.close()

    assert len(store.puts) == 2


def test_files_that_are_still_held_are_linked_and_not_downloaded(tmp_path: Path, store: RecordingStore) -> None:
    refs = upload(store, hold_of(tmp_path / "hold", CONTENTS))

    statistics = download(refs, lambda name: (store, Key(name)), tmp_path / "new", [tmp_path / "hold"])

    assert not store.reads
    assert statistics.downloaded_bytes == 0
    assert (tmp_path / "new/metadata").samefile(tmp_path / "hold/metadata")


def test_a_held_file_with_another_content_is_downloaded(tmp_path: Path, store: RecordingStore) -> None:
    refs = upload(store, hold_of(tmp_path / "hold", CONTENTS))
    (tmp_path / "hold/offsets/3").write_bytes(b"v1\nOFFSETS")

    download(refs, lambda name: (store, Key(name)), tmp_path / "new", [tmp_path / "hold"])

    assert (tmp_path / "new/offsets/3").read_bytes() == b"v1\noffsets"


def test_a_changed_object_is_named_with_its_file(tmp_path: Path, store: RecordingStore) -> None:
    refs = upload(store, hold_of(tmp_path / "hold", {"metadata": b"right"}))
    store.put(Key(refs[0].object), b"wrong")

    with pytest.raises(SnapshotFileCorrupt, match=rf"metadata.*{refs[0].object}"):
        download(refs, lambda name: (store, Key(name)), tmp_path / "new")


def test_a_missing_object_is_named_with_its_file(tmp_path: Path, store: RecordingStore) -> None:
    refs = upload(store, hold_of(tmp_path / "hold", CONTENTS))
    store.delete([Key(refs[0].object)])

    with pytest.raises(SnapshotFileMissing, match=refs[0].object) as caught:
        download(refs, lambda name: (store, Key(name)), tmp_path / "new")
    assert isinstance(caught.value, CannotRestore)


def test_a_shortened_object_is_named_with_its_file(tmp_path: Path, store: RecordingStore) -> None:
    refs = upload(store, hold_of(tmp_path / "hold", {"metadata": b"right"}))
    store.put(Key(refs[0].object), b"r")

    with pytest.raises(SnapshotFileMissing, match="does not hold the whole file metadata"):
        download(refs, lambda name: (store, Key(name)), tmp_path / "new")


@pytest.mark.parametrize("paths", [["../outside"], ["/etc/passwd"], ["a/../../b"], [""], ["twice", "twice"]])
def test_a_path_that_leads_out_of_the_directory_is_refused(
    tmp_path: Path, store: RecordingStore, paths: list[str]
) -> None:
    refs = [FileRef(path=path, object="x", length=0, sha256=hashlib.sha256().hexdigest()) for path in paths]

    with pytest.raises(UnsafePath):
        download(refs, lambda name: (store, Key(name)), tmp_path / "new")


def log_of(entries: int) -> bytes:
    """A compacted log of a file source as Spark writes it: each is the beginning of the next."""
    lines = (
        b'{"path":"file:///input/%06d.parquet","timestamp":17%011d,"batchId":%d}' % (n, n, n) for n in range(entries)
    )
    return b"\n".join((b"v1", *lines))


def test_of_a_log_that_grew_only_its_end_goes_up_and_it_comes_back_whole(tmp_path: Path, store: RecordingStore) -> None:
    first = upload(store, logs_of(tmp_path / "hold", "sources/0/9989.compact", log_of(9990)))
    progress = Progress()

    second = upload(store, logs_of(tmp_path / "hold2", "sources/0/9999.compact", log_of(10_000)), first, progress)
    download(second, lambda name: (store, Key(name)), tmp_path / "new")

    assert (tmp_path / "new/sources/0/9999.compact").read_bytes() == log_of(10_000)
    assert progress.statistics().upload_bytes < 50_000
    assert {ref.path for ref in second} == {"sources/0/9999.compact"}
    assert sum(ref.length for ref in second) == progress.statistics().total_bytes == len(log_of(10_000))


def test_a_log_that_did_not_grow_by_appending_is_stored_all_the_same(tmp_path: Path, store: RecordingStore) -> None:
    first = upload(store, logs_of(tmp_path / "hold", "sources/0/9.compact", log_of(9000)))
    other = log_of(9000).replace(b"input", b"other")

    second = upload(store, logs_of(tmp_path / "hold2", "sources/0/9.compact", other), first)
    download(second, lambda name: (store, Key(name)), tmp_path / "new")

    assert (tmp_path / "new/sources/0/9.compact").read_bytes() == other


def test_a_file_in_pieces_that_is_still_held_is_linked_if_all_of_it_is_the_same(
    tmp_path: Path, store: RecordingStore
) -> None:
    held = logs_of(tmp_path / "hold", "sources/0/9.compact", log_of(9000))
    refs = upload(store, held)
    assert len(refs) > 1

    statistics = download(refs, lambda name: (store, Key(name)), tmp_path / "same", [held.directory])
    (held.directory / "sources/0/9.compact").write_bytes(log_of(8999) + b" " * (len(log_of(9000)) - len(log_of(8999))))
    download(refs, lambda name: (store, Key(name)), tmp_path / "other", [held.directory])

    assert (statistics.files, statistics.downloaded_bytes) == (1, 0)
    assert (tmp_path / "other/sources/0/9.compact").read_bytes() == log_of(9000)


@pytest.mark.parametrize("left_out", [0, 1, -2])
def test_a_file_of_which_a_piece_is_missing_is_refused(tmp_path: Path, store: RecordingStore, left_out: int) -> None:
    refs = list(upload(store, logs_of(tmp_path / "hold", "sources/0/9.compact", log_of(9000))))
    del refs[left_out]

    with pytest.raises(UnsafePath, match=r"9\.compact"):
        download(refs, lambda name: (store, Key(name)), tmp_path / "new")


def test_a_piece_with_another_content_is_named_with_its_file(tmp_path: Path, store: RecordingStore) -> None:
    refs = upload(store, logs_of(tmp_path / "hold", "sources/0/9.compact", log_of(9000)))
    store.put(Key(refs[-1].object), bytes(refs[-1].offset + refs[-1].length))

    with pytest.raises(SnapshotFileCorrupt, match=r"sources/0/9\.compact"):
        download(refs, lambda name: (store, Key(name)), tmp_path / "new")


def test_a_held_file_that_was_damaged_is_not_packed_again(tmp_path: Path, store: RecordingStore) -> None:
    known: tuple[FileRef, ...] = ()
    contents: dict[str, bytes] = {}
    for number in range(FAN):
        contents[f"state/0/0/{number}_a.changelog"] = b"content %d" % number
        known = upload(store, hold_of(tmp_path / f"hold{number}", contents), known)

    contents["state/0/0/1_a.changelog"] = b"CONTENT 1"
    with pytest.raises(HeldFileChanged, match=r"1_a\.changelog"):
        upload(store, hold_of(tmp_path / "damaged", contents), known)


def logs_of(directory: Path, path: str, content: bytes) -> Hold:
    """A hold of one log of a source."""
    (directory / path).parent.mkdir(parents=True)
    (directory / path).write_bytes(content)
    return Hold(directory, CutFiles(BatchId(3), (), (path,)))


def ref(name: str, offset: int, length: int) -> FileRef:
    return FileRef(path=f"{name}-{offset}", object=name, offset=offset, length=length, sha256="")


def test_neighbours_in_one_object_are_read_at_once() -> None:
    refs = [ref("b", 0, 5), ref("a", 10, 5), ref("a", 0, 8), ref("a", 500, 5)]

    groups = list(merge_reads(refs, read_bytes=100, gap=10))

    assert groups == [(refs[2], refs[1]), (refs[3],), (refs[0],)]


def test_a_read_is_no_longer_than_its_limit_except_for_one_large_file() -> None:
    refs = [ref("a", 0, 60), ref("a", 60, 60), ref("a", 120, 1000)]

    groups = list(merge_reads(refs, read_bytes=100, gap=10))

    assert groups == [(refs[0],), (refs[1],), (refs[2],)]
