"""The file sink's handling of files, without Spark."""

from __future__ import annotations

import json
import os
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from pyspark.sql.types import StringType, StructField, StructType

from streamjob.errors import ExitCode
from streamjob.ids import CheckpointId, Epoch, OperatorUid
from streamjob.sink import SinkContext
from streamjob_runtime.sinks.errors import (
    PlaceOfQuery,
    PlaceTaken,
    StagedRowsGone,
    UnreadableCommittable,
    UnreadableRecord,
    UnusableSink,
)
from streamjob_runtime.sinks.files import commit_records
from streamjob_runtime.sinks.files import sink as files
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink


def opened(directory: Path, epoch: int = 1) -> FileSink:
    sink = FileSink("csv", LocalPlace(directory))
    sink.open(SinkContext("departures", "default", OperatorUid("report"), Epoch(epoch), {}))
    return sink


def staged(directory: Path, epoch: int, batch: int, identity: str, *names: str) -> dict[str, Any]:
    """Put files where a batch is staged, and return their committable."""
    below = f"_streamjob/staged/{epoch}/{batch}-{identity}"
    for name in names:
        file = directory / below / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"rows")
    files: list[JsonValue] = [{"path": name, "size": 4, "sha256": sha256(b"rows").hexdigest()} for name in names]
    return {"formatVersion": 1, "directory": below, "id": identity, "files": files}


def visible(directory: Path) -> list[str]:
    files = (file.relative_to(directory).as_posix() for file in directory.rglob("*") if file.is_file())
    return sorted(name for name in files if not name.startswith("_"))


def test_names_tell_the_checkpoint_and_keep_directories_and_suffixes(tmp_path: Path) -> None:
    first = staged(tmp_path, 1, 7, "u", "part-00000-x-c000.csv.gz", "day=2013-01-01/part-00001-x.c000.csv.gz")
    second = staged(tmp_path, 1, 8, "v", "part-00000-y-c000.csv.gz")
    opened(tmp_path).commit(CheckpointId(12), [first, second])

    assert visible(tmp_path) == ["day=2013-01-01/part-12-1-u.csv.gz", "part-12-0-u.csv.gz", "part-12-2-v.csv.gz"]


def test_the_list_of_a_checkpoint_names_its_files_and_nothing_staged_is_left(tmp_path: Path) -> None:
    batch = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv")
    opened(tmp_path).commit(CheckpointId(3), [batch])

    listed = json.loads((tmp_path / "_streamjob/published/3.json").read_bytes())
    assert listed == {"formatVersion": 1, "checkpoint": 3, "files": [{"path": "part-3-0-u.csv", "size": 4}]}
    assert list((tmp_path / "_streamjob/staged/1").iterdir()) == []


def test_what_was_published_and_removed_is_not_even_listed_again(tmp_path: Path) -> None:
    batch = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv")
    opened(tmp_path).commit(CheckpointId(3), [batch])
    (tmp_path / "part-3-0-u.csv").unlink()
    (tmp_path / "_streamjob/published/3.json").unlink()
    opened(tmp_path, epoch=2).commit(CheckpointId(3), [batch])

    assert visible(tmp_path) == []
    assert not (tmp_path / "_streamjob/published/3.json").exists()


def test_a_commit_of_a_staged_file_that_is_gone_is_refused_and_publishes_nothing(tmp_path: Path) -> None:
    batch = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv", "part-00001-x-c000.csv")
    sink = opened(tmp_path)
    (tmp_path / batch["directory"] / "part-00001-x-c000.csv").unlink()

    with pytest.raises(StagedRowsGone) as refused:
        sink.commit(CheckpointId(3), [batch])
    assert "rows of checkpoint 3 are neither published nor whole in _streamjob/staged/1/0-u/part-00001" in str(
        refused.value
    )
    assert visible(tmp_path) == []
    assert not (tmp_path / "_streamjob/published/3.json").exists()


