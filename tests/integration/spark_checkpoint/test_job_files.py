"""Spark's checkpoint files go where `job:/…` paths lead in this process; they appear whole, and state is linked."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from tests.integration.spark_checkpoint.conftest import Lab

pytestmark = pytest.mark.spark

LONG_AGO = 1_000_000_000


@dataclass
class Disk:
    """A directory below the session's root, as Spark's state store uses it: by Hadoop's file system and our manager."""

    jvm: Any
    folder: Path
    location: str

    def path(self, name: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(f"{self.location}/{name}" if name else self.location)

    def local(self, file: Path) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(file.as_uri())

    @property
    def conf(self) -> Any:
        conf = self.jvm.org.apache.hadoop.conf.Configuration()
        conf.set("fs.job.impl", "io.streamjob.files.JobFileSystem")
        return conf

    @property
    def files(self) -> Any:
        return self.path("").getFileSystem(self.conf)

    @property
    def manager(self) -> Any:
        return self.jvm.io.streamjob.files.JobFileManager(self.path(""), self.conf)

    def write(self, name: str, content: str, *, overwrite: bool) -> None:
        stream = self.manager.createAtomic(self.path(name), overwrite)
        stream.write(content.encode())
        stream.close()

    def names(self) -> list[str]:
        return sorted(file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*") if file.is_file())


@pytest.fixture
def disk(streamjob_spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Disk:
    """A directory of its own for each test."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    return Disk(streamjob_spark._jvm, folder, f"job:///{folder.relative_to(tmp_path_factory.getbasetemp()).as_posix()}")


def sst(folder: Path, name: str = "000008.sst") -> Path:
    """Return a file of RocksDB that was finished long ago."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_bytes(b"sorted")
    os.utime(file, (LONG_AGO, LONG_AGO))
    return file


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("this machine has no second file system that may be written to")
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        yield Path(directory)


def test_state_goes_into_a_checkpoint_and_back_as_links_to_one_file(disk: Disk, tmp_path: Path) -> None:
    made, opened = sst(tmp_path / "rocksdb"), tmp_path / "opened" / "000008.sst"

    disk.files.copyFromLocalFile(disk.local(made), disk.path("SSTs/000008-a.sst"))
    disk.files.copyToLocalFile(disk.path("SSTs/000008-a.sst"), disk.local(opened))

    assert disk.names() == ["SSTs/000008-a.sst"]
    assert [file.name for file in opened.parent.iterdir()] == ["000008.sst"]
    assert made.samefile(disk.folder / "SSTs/000008-a.sst")
    assert made.samefile(opened)


def test_state_that_is_new_in_a_checkpoint_is_not_as_old_as_its_content(disk: Disk, tmp_path: Path) -> None:
    made = sst(tmp_path / "rocksdb")
    beside = tmp_path / "now"
    beside.touch()

    disk.files.copyFromLocalFile(disk.local(made), disk.path("SSTs/000008-a.sst"))

    (status,) = disk.files.listStatus(disk.path("SSTs"))
    assert status.getModificationTime() >= int(beside.stat().st_mtime * 1000)


def test_state_takes_the_place_of_a_file_without_writing_into_it(disk: Disk, tmp_path: Path) -> None:
    former = sst(tmp_path / "former")
    former.write_bytes(b"former")
    target = tmp_path / "opened.sst"
    os.link(former, target)
    disk.files.copyFromLocalFile(disk.local(sst(tmp_path / "rocksdb")), disk.path("SSTs/000008-a.sst"))

    disk.files.copyToLocalFile(disk.path("SSTs/000008-a.sst"), disk.local(target))

    assert target.read_bytes() == b"sorted"
    assert former.read_bytes() == b"former"


def test_a_log_that_rocksdb_may_write_to_again_is_copied(disk: Disk, tmp_path: Path) -> None:
    log = sst(tmp_path / "rocksdb", "000009.log")

    disk.files.copyFromLocalFile(disk.local(log), disk.path("logs/000009-a.log"))
    disk.files.copyToLocalFile(disk.path("logs/000009-a.log"), disk.local(tmp_path / "opened.log"))
    log.write_bytes(b"written to again")

    assert disk.names() == ["logs/000009-a.log"]
    assert (disk.folder / "logs/000009-a.log").read_bytes() == b"sorted"
    assert (tmp_path / "opened.log").read_bytes() == b"sorted"


def test_state_is_copied_between_two_file_systems(disk: Disk, elsewhere: Path) -> None:
    made, opened = sst(elsewhere / "rocksdb"), elsewhere / "opened.sst"

    disk.files.copyFromLocalFile(disk.local(made), disk.path("SSTs/000008-a.sst"))
    disk.files.copyToLocalFile(disk.path("SSTs/000008-a.sst"), disk.local(opened))

    assert disk.names() == ["SSTs/000008-a.sst"]
    assert (disk.folder / "SSTs/000008-a.sst").read_bytes() == opened.read_bytes() == b"sorted"


def test_state_that_is_gone_is_a_missing_file(disk: Disk, tmp_path: Path) -> None:
    attempts: tuple[Callable[[], Any], ...] = (
        lambda: disk.files.copyToLocalFile(disk.path("SSTs/gone.sst"), disk.local(tmp_path / "opened.sst")),
        lambda: disk.files.copyFromLocalFile(disk.local(tmp_path / "gone.sst"), disk.path("SSTs/new.sst")),
        lambda: disk.files.getFileStatus(disk.path("SSTs/gone.sst")),
        lambda: disk.manager.open(disk.path("5")),
    )
    for attempt in attempts:
        with pytest.raises(Py4JJavaError, match=r"java\.io\.FileNotFoundException"):
            attempt()


def test_a_file_appears_when_it_is_closed_and_keeps_its_content_from_then_on(disk: Disk) -> None:
    stream = disk.manager.createAtomic(disk.path("commits/5"), False)
    stream.write(b"first")
    visible = disk.manager.exists(disk.path("commits/5"))
    stream.close()
    os.link(disk.folder / "commits/5", disk.folder / "held")

    disk.write("commits/5", "second", overwrite=True)

    assert not visible
    assert (disk.folder / "commits/5").read_bytes() == b"second"
    assert (disk.folder / "held").read_bytes() == b"first"
    assert disk.names() == ["commits/5", "held"]


def test_of_two_that_create_a_file_only_the_first_succeeds(disk: Disk) -> None:
    late = disk.manager.createAtomic(disk.path("commits/5"), False)
    late.write(b"late")
    disk.write("commits/5", "first", overwrite=False)

    with pytest.raises(Py4JJavaError, match=r"hadoop\.fs\.FileAlreadyExistsException"):
        late.close()
    with pytest.raises(Py4JJavaError, match=r"hadoop\.fs\.FileAlreadyExistsException"):
        disk.manager.createAtomic(disk.path("commits/5"), False)

    assert (disk.folder / "commits/5").read_bytes() == b"first"
    assert disk.names() == ["commits/5"]


def test_nothing_is_left_of_a_file_that_is_given_up(disk: Disk) -> None:
    stream = disk.manager.createAtomic(disk.path("5_a.zip"), True)
    stream.write(b"half")

    stream.cancel()
    stream.close()

    assert disk.names() == []


def test_files_are_listed_by_the_names_under_which_all_processes_know_them(disk: Disk) -> None:
    disk.write("state/0/1_a.changelog", "changes", overwrite=True)

    (found,) = disk.manager.list(disk.path("state/0"))

    assert found.getPath().toString() == disk.path("state/0/1_a.changelog").toString()
    assert found.getPath().toUri().getScheme() == "job"
    assert (found.getLen(), found.isFile()) == (len("changes"), True)


def test_a_deleted_file_or_directory_is_gone_and_one_that_never_was_is_no_error(disk: Disk) -> None:
    disk.write("state/0/1_a.changelog", "changes", overwrite=True)
    disk.write("offsets/1", "offset", overwrite=True)

    for name in ("state", "offsets/1", "offsets/2"):
        disk.manager.delete(disk.path(name))

    assert disk.names() == []


def test_a_checkpoint_in_a_local_directory_without_a_name_is_read_and_written_as_well(disk: Disk) -> None:
    plain = Disk(disk.jvm, disk.folder, str(disk.folder))

    plain.write("offsets/1", "offset", overwrite=False)

    (found,) = plain.manager.list(plain.path("offsets"))
    assert found.getPath().toUri().getPath() == str(disk.folder / "offsets/1")
    assert (disk.folder / "offsets/1").read_text() == "offset"


def test_a_checkpoint_of_either_kind_may_refer_to_schemas_of_the_other(disk: Disk) -> None:
    disk.write("schema", "columns", overwrite=False)
    plain = Disk(disk.jvm, disk.folder, str(disk.folder))

    for opened in (plain.manager.open(disk.path("schema")), disk.manager.open(plain.path("schema"))):
        assert opened.read() == ord("c")
        opened.close()


def test_a_checkpoint_anywhere_else_is_refused(disk: Disk) -> None:
    bucket = Disk(disk.jvm, disk.folder, "s3a://bucket/checkpoint")

    with pytest.raises(IllegalArgumentException, match=r"s3a://bucket/\S* is not on a local disk.*name a local"):
        bucket.manager.exists(bucket.path("metadata"))


def test_a_process_without_a_directory_for_the_files_of_a_job_says_how_to_give_it_one(disk: Disk) -> None:
    system = disk.jvm.java.lang.System
    root = system.clearProperty("streamjob.files")
    try:
        with pytest.raises(Py4JJavaError, match=r"start Java with -Dstreamjob\.files="):
            disk.manager.exists(disk.path("metadata"))
    finally:
        system.setProperty("streamjob.files", root)


def test_a_snapshot_of_state_shares_its_files_with_the_open_state(lab: Lab) -> None:
    for number in range(4):
        lab.put([("a", f"00:00:0{number}", number)])
    checkpoint = lab.directory()
    opened = Path(lab.spark.sparkContext.getConf().get("spark.local.dir", ""))

    def wait(number: int) -> None:
        deadline = time.monotonic() + 60
        while number == 3 and not inodes(checkpoint) & inodes(opened):
            assert time.monotonic() < deadline, "no snapshot has a file of the open state"
            time.sleep(0.05)

    lab.run(lab.input().groupBy("k").count(), checkpoint, mode="update", before_batch=wait)

    assert inodes(checkpoint)
    assert not [*checkpoint.rglob(".*.crc")]


def inodes(directory: Path) -> set[int]:
    """Return the identities of the SST files below a directory; Spark may delete some meanwhile."""
    found = set()
    for folder, _, names in os.walk(directory):
        for name in names:
            if name.endswith(".sst"):
                with contextlib.suppress(FileNotFoundError):
                    found.add(Path(folder, name).stat().st_ino)
    return found
