"""Gives stateful operators of a restored checkpoint other state, although its query has run.

Spark opens each state store at the version that the last committed batch left, and there is none for an operator that
is new or keeps state in another form. So the operator gets that version: a snapshot under a fresh id, which the batch's
entry in the commit log names. Spark's description of the state is taken from a plan of the new query.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.logs import read_operator_metadata
from streamjob_runtime.spark.checkpoint_dir.relocate import relocate
from streamjob_runtime.spark.checkpoint_dir.text_files import json_object, write_anew

_FIRST = BatchId(0)
_IDS = "stateUniqueIds"


def put_empty_state(
    checkpoint: Path,
    location: str,
    batch: BatchId,
    numbers: Iterable[int],
    described: Path,
    snapshot: Path,
    partitions: int,
) -> None:
    """Replace the state of operators with empty state, as of a committed batch.

    A rewritten file is a new one: a hard link to the old content, such as a hold's, is left as it is.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running.
        location: the URI by which Spark opens it.
        batch: the last committed batch.
        numbers: the operators.
        described: a checkpoint directory in which Spark has described the state of the query's first batch.
        snapshot: the directory of a state store without rows, with one snapshot of it.
        partitions: the number of state partitions.

    Raises:
        CheckpointFileMissing, UnreadableCheckpointFile: the checkpoint or the description is not one that Spark 4.3
            writes.
    """
    fresh = {}
    for number in numbers:
        replace_description(checkpoint, number, described)
        ids = [str(uuid.uuid4()) for _ in range(partitions)]
        stores = read_operator_metadata(checkpoint, number, _FIRST).stores
        for partition, unique_id in enumerate(ids):
            place = checkpoint / "state" / str(number) / str(partition)
            for name in stores:
                store = place if name == "default" else place / name
                _copy(snapshot, store, f"{batch + 1}_{unique_id}.zip")
        # One id for all stores of a partition: Spark has a place in the list for each.
        fresh[str(number)] = [[unique_id] * len(stores) for unique_id in ids]
    relocate(checkpoint, location)
    _name(checkpoint / "commits" / str(batch), fresh)


def put_state(checkpoint: Path, location: str, batch: BatchId, number: int, described: Path, partitions: int) -> None:
    """Replace the state of an operator with the state that was written for it, as of a committed batch.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running.
        location: the URI by which Spark opens it.
        batch: the last committed batch.
        number: the operator.
        described: a checkpoint directory in which Spark has described the new state, with a snapshot without an id of
            each store and partition.
        partitions: the number of state partitions.

    Raises:
        CheckpointFileMissing, UnreadableCheckpointFile: the checkpoint or the description is not one that Spark 4.3
            writes.
    """
    replace_description(checkpoint, number, described)
    stores = read_operator_metadata(checkpoint, number, _FIRST).stores
    ids = [str(uuid.uuid4()) for _ in range(partitions)]
    for partition, unique_id in enumerate(ids):
        place = checkpoint / "state" / str(number) / str(partition)
        for name in stores:
            store = place if name == "default" else place / name
            (store / f"{batch + 1}.zip").rename(store / f"{batch + 1}_{unique_id}.zip")
    relocate(checkpoint, location)
    # One id for all stores of a partition: Spark has a place in the list for each.
    _name(checkpoint / "commits" / str(batch), {str(number): [[unique_id] * len(stores) for unique_id in ids]})


def replace_description(checkpoint: Path, number: int, described: Path) -> None:
    """Replace the state of an operator with its description in another checkpoint.

    Its schemas have the paths of the other checkpoint until they are relocated.
    """
    target = checkpoint / "state" / str(number)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(described / "state" / str(number), target)


def _copy(snapshot: Path, store: Path, name: str) -> None:
    for file in snapshot.rglob("*"):
        if file.is_file():
            path = file.relative_to(snapshot)
            target = store / (path.with_name(name) if path.suffix == ".zip" else path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def _name(file: Path, fresh: dict[str, Any]) -> None:
    _, _, text = file.read_text("utf-8").partition("\n")
    entry = json_object(file, text)
    ids = entry.get(_IDS) or {}
    if not isinstance(ids, dict):
        raise UnreadableCheckpointFile(file, f"its {_IDS} are {ids!r}")
    write_anew(file, f"v2\n{json.dumps(entry | {_IDS: ids | fresh}, separators=(',', ':'))}")