def test_a_commit_of_a_staged_directory_that_is_gone_is_refused(tmp_path: Path) -> None:
    whole = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv")
    gone = staged(tmp_path, 1, 1, "v", "part-00000-y-c000.csv")
    shutil.rmtree(tmp_path / gone["directory"])

    for batches in ([gone], [whole, gone]):
        with pytest.raises(StagedRowsGone, match="rows of checkpoint 3"):
            opened(tmp_path).commit(CheckpointId(3), batches)
    assert visible(tmp_path) == []


def test_a_commit_of_a_truncated_staged_file_is_refused(tmp_path: Path) -> None:
    batch = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv")
    (tmp_path / batch["directory"] / "part-00000-x-c000.csv").write_bytes(b"ro")

    with pytest.raises(StagedRowsGone, match="nor whole in"):
        opened(tmp_path).commit(CheckpointId(3), [batch])


def test_a_commit_of_a_staged_file_with_a_changed_byte_is_refused_and_publishes_nothing(tmp_path: Path) -> None:
    whole = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv")
    batch = staged(tmp_path, 1, 1, "v", "part-00000-y-c000.csv")
    (tmp_path / batch["directory"] / "part-00000-y-c000.csv").write_bytes(b"rowt")

    with pytest.raises(
        StagedRowsGone, match=r"whole in _streamjob/staged/1/1-v/part-00000-y-c000.csv, whose SHA-256 is"
    ):
        opened(tmp_path).commit(CheckpointId(3), [whole, batch])
    assert visible(tmp_path) == []


def test_the_rest_of_an_interrupted_commit_is_refused_if_it_has_changed_meanwhile(tmp_path: Path) -> None:
    batch = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv", "part-00001-x-c000.csv")
    sink = opened(tmp_path)
    commit_records.CommitRecords(LocalPlace(tmp_path), files.COMMITTED).add(CheckpointId(3), ["u"])
    (tmp_path / batch["directory"] / "part-00000-x-c000.csv").rename(tmp_path / "part-3-0-u.csv")
    (tmp_path / batch["directory"] / "part-00001-x-c000.csv").write_bytes(b"rowt")

    with pytest.raises(StagedRowsGone, match=r"part-00001-x-c000\.csv, whose SHA-256 is"):
        sink.commit(CheckpointId(3), [batch])
    assert visible(tmp_path) == ["part-3-0-u.csv"]


def test_files_that_an_older_version_staged_without_a_hash_are_published(tmp_path: Path) -> None:
    batch = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv")
    batch["files"] = [{"path": "part-00000-x-c000.csv", "size": 4}]
    opened(tmp_path).commit(CheckpointId(3), [batch])

    assert visible(tmp_path) == ["part-3-0-u.csv"]


DAMAGE = [b"", b"{", b'{"formatVersion": 2,', b"null", b"[]", b"\xff\xfe", b'{"formatVersion": 9}', b"[" * 100_000]


@pytest.mark.parametrize("content", DAMAGE, ids=lambda content: repr(content[:12]))
def test_a_damaged_owner_record_is_an_error_that_names_it_and_the_way_out(tmp_path: Path, content: bytes) -> None:
    opened(tmp_path)
    (tmp_path / "_streamjob/owner.json").write_bytes(content)

    with pytest.raises(UnreadableRecord) as refused:
        opened(tmp_path, epoch=2)
    assert refused.value.what.startswith(f"sink path {tmp_path}: _streamjob/owner.json cannot be read: ")
    assert "delete it if no other job or sink writes to" in refused.value.fix
    assert refused.value.exit_code == ExitCode.CANNOT_RESTORE


@pytest.mark.parametrize("content", DAMAGE, ids=lambda content: repr(content[:12]))
@pytest.mark.parametrize("record", ["committed/3-u.json", "published/3.json"])
def test_a_damaged_record_of_a_commit_is_an_error_and_without_the_record_the_files_decide(
    tmp_path: Path, record: str, content: bytes
) -> None:
    batch = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv")
    opened(tmp_path).commit(CheckpointId(3), [batch])
    shutil.rmtree(tmp_path / "_streamjob/committed")
    damaged = tmp_path / "_streamjob" / record
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_bytes(content)

    with pytest.raises(UnreadableRecord, match=f"_streamjob/{record} cannot be read: "):
        opened(tmp_path, epoch=2).commit(CheckpointId(3), [batch])
    damaged.unlink()
    opened(tmp_path, epoch=2).commit(CheckpointId(3), [batch])
    assert visible(tmp_path) == ["part-3-0-u.csv"]


