"""Stateful operators of a restored checkpoint get state without rows, as of its last batch."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.unit.runtime.test_grafted_checkpoints import BATCH, checkpoint, write

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.files import files_for
from streamjob_runtime.spark.checkpoint_dir.logs import read_commit, read_operator_metadata
from streamjob_runtime.spark.checkpoint_dir.new_state import put_empty_state
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import operator_names

__all__ = ["checkpoint"]

STORES = ("left-keyToNumValues", "right-keyToNumValues")


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """Return a directory in which Spark has described a join and an operator that names its schemas by path."""
    directory = tmp_path / "described"
    join = {
        "operatorInfo": {"operatorId": 0, "operatorName": "symmetricHashJoin"},
        "stateStoreInfo": [{"storeName": name} for name in STORES],
    }
    write(directory / "state/0/_metadata/metadata", f"v1\n{json.dumps(join)}")
    for name in STORES:
        write(directory / f"state/0/0/{name}/_metadata/schema", "of the join")
    schema = "state/2/_stateSchema/default/0_a"
    variables = {
        "operatorInfo": {"operatorId": 2, "operatorName": "transformWithStateExec"},
        "stateStoreInfo": [{"storeName": "default", "stateSchemaFilePaths": [f"file:{directory}/{schema}"]}],
    }
    write(directory / "state/2/_metadata/v2/0", f"v2\n{json.dumps(variables)}")
    write(directory / schema, "of the variables")
    return directory


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Return a state store without rows."""
    directory = tmp_path / "store"
    write(directory / "1_any.zip", "nothing")
    write(directory / "logs/1-any.log", "")
    return directory


def test_an_operator_has_a_snapshot_without_rows_in_each_store_and_partition(
    checkpoint: Path, described: Path, snapshot: Path
) -> None:
    put_empty_state(checkpoint, f"file:{checkpoint}", BATCH, [0], described, snapshot, 2)

    assert operator_names(checkpoint, BATCH)[0] == "symmetricHashJoin"
    ids = (read_commit(checkpoint, BATCH).state_ids or {})[0]
    assert [len(each) for each in ids] == [2, 2]
    assert ids[0] != ids[1]
    for partition in range(2):
        for name in STORES:
            store = checkpoint / f"state/0/{partition}/{name}"
            assert (store / f"{BATCH + 1}_{ids[partition][0]}.zip").read_text() == "nothing"
            assert (store / "logs/1-any.log").exists()
    assert not (checkpoint / "state/0/0/8_a.zip").exists()


def test_the_state_of_other_operators_is_left_as_it_is(checkpoint: Path, described: Path, snapshot: Path) -> None:
    put_empty_state(checkpoint, f"file:{checkpoint}", BATCH, [0], described, snapshot, 2)

    assert (read_commit(checkpoint, BATCH).state_ids or {})[1] == (("b",),)
    assert (checkpoint / "state/1/0/8_b.zip").read_text() == "dedupe"
    assert read_commit(checkpoint, BATCH).next_watermark_ms == 6


def test_each_time_the_ids_are_others(checkpoint: Path, described: Path, snapshot: Path) -> None:
    put_empty_state(checkpoint, f"file:{checkpoint}", BATCH, [0], described, snapshot, 1)
    first = read_commit(checkpoint, BATCH).state_ids
    put_empty_state(checkpoint, f"file:{checkpoint}", BATCH, [0], described, snapshot, 1)

    assert read_commit(checkpoint, BATCH).state_ids != first


def test_an_operator_that_had_no_state_gets_some_also_where_the_query_had_none(
    checkpoint: Path, described: Path, snapshot: Path
) -> None:
    write(checkpoint / f"commits/{BATCH}", 'v1\n{"nextBatchWatermarkMs":6}')

    put_empty_state(checkpoint, f"file:{checkpoint}", BATCH, [2], described, snapshot, 2)

    (metadata, schema) = read_operator_metadata(checkpoint, 2, BATCH).files
    assert (checkpoint / schema).read_text() == "of the variables"
    assert str(described) not in (checkpoint / metadata).read_text()
    assert list(read_commit(checkpoint, BATCH).state_ids or {}) == [2]


def test_a_cut_of_the_batch_has_the_empty_snapshots(checkpoint: Path, described: Path, snapshot: Path) -> None:
    with ZipFile(snapshot / "1_any.zip", "w") as archive:
        archive.writestr("metadata", 'v1\n{"sstFiles":[],"logFiles":[{"dfsLogFileName":"1-any.log"}]}')
    write(checkpoint / f"commits/{BATCH}", 'v2\n{"nextBatchWatermarkMs":6}')
    write(checkpoint / f"offsets/{BATCH}", 'v1\n{"batchWatermarkMs":5}')

    put_empty_state(checkpoint, f"file:{checkpoint}", BATCH, [0], described, snapshot, 1)

    found = files_for(checkpoint, BatchId(BATCH))
    assert sorted(Path(each).suffix for each in found.unique) == [".log", ".log", ".zip", ".zip"]


def test_what_is_held_elsewhere_is_left_as_it_is(
    checkpoint: Path, described: Path, snapshot: Path, tmp_path: Path
) -> None:
    held = tmp_path / "held"
    held.hardlink_to(checkpoint / f"commits/{BATCH}")
    before = held.read_text()

    put_empty_state(checkpoint, f"file:{checkpoint}", BATCH, [0], described, snapshot, 1)

    assert held.read_text() == before
