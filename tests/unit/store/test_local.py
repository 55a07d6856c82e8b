"""A directory as a store, beyond the suite that all stores pass: file system faults, and leftover files."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from streamjob.ids import Key
from streamjob.store import LocalStore, StoreDenied, StoreError, StoreFull, StoreUnavailable, UnsuitableStore

KEY = Key("log/00000000000000000000.json")


def files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def raising(code: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_its_files_are_where_the_keys_say(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.put(Key("shared/ab/1"), b"")
    store.put_if_absent(KEY, b"{}")
    store.close()

    assert files(tmp_path / "root") == [KEY, "shared/ab/1"]
    assert sorted(path.name for path in (tmp_path / "root").iterdir()) == ["log", "shared"]


@pytest.mark.parametrize("verb", [LocalStore.put, LocalStore.put_if_absent])
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EACCES, StoreDenied),
        (errno.EROFS, StoreDenied),
        (errno.EIO, StoreUnavailable),
    ],
)
def test_a_write_that_the_file_system_refuses_has_a_clear_error_and_leaves_no_trace(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: Callable[[LocalStore, Key, bytes], object],
    code: int,
    error: type[StoreError],
) -> None:
    store = LocalStore(tmp_path)
    monkeypatch.setattr(os, "fsync", raising(code))

    with pytest.raises(error, match=os.strerror(code)) as caught:
        verb(store, KEY, b"{}")

    assert str(tmp_path / KEY) in caught.value.what
    assert files(tmp_path) == []


def test_only_its_owner_reads_what_it_stores(tmp_path: Path) -> None:
    LocalStore(tmp_path / "store" / "job").put(KEY, b"{}")

    for made in (tmp_path / "store", tmp_path / "store" / "job", tmp_path / "store" / "job" / "log"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_a_failed_replacement_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put(KEY, b"old")
    monkeypatch.setattr(os, "fsync", raising(errno.ENOSPC))

    with pytest.raises(StoreFull):
        store.put(KEY, b"new")

    assert store.get(KEY) == b"old"


def test_a_full_disk_at_the_target_of_a_download_is_reported_and_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "store")
    store.put(KEY, b"content")
    (tmp_path / "work").mkdir()
    monkeypatch.setattr("shutil.copyfileobj", raising(errno.ENOSPC))

    with pytest.raises(StoreFull, match="work/target"):
        store.download(KEY, tmp_path / "work" / "target")

    assert files(tmp_path / "work") == []


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "link", raising(code))

    with pytest.raises(UnsuitableStore, match="no hard links"):
        LocalStore(tmp_path).put_if_absent(KEY, b"{}")

    assert files(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(StoreDenied, match="right to write"):
        LocalStore(tmp_path / "store").put(KEY, b"")


def test_what_a_killed_writer_left_is_removed_by_the_next_store(tmp_path: Path) -> None:
    program = (
        "import os, signal, stat, sys; from pathlib import Path; from streamjob.store import LocalStore\n"
        "os.fsync = lambda fd: stat.S_ISREG(os.fstat(fd).st_mode) and os.kill(os.getpid(), signal.SIGKILL)\n"
        "LocalStore(Path(sys.argv[1])).put('a', b'half')"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert killed.returncode == -9

    left = files(tmp_path)
    assert len(left) == 1
    assert left[0].startswith(".tmp/")

    LocalStore(tmp_path).put(KEY, b"")

    assert files(tmp_path) == [KEY]


def test_what_another_writer_is_writing_stays(tmp_path: Path) -> None:
    (tmp_path / ".tmp").mkdir()
    with (tmp_path / ".tmp" / "other").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        LocalStore(tmp_path).put(KEY, b"")

        assert files(tmp_path) == [".tmp/other", KEY]


def test_an_unfinished_write_is_never_listed(tmp_path: Path) -> None:
    (tmp_path / ".tmp").mkdir()
    (tmp_path / ".tmp" / "half").touch()
    (tmp_path / ".tmp.json").touch()

    assert [entry.key for entry in LocalStore(tmp_path).list("")] == [".tmp.json"]
    assert [entry.key for entry in LocalStore(tmp_path).list(".t")] == [".tmp.json"]


def test_deletion_prunes_directories_that_it_empties_and_keeps_the_root(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.put(Key("shared/ab/1"), b"")
    store.put(Key("shared/cd/2"), b"")
    store.delete([Key("shared/ab/1")])
    store.close()
    assert sorted(path.name for path in (tmp_path / "root").rglob("*")) == ["2", "cd", "shared"]

    store.delete([Key("shared/cd/2")])
    assert list((tmp_path / "root").iterdir()) == []


def test_a_put_does_not_fail_because_a_deletion_prunes_its_directory(tmp_path: Path) -> None:
    putting, deleting = LocalStore(tmp_path), LocalStore(tmp_path)
    done = threading.Event()

    def prune() -> None:
        while not done.is_set():
            deleting.put(Key("a/b/other"), b"")
            deleting.delete([Key("a/b/other")])

    pruner = threading.Thread(target=prune)
    pruner.start()
    try:
        for number in range(300):
            key = Key(f"a/b/{number}")
            assert putting.put_if_absent(key, b"mine")
            putting.delete([key])
    finally:
        done.set()
        pruner.join()

    assert [entry.key for entry in putting.list("")] == []


def _race(root: Path, number: int, rounds: int, results: multiprocessing.Queue[list[int]]) -> None:
    store = LocalStore(root)
    results.put([this for this in range(rounds) if store.put_if_absent(Key(f"log/{this}"), f"{number}".encode())])


def test_exactly_one_of_concurrent_creators_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[list[int]] = context.Queue()
    racers = [context.Process(target=_race, args=(tmp_path, number, 100, results)) for number in range(3)]
    for racer in racers:
        racer.start()
    won = [this for _ in racers for this in results.get(timeout=60)]
    for racer in racers:
        racer.join()

    assert sorted(won) == list(range(100))


def test_a_key_below_another_object_is_refused_with_the_reason(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put(Key("a"), b"")
    store.put(Key("b/c"), b"")
    for key in (Key("a/x"), Key("b")):
        with pytest.raises(StoreError, match="a/b if there is a"):
            store.put(key, b"")


def test_a_store_behind_a_symbolic_link_works(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = LocalStore(tmp_path / "link")
    store.put(KEY, b"content")

    assert LocalStore(tmp_path / "real").get(KEY) == b"content"
