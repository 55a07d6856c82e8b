"""Renames state files of checkpoint format 1 to the names of format 2, in a local copy.

For a version with a snapshot, the formats differ only in names: Spark loads `<version>_<id>.zip` if the commit log
names the id, and reads nothing else. A changelog contains its ancestors' ids, so a version that ends with one cannot be
renamed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path

from streamjob.ids import BatchId
from streamjob_runtime.restoring.from_spark.errors import UnsupportedState
from streamjob_runtime.spark.checkpoint_dir.logs import OperatorMetadata

_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def give_ids(
    checkpoint: Path, batch: BatchId, operators: Mapping[int, OperatorMetadata], partitions: int, uri: str
) -> None:
    """Rename the snapshots of a committed batch, and write their ids into its commit.

    Args:
        checkpoint: a local copy of the checkpoint.
        operators: the stateful operators by number.
        uri: the checkpoint's name in messages.

    Raises:
        UnsupportedState: a store has no snapshot of that version.
    """
    version = batch + 1
    unique_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{uri}#{version}"))
    ids: dict[str, list[list[str]]] = {}
    for number, metadata in operators.items():
        for partition in range(partitions):
            for name in metadata.stores:
                store = checkpoint / "state" / str(number) / str(partition)
                store = store if name == "default" else store / name
                snapshot = store / f"{version}.zip"
                if not snapshot.exists():
                    raise UnsupportedState(
                        f"The state at {uri} has no snapshot of its last version: there is no "
                        f"{snapshot.relative_to(checkpoint)}",
                        f"run one more batch of the query with {_CHANGELOG}=false, and stop it",
                    )
                snapshot.rename(store / f"{version}_{unique_id}.zip")
        ids[str(number)] = [[unique_id] * len(metadata.stores)] * partitions
    commit = checkpoint / "commits" / str(batch)
    entry = json.loads(commit.read_text("utf-8").partition("\n")[2])
    commit.write_text(f"v2\n{json.dumps({**entry, 'stateUniqueIds': ids}, separators=(',', ':'))}", "utf-8")
    offsets = checkpoint / "offsets" / str(batch)
    first, settings, *rest = offsets.read_text("utf-8").split("\n")
    plan = json.loads(settings)
    if _FORMAT in plan.get("conf", {}):
        plan["conf"][_FORMAT] = "2"
        offsets.write_text("\n".join([first, json.dumps(plan, separators=(",", ":")), *rest]), "utf-8")