def test_a_file_that_is_at_its_visible_place_already_counts_as_published(tmp_path: Path) -> None:
    batch = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv", "part-00001-x-c000.csv")
    (tmp_path / batch["directory"] / "part-00000-x-c000.csv").rename(tmp_path / "part-3-0-u.csv")
    opened(tmp_path).commit(CheckpointId(3), [batch])

    assert visible(tmp_path) == ["part-3-0-u.csv", "part-3-1-u.csv"]


def test_a_listed_file_that_a_consumer_took_counts_as_published(tmp_path: Path) -> None:
    batch = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv")
    opened(tmp_path).commit(CheckpointId(3), [batch])
    (tmp_path / "part-3-0-u.csv").unlink()
    shutil.rmtree(tmp_path / "_streamjob/committed")
    opened(tmp_path, epoch=2).commit(CheckpointId(3), [batch])

    assert visible(tmp_path) == []


def test_what_an_older_version_published_without_a_record_is_not_missed_and_later_files_are(tmp_path: Path) -> None:
    former = staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv")
    shutil.rmtree(tmp_path / former["directory"])
    owner = {"formatVersion": 1, "job": "departures", "namespace": "default", "sink": "report"}
    (tmp_path / "_streamjob/owner.json").write_text(json.dumps(owner))
    sink = opened(tmp_path, epoch=2)
    sink.commit(CheckpointId(3), [former])
    lost = staged(tmp_path, 2, 1, "v", "part-00000-x-c000.csv")
    shutil.rmtree(tmp_path / lost["directory"])

    for each in (sink, opened(tmp_path, epoch=3)):
        each.commit(CheckpointId(3), [former])
        with pytest.raises(StagedRowsGone):
            each.commit(CheckpointId(4), [lost])


def test_the_lists_of_old_checkpoints_are_deleted_and_the_published_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_LISTS_KEPT", 2)
    sink = opened(tmp_path)
    for checkpoint in (8, 9, 10, 11):
        batch = staged(tmp_path, 1, checkpoint, f"u{checkpoint}", "part-00000-x-c000.csv")
        sink.commit(CheckpointId(checkpoint), [batch])

    assert sorted(each.name for each in (tmp_path / "_streamjob/published").iterdir()) == ["10.json", "11.json"]
    assert visible(tmp_path) == ["part-10-0-u10.csv", "part-11-0-u11.csv", "part-8-0-u8.csv", "part-9-0-u9.csv"]


def test_a_checkpoint_whose_list_was_deleted_may_be_committed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_LISTS_KEPT", 1)
    batches = {number: staged(tmp_path, 1, number, f"u{number}", "part-00000-x-c000.csv") for number in (3, 4)}
    for number, batch in batches.items():
        opened(tmp_path).commit(CheckpointId(number), [batch])
    (tmp_path / "part-3-0-u3.csv").unlink()

    opened(tmp_path, epoch=2).commit(CheckpointId(3), [batches[3]])

    assert visible(tmp_path) == ["part-4-0-u4.csv"]
    assert [each.name for each in (tmp_path / "_streamjob/published").iterdir()] == ["4.json"]


def test_the_records_of_old_commits_are_deleted_also_those_of_former_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_records, "_RECORDS_KEPT", 2)
    for checkpoint, epoch in ((7, 1), (8, 1), (1, 2), (2, 2)):
        batch = staged(tmp_path, epoch, checkpoint, f"u{checkpoint}", "part-00000-x-c000.csv")
        opened(tmp_path, epoch).commit(CheckpointId(checkpoint), [batch])
        for record in (tmp_path / "_streamjob/committed").iterdir():
            os.utime(record, ns=(0, record.stat().st_mtime_ns - 1_000_000_000))

    assert sorted(each.name for each in (tmp_path / "_streamjob/committed").iterdir()) == ["1-u1.json", "2-u2.json"]


