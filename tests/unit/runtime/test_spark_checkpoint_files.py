"""Which files of a checkpoint directory a batch needs, on directories written by hand in Spark's formats."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from pathlib import Path

import pytest

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import (
    CheckpointFileMissing,
    NotCommitted,
    UnreadableCheckpointFile,
    UnsupportedStateFormat,
)
from streamjob_runtime.spark.checkpoint_dir.files import files_for, is_uniquely_named
from streamjob_runtime.spark.checkpoint_dir.hold import hold
from streamjob_runtime.spark.checkpoint_dir.lineage import read_lineage
from streamjob_runtime.spark.checkpoint_dir.relocate import relocate
from streamjob_runtime.spark.checkpoint_dir.sources import file_source_entries, grows_by_appending


class Checkpoint:
    """A checkpoint directory with one state operator of one partition, unless a test adds to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("metadata", '{"id":"x"}')
        self.write("state/0/_metadata/metadata", 'v1\n{"stateStoreInfo":[{"storeName":"default"}]}')
        self.write("state/0/0/_metadata/schema", "schema")

    def write(self, path: str, content: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    def batch(self, number: int, ids: dict[str, list[list[str]]] | None = None, source: str = "-") -> None:
        commit = {"nextBatchWatermarkMs": 0}
        self.write(f"offsets/{number}", f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":0}}\n{source}')
        ids = {"0": [[f"id{number + 1}"]]} if ids is None else ids
        self.write(f"commits/{number}", "v2\n" + json.dumps({**commit, "stateUniqueIds": ids}))

    def changelog(self, version: int, lineage: list[int], store: str = "state/0/0", name: str = "id") -> None:
        items = [{"version": v, "checkpointUniqueId": f"{name}{v}"} for v in lineage]
        self.write(f"{store}/{version}_{name}{version}.changelog", changelog(json.dumps(items).encode()))

    def snapshot(self, version: int, ssts: list[str]) -> None:
        file = self.root / f"state/0/0/{version}_id{version}.zip"
        listing = {"sstFiles": [{"dfsSstFileName": sst} for sst in ssts], "logFiles": [{"dfsLogFileName": "l.log"}]}
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("metadata", f"v1\n{json.dumps(listing)}")
        for sst in ssts:
            self.write(f"state/0/0/SSTs/{sst}", sst)
        self.write("state/0/0/logs/l.log", "log")


def changelog(lineage: bytes, block: int = 16) -> bytes:
    """Spark's head of a changelog in uncompressed LZ4 blocks, small ones so that the lineage spans several."""
    content = struct.pack(">H", 2) + b"v3" + struct.pack(">H", len(lineage)) + lineage + b"records"
    blocks = [content[i : i + block] for i in range(0, len(content), block)]
    framed = b"".join(struct.pack("<8sBiii", b"LZ4Block", 0x15, len(b), len(b), 0) + b for b in blocks)
    return framed + struct.pack("<8sBiii", b"LZ4Block", 0x15, 0, 0, 0)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint")


def test_a_version_is_its_newest_snapshot_and_the_changelogs_behind_it(checkpoint: Checkpoint) -> None:
    checkpoint.changelog(1, [])
    checkpoint.snapshot(2, ["old.sst"])
    checkpoint.snapshot(3, ["a.sst", "b.sst"])
    for version in (3, 4, 5, 6):
        checkpoint.changelog(version, [3, 4, 5][: max(0, version - 3)])
    checkpoint.batch(3)
    checkpoint.batch(4)

    files = files_for(checkpoint.root, BatchId(4))

    assert files.unique == tuple(
        f"state/0/0/{name}"
        for name in ("5_id5.changelog", "4_id4.changelog", "3_id3.zip", "SSTs/a.sst", "SSTs/b.sst", "logs/l.log")
    )
    assert set(files.per_checkpoint) == {
        *("metadata", "offsets/3", "commits/3", "offsets/4", "commits/4"),
        *("state/0/_metadata/metadata", "state/0/0/_metadata/schema"),
    }
    assert set(filter(is_uniquely_named, files)) == set(files.unique)


def test_a_snapshot_of_the_batch_itself_needs_no_changelog(checkpoint: Checkpoint) -> None:
    checkpoint.snapshot(1, [])
    checkpoint.changelog(1, [])
    checkpoint.batch(0)

    assert files_for(checkpoint.root, BatchId(0)).unique == ("state/0/0/1_id1.zip", "state/0/0/logs/l.log")


def test_a_lineage_that_ends_early_is_read_on_in_an_older_changelog(checkpoint: Checkpoint) -> None:
    for version, lineage in ((1, []), (2, [1]), (3, [1, 2]), (4, [3]), (5, [3, 4])):
        checkpoint.changelog(version, lineage)
    checkpoint.batch(3)
    checkpoint.batch(4)

    names = [path.rpartition("/")[2] for path in files_for(checkpoint.root, BatchId(4)).unique]

    assert names == [f"{version}_id{version}.changelog" for version in (5, 4, 3, 2, 1)]


def test_files_of_another_attempt_at_the_same_batch_are_left_out(checkpoint: Checkpoint) -> None:
    checkpoint.changelog(1, [])
    checkpoint.changelog(1, [], name="other")
    checkpoint.batch(0)

    assert files_for(checkpoint.root, BatchId(0)).unique == ("state/0/0/1_id1.changelog",)


def test_each_store_of_a_join_has_its_own_id(checkpoint: Checkpoint) -> None:
    stores = {"left": "state/0/0/left", "right": "state/0/0/right"}
    infos = [{"storeName": name} for name in stores]
    checkpoint.write("state/0/_metadata/metadata", "v1\n" + json.dumps({"stateStoreInfo": infos}))
    for name, store in stores.items():
        checkpoint.changelog(1, [], store, name)
    checkpoint.batch(0, {"0": [["right1", "left1"]]})

    files = files_for(checkpoint.root, BatchId(0))

    assert set(files.unique) == {"state/0/0/left/1_left1.changelog", "state/0/0/right/1_right1.changelog"}


def test_partitions_from_before_a_rescale_are_left_out(checkpoint: Checkpoint) -> None:
    checkpoint.changelog(1, [])
    checkpoint.changelog(1, [], "state/0/1")
    checkpoint.batch(0)

    assert files_for(checkpoint.root, BatchId(0)).unique == ("state/0/0/1_id1.changelog",)


def test_operator_metadata_is_the_newest_that_the_batch_knows_with_its_schemas(checkpoint: Checkpoint) -> None:
    (checkpoint.root / "state/0/_metadata/metadata").unlink()
    for batch in (0, 1, 2):
        schema = f"file:/somewhere/else/state/0/_stateSchema/default/{batch}_x"
        info = {"storeName": "default", "stateSchemaFilePaths": [schema]}
        checkpoint.write(f"state/0/_metadata/v2/{batch}", "v2\n" + json.dumps({"stateStoreInfo": [info]}))
        checkpoint.write(f"state/0/_stateSchema/default/{batch}_x", "schema")
    checkpoint.snapshot(2, [])
    checkpoint.batch(0)
    checkpoint.batch(1)

    files = files_for(checkpoint.root, BatchId(1)).per_checkpoint

    assert {path for path in files if "0/_" in path and "0/0" not in path} == {
        "state/0/_metadata/v2/1",
        "state/0/_stateSchema/default/1_x",
    }


def test_a_batch_that_is_not_committed_has_no_files(checkpoint: Checkpoint) -> None:
    checkpoint.write("offsets/0", "v1\n{}\n-")

    with pytest.raises(NotCommitted, match="Batch 0"):
        files_for(checkpoint.root, BatchId(0))


def test_a_missing_changelog_is_named(checkpoint: Checkpoint) -> None:
    checkpoint.changelog(3, [1, 2])
    checkpoint.changelog(1, [])
    checkpoint.batch(1)
    checkpoint.batch(2)

    with pytest.raises(CheckpointFileMissing, match=r"state/0/0/2_id2\.changelog"):
        files_for(checkpoint.root, BatchId(2))


def test_state_without_unique_ids_is_refused(checkpoint: Checkpoint) -> None:
    checkpoint.batch(0)
    checkpoint.write("commits/0", 'v1\n{"nextBatchWatermarkMs":0}')

    with pytest.raises(UnsupportedStateFormat, match="format 2"):
        files_for(checkpoint.root, BatchId(0))


def test_a_query_without_state_needs_only_its_logs(checkpoint: Checkpoint) -> None:
    checkpoint.batch(0, {})

    assert list(files_for(checkpoint.root, BatchId(0))) == ["metadata", "offsets/0", "commits/0"]


def test_a_log_entry_of_an_unknown_version_is_refused(checkpoint: Checkpoint) -> None:
    checkpoint.batch(0)
    checkpoint.write("commits/0", "v9\n{}")

    with pytest.raises(UnreadableCheckpointFile, match="v9"):
        files_for(checkpoint.root, BatchId(0))


BROKEN = {
    "empty": b"",
    "another codec": b"\x28\xb5\x2f\xfd" + bytes(40),
    "cut short": changelog(b"[]")[:30],
    "a block that is no lz4": struct.pack("<8sBiii", b"LZ4Block", 0x25, 4, 100, 0) + b"\xff" * 4,
    "a lineage that is no JSON": changelog(b"{broken"),
    "a lineage of another form": changelog(b"[1]"),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_changelog_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "5_id.changelog").write_bytes(content)

    with pytest.raises(UnreadableCheckpointFile, match=r"5_id\.changelog"):
        read_lineage(tmp_path / "5_id.changelog")


def test_entries_of_a_file_source_behind_the_cut_stay_out(checkpoint: Checkpoint) -> None:
    for name in (*map(str, range(9)), "9.compact", *map(str, range(10, 14)), ".14.tmp"):
        checkpoint.write(f"sources/0/{name}", "v1\n")
    checkpoint.write("sources/1/0", "not a file source: where it began")
    checkpoint.batch(0, {}, source='{"logOffset":11}\n{"t":{"0":4}}')

    files = [path for path in files_for(checkpoint.root, BatchId(0)) if path.startswith("sources/")]

    assert files == ["sources/0/9.compact", "sources/0/10", "sources/0/11", "sources/1/0"]


def test_sources_that_the_offset_log_names_are_found_by_their_names(checkpoint: Checkpoint) -> None:
    for entry in range(3):
        checkpoint.write(f"sources/flights/{entry}", "v1\n")
    checkpoint.batch(0, {})
    checkpoint.write("offsets/0", 'v2\n{}\nflights:{"logOffset":1}')

    files = [path for path in files_for(checkpoint.root, BatchId(0)) if path.startswith("sources/")]

    assert files == ["sources/flights/0", "sources/flights/1"]


def test_a_gap_in_a_file_source_s_log_is_an_error(checkpoint: Checkpoint) -> None:
    with pytest.raises(FileNotFoundError, match="entry 3"):
        file_source_entries(["0", "1", "2", "4"], 4)


def test_a_file_source_that_has_read_nothing_needs_no_entry() -> None:
    assert file_source_entries(["0"], -1) == []


def kept_of(checkpoint: Checkpoint, offset: str, names: list[str]) -> list[str]:
    """Return what a cut keeps of a source that has these files and this offset."""
    for name in names:
        checkpoint.write(f"sources/0/{name}", "v1\n")
    checkpoint.batch(0, {}, source=offset)
    paths = files_for(checkpoint.root, BatchId(0)).per_checkpoint
    return [path.removeprefix("sources/0/") for path in paths if path.startswith("sources/0/")]


@pytest.mark.parametrize(
    ("position", "kept"),
    [
        (-1, []),
        (3, ["0", "1", "2", "3"]),
        (4, ["3.known", "4"]),
        (9, ["3.known", *map(str, range(4, 10))]),
        (11, ["9.known", "10", "11"]),
    ],
)
def test_a_source_that_counts_its_reads_of_files_keeps_its_position_and_what_it_knows(
    checkpoint: Checkpoint, position: int, kept: list[str]
) -> None:
    names = [*map(str, range(13)), "3.known", "9.known", "12.known", ".10.known.new"]

    assert kept_of(checkpoint, f'{{"files":{position}}}', names) == kept


@pytest.mark.parametrize("names", [["0", "2"], ["0.known", "2"], ["0", "1"], ["2.known", "3.known"]])
def test_a_missing_entry_of_read_files_is_named(checkpoint: Checkpoint, names: list[str]) -> None:
    with pytest.raises(CheckpointFileMissing, match=r"entry \d of a file source"):
        kept_of(checkpoint, '{"files":2}', names)


@pytest.mark.parametrize("offset", ["-", '{"files":{"0":7}}', '{"files":1,"other":2}', "3"])
def test_of_a_source_with_another_offset_all_files_are_kept(checkpoint: Checkpoint, offset: str) -> None:
    assert kept_of(checkpoint, offset, ["0", "1.known"]) == ["0", "1.known"]


def test_what_a_source_knows_grows_by_appending() -> None:
    paths = ("sources/0/9.known", "sources/0/9.compact", "sources/0/9", "state/0/9.known")

    assert [grows_by_appending(path) for path in paths] == [True, True, False, False]


def test_a_hold_keeps_the_files_when_spark_deletes_them(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.changelog(1, [])
    checkpoint.batch(0)

    held = hold(checkpoint.root, BatchId(0), tmp_path / "hold")
    expected = {path: (checkpoint.root / path).read_bytes() for path in held.files}
    for path in held.files:
        (checkpoint.root / path).unlink()

    assert {path: (held.directory / path).read_bytes() for path in held.files} == expected


def test_a_file_that_vanishes_between_list_and_link_leads_to_a_new_listing(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.changelog(1, [])
    checkpoint.changelog(2, [1])
    checkpoint.batch(0)
    checkpoint.batch(1)
    link = os.link

    def compact_meanwhile(source: str, target: str) -> None:
        if not (checkpoint.root / "state/0/0/2_id2.zip").exists():
            checkpoint.snapshot(2, ["new.sst"])
            (checkpoint.root / "state/0/0/1_id1.changelog").unlink()
        link(source, target)

    monkeypatch.setattr(os, "link", compact_meanwhile)
    held = hold(checkpoint.root, BatchId(1), tmp_path / "hold")

    assert held.files.unique == ("state/0/0/2_id2.zip", "state/0/0/SSTs/new.sst", "state/0/0/logs/l.log")
    assert all((held.directory / path).exists() for path in held.files)
    assert not (held.directory / "state/0/0/2_id2.changelog").exists()


def test_a_hold_that_fails_leaves_nothing_behind(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.changelog(2, [1])
    checkpoint.batch(0)
    checkpoint.batch(1)

    with pytest.raises(CheckpointFileMissing):
        hold(checkpoint.root, BatchId(1), tmp_path / "hold")
    assert not (tmp_path / "hold").exists()


def test_relocation_makes_a_checkpoint_name_its_own_schemas_and_spares_the_hold(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    schema = "file:/old/state/0/_stateSchema/default/0_x"
    old = f'v2\n{{"stateStoreInfo":[{{"storeName":"default","stateSchemaFilePaths":["{schema}"]}}],"p":"\\"é"}}'
    checkpoint.write("state/0/_metadata/v2/0", old)
    held = tmp_path / "held"
    os.link(checkpoint.root / "state/0/_metadata/v2/0", held)

    assert relocate(checkpoint.root, "job:///3/main/checkpoint") == ("state/0/_metadata/v2/0",)

    new = (checkpoint.root / "state/0/_metadata/v2/0").read_text("utf-8")
    assert new == old.replace("file:/old", "job:///3/main/checkpoint")
    assert held.read_text("utf-8") == old
    assert relocate(checkpoint.root, "job:///3/main/checkpoint") == ()
