"""Makes state that a plain query keeps without ids to state that a job can open, in a local copy.

State of format 2 in RocksDB is what a job opens. The formats differ only in names: Spark loads `<version>_<id>.zip` if
the commit log names the id, and reads nothing else. So a snapshot of RocksDB gets another name. State of the default
provider, and state that ends with a changelog, which contains its ancestors' ids, is copied to such a snapshot first.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.comparison.rewrite_checks import Contents, check_unchanged
from streamjob.ids import BatchId
from streamjob.job.model.spark_settings import ROCKSDB, STATE, STATE_CHANGELOG, STATE_FORMAT, STATE_PROVIDER
from streamjob_runtime.restoring.from_spark.errors import StateNotConverted, UnsupportedState
from streamjob_runtime.spark.checkpoint_dir.logs import OperatorMetadata, read_offsets
from streamjob_runtime.spark.gateway import java_errors, java_session, our_java, thrown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("streamjob")


@dataclass(frozen=True, slots=True)
class StateStore:
    """A partition of a state store of the query.

    Args:
        prefix: the number of columns of the key by which its operator looks for rows; 0 for whole keys.
    """

    operator: int
    partition: int
    name: str
    prefix: int

    @property
    def path(self) -> str:
        """Its directory, relative to the checkpoint."""
        return f"state/{self.operator}/{self.partition}" + ("" if self.name == "default" else f"/{self.name}")


def stores_of(operators: Mapping[int, OperatorMetadata], partitions: Mapping[int, int]) -> list[StateStore]:
    """Return all stores, given the number of partitions of each operator."""
    return [
        StateStore(number, partition, name, metadata.prefixes.get(name, 0))
        for number, metadata in operators.items()
        for partition in range(partitions[number])
        for name in metadata.stores
    ]


def check_convertible(stores: Sequence[StateStore], operators: Mapping[int, OperatorMetadata], uri: str) -> None:
    """Raise UnsupportedState for state that cannot be copied: that of several column families in one store."""
    for number in {each.operator for each in stores}:
        if operators[number].name.startswith("transformWithState"):
            raise UnsupportedState(
                f"The state of {operators[number].name} {number} at {uri} has no snapshot of its last version",
                f"run one more batch of the query with {STATE_CHANGELOG}=false, and stop it",
            )


def copy_state(
    checkpoint: Path,
    batch: BatchId,
    stores: Sequence[StateStore],
    operators: Mapping[int, OperatorMetadata],
    spark: Callable[[], SparkSession],
    uri: str,
) -> None:
    """Copy stores to snapshots of RocksDB, as of a committed batch, and verify each by its rows and their checksum.

    Args:
        checkpoint: a local copy of the checkpoint.
        stores: those that have no snapshot of RocksDB of that version.
        uri: the checkpoint's name in messages.

    Raises:
        StateNotConverted: Spark cannot copy a store.
        StateRewrittenWrongly: a copy differs from its original.
    """
    session, begun = spark().newSession(), time.monotonic()
    for key, value in (read_offsets(checkpoint, batch).metadata.get("conf") or {}).items():
        if key.startswith(STATE):
            session.conf.set(key, value)
    session.conf.set(STATE_FORMAT, "1")
    session.conf.set(STATE_CHANGELOG, "false")
    java, scala_session = our_java(session).StateCopy, java_session(session)
    root = (checkpoint / "state").as_uri()

    def copied(store: StateStore) -> list[int]:
        return list(
            java.copy(scala_session, root, store.operator, store.partition, store.name, store.prefix, batch + 1)
        )

    log.warning("Converting the state at %s to RocksDB: %d state stores", uri, len(stores))
    rows = 0
    with ThreadPoolExecutor(session.sparkContext.defaultParallelism, thread_name_prefix="convert") as pool:
        for store, result in [(store, pool.submit(copied, store)) for store in stores]:
            try:
                read, checksum, written, checked = result.result()
            except java_errors() as error:
                raise StateNotConverted(
                    f"Spark cannot convert {store.path} at {uri} to RocksDB: {thrown(error).getMessage()}",
                    "copy the checkpoint again as a whole, with the query stopped",
                ) from error
            place = (store.name, f"of partition {store.partition}")
            label = f"{operators[store.operator].name} {store.operator} at {uri}"
            rows += check_unchanged(label, {place: Contents(read, checksum, 0)}, {place: Contents(written, checked, 0)})
    log.warning("The state at %s is converted: %d rows, verified, in %.1f s", uri, rows, time.monotonic() - begun)


def stand_in(checkpoint: Path, batch: BatchId, stores: Sequence[StateStore]) -> None:
    """Write snapshots without content for stores, where only the description of the state is looked at."""
    for store in stores:
        (checkpoint / store.path).mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(checkpoint / store.path / f"{batch + 1}.zip", "w") as archive:
            archive.writestr("metadata", "v1\n{}")


def give_ids(checkpoint: Path, batch: BatchId, stores: Sequence[StateStore], uri: str) -> None:
    """Rename the snapshots of a committed batch, and write their ids into its commit.

    Args:
        checkpoint: a local copy of the checkpoint.
        stores: all stores, each with a snapshot.
        uri: the checkpoint's name in messages.
    """
    version = batch + 1
    unique_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{uri}#{version}"))
    ids: dict[str, dict[int, list[str]]] = {}
    for store in stores:
        snapshot = checkpoint / store.path / f"{version}.zip"
        snapshot.rename(snapshot.with_name(f"{version}_{unique_id}.zip"))
        ids.setdefault(str(store.operator), {}).setdefault(store.partition, []).append(unique_id)
    commit = checkpoint / "commits" / str(batch)
    entry = json.loads(commit.read_text("utf-8").partition("\n")[2])
    entry["stateUniqueIds"] = {number: list(each.values()) for number, each in ids.items()}
    commit.write_text(f"v2\n{json.dumps(entry, separators=(',', ':'))}", "utf-8")
    offsets = checkpoint / "offsets" / str(batch)
    first, settings, *rest = offsets.read_text("utf-8").split("\n")
    plan = json.loads(settings)
    plan["conf"][STATE_PROVIDER] = ROCKSDB
    if STATE_FORMAT in plan["conf"]:
        plan["conf"][STATE_FORMAT] = "2"
    offsets.write_text("\n".join([first, json.dumps(plan, separators=(",", ":")), *rest]), "utf-8")