def test_abort_discards_lower_epochs_only(tmp_path: Path) -> None:
    for epoch in (1, 9, 10, 11):
        staged(tmp_path, epoch, 0, "u", "part-00000-x-c000.csv")
    (tmp_path / "_streamjob/staged/foreign").mkdir()
    opened(tmp_path, epoch=10).abort()

    assert sorted(each.name for each in (tmp_path / "_streamjob/staged").iterdir()) == ["10", "11", "foreign"]


@pytest.mark.parametrize(
    ("namespace", "job", "uid"),
    [("default", "arrivals", "report"), ("default", "departures", "copy"), ("other", "departures", "report")],
)
def test_a_second_job_or_sink_on_the_same_path_is_refused_and_both_are_named(
    tmp_path: Path, namespace: str, job: str, uid: str
) -> None:
    opened(tmp_path)

    with pytest.raises(PlaceTaken) as refused:
        FileSink("csv", LocalPlace(tmp_path)).open(SinkContext(job, namespace, OperatorUid(uid), Epoch(1), {}))
    assert "sink report of job default/departures" in str(refused.value)
    assert f"sink {uid} of job {namespace}/{job}" in str(refused.value)


def test_the_output_of_a_plain_query_is_refused_before_anything_is_made_there(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()

    with pytest.raises(PlaceOfQuery, match="Spark's readers would see no row of the job") as refused:
        opened(tmp_path)

    assert f"streamjob adopt {tmp_path}" in refused.value.fix
    assert [each.name for each in tmp_path.iterdir()] == ["_spark_metadata"]


def test_only_what_can_be_adopted_is_offered_for_it() -> None:
    assert "run `streamjob adopt s3a://lake/out`" in PlaceOfQuery.at("sink out", "s3a://lake/out").fix
    assert "run `streamjob adopt" not in PlaceOfQuery.at("sink out", "hdfs://lake/out").fix


def test_the_same_sink_takes_its_path_again(tmp_path: Path) -> None:
    opened(tmp_path, epoch=1).close()

    opened(tmp_path, epoch=2)


def test_a_directory_with_other_peoples_files_is_fine(tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_bytes(b"1\n")
    opened(tmp_path)

    assert visible(tmp_path) == ["theirs.csv"]


@pytest.mark.parametrize(
    "committable",
    [
        None,
        {"formatVersion": 2, "directory": "d", "id": "u", "files": []},
        {"formatVersion": 1, "directory": "../elsewhere", "id": "u", "files": []},
        {"formatVersion": 1, "directory": "d", "id": "/../../elsewhere", "files": []},
        {"formatVersion": 1, "directory": "d", "id": "u", "files": [{"path": "/etc/passwd", "size": 1}]},
        {"formatVersion": 1, "directory": "d", "id": "u", "files": [{"path": "a/../../b", "size": 1}]},
    ],
)
def test_a_committable_that_this_sink_did_not_write_is_refused(tmp_path: Path, committable: JsonValue) -> None:
    with pytest.raises(UnreadableCommittable, match=str(tmp_path)):
        opened(tmp_path).commit(CheckpointId(1), [committable])


def test_fields_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    batch = {**staged(tmp_path, 1, 0, "u", "part-00000-x-c000.csv"), "added": True}
    opened(tmp_path).commit(CheckpointId(1), [batch])

    assert visible(tmp_path) == ["part-1-0-u.csv"]


def test_rows_without_a_column_to_partition_by_are_refused_before_the_first_batch(tmp_path: Path) -> None:
    sink = FileSink("parquet", LocalPlace(tmp_path), ("day",))
    context = SinkContext("departures", "default", OperatorUid("report"), Epoch(1), {})

    with pytest.raises(UnusableSink, match="no column 'day'"):
        sink.preview(context, StructType([StructField("k", StringType())]))
    sink.preview(context, StructType([StructField("Day", StringType())]))
    assert list(tmp_path.iterdir()) == []
