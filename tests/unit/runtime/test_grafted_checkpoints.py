"""A restored checkpoint is reassembled: other inputs, other numbers of stateful operators."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.graft import GraftedInput, graft_inputs, graft_state
from streamjob_runtime.spark.checkpoint_dir.logs import read_commit, read_offsets, read_operator_metadata
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import operator_names, store_schemas

BATCH = BatchId(7)
NAMES = ("stateStoreSave", "dedupe")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return a checkpoint of two file sources and two stateful operators."""
    directory = tmp_path / "checkpoint"
    write(directory / "metadata", '{"id":"old"}')
    for batch in (BATCH - 1, BATCH):
        write(directory / f"offsets/{batch}", 'v1\n{"batchWatermarkMs":5}\n{"logOffset":3}\n{"logOffset":4}')
        ids = {"0": [["a"]], "1": [["b"]]}
        write(directory / f"commits/{batch}", "v2\n" + json.dumps({"nextBatchWatermarkMs": 6, "stateUniqueIds": ids}))
    for number, name in enumerate(NAMES):
        write(directory / f"sources/{number}/3", f"v1\n{name}")
        info = {
            "operatorInfo": {"operatorId": number, "operatorName": name},
            "stateStoreInfo": [{"storeName": "default"}],
        }
        write(directory / f"state/{number}/_metadata/metadata", f"v1\n{json.dumps(info)}")
        write(directory / f"state/{number}/0/8_{'ab'[number]}.zip", name)
    return directory


def write(file: Path, content: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def test_inputs_change_places_with_their_positions_and_files(checkpoint: Path) -> None:
    former = [checkpoint / "sources" / str(number) for number in range(2)]

    graft_inputs(
        checkpoint,
        BATCH,
        [
            GraftedInput(0, "-"),
            GraftedInput(1, '{"logOffset":4}', former[1]),
            GraftedInput(2, '{"logOffset":3}', former[0]),
            GraftedInput(3, '{"pos":9}'),
        ],
    )

    for batch in (BATCH, BatchId(BATCH - 1)):
        entry = read_offsets(checkpoint, batch)
        assert entry.sources == ("-", '{"logOffset":4}', '{"logOffset":3}', '{"pos":9}')
        assert entry.metadata == {"batchWatermarkMs": 5}
    assert {each.name: (each / "3").read_text() for each in (checkpoint / "sources").iterdir()} == {
        "1": "v1\ndedupe",
        "2": "v1\nstateStoreSave",
    }


def test_a_query_of_other_inputs_gets_an_id_of_its_own(checkpoint: Path) -> None:
    graft_inputs(checkpoint, BATCH, [])

    assert json.loads((checkpoint / "metadata").read_text())["id"] != "old"


def test_state_gets_another_number_and_what_is_left_out_is_gone(checkpoint: Path) -> None:
    graft_state(checkpoint, {0: 1})

    assert operator_names(checkpoint, BATCH) == {0: "dedupe"}
    assert read_commit(checkpoint, BATCH).state_ids == {0: (("b",),)}
    assert read_operator_metadata(checkpoint, 0, BATCH).stores == ("default",)
    assert (checkpoint / "state/0/0/8_b.zip").read_text() == "dedupe"
    assert not (checkpoint / "state/1").exists()


def test_without_state_nothing_of_it_is_left(checkpoint: Path) -> None:
    graft_state(checkpoint, {})

    assert not (checkpoint / "state").exists()
    assert not read_commit(checkpoint, BATCH).state_ids
    assert read_commit(checkpoint, BATCH).next_watermark_ms == 6


def test_what_is_held_elsewhere_is_left_as_it_is(checkpoint: Path, tmp_path: Path) -> None:
    held = {file: tmp_path / f"held-{file.replace('/', '-')}" for file in ("offsets/7", "commits/7", "metadata")}
    for file, link in held.items():
        link.hardlink_to(checkpoint / file)
    before = {file: link.read_text() for file, link in held.items()}

    graft_inputs(checkpoint, BATCH, [GraftedInput(0, "-")])
    graft_state(checkpoint, {0: 1})

    assert {file: link.read_text() for file, link in held.items()} == before


def schema(*columns: tuple[str, str]) -> bytes:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {"any": 1}} for name, kind in columns]
    return text(json.dumps({"type": "struct", "fields": fields}))


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def test_schemas_of_stores_are_read_by_name(tmp_path: Path) -> None:
    file = tmp_path / "0" / "left-keyToNumValues" / "_metadata" / "schema"
    one = struct.pack(">i", 1)
    file.parent.mkdir(parents=True)
    file.write_bytes(text("v2") + one + schema(("k", "string")) + one + schema(("n", "long"), ("at", "timestamp")))

    found = store_schemas(tmp_path)

    assert found == {
        "left-keyToNumValues": ((("k", '"string"'),), (("n", '"long"'), ("at", '"timestamp"'))),
    }


def test_a_schema_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "0" / "_metadata" / "schema"
    file.parent.mkdir(parents=True)
    file.write_bytes(text("v9"))

    with pytest.raises(UnreadableCheckpointFile, match="v9"):
        store_schemas(tmp_path)
