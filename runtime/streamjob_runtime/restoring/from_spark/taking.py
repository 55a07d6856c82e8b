"""Converts a plain query's checkpoint to a savepoint in the job's own store, from which a job starts as usual."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.clock import Clock
from streamjob.comparison.snapshot_job import CONTINUES
from streamjob.ids import CheckpointId
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.plan import Plan
from streamjob.protocol.log.records import JobId, read
from streamjob.protocol.manifests.stored_manifests import read_completed
from streamjob.snapshot.manifest import FileRef, Manifest
from streamjob.store.base import Store
from streamjob.store.effects import drive
from streamjob.store.opening import Location, References
from streamjob_runtime.checkpointing.savepoints import Savepoint, savepoint_location
from streamjob_runtime.restoring.from_spark.reading import (
    Query,
    describe,
    query_location,
    read_origin,
    read_query,
    reading,
)
from streamjob_runtime.restoring.from_spark.suitability import the_chain
from streamjob_runtime.spark.checkpoint_dir.hold import Hold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("streamjob")


def was_taken_over(named: str, job: JobId, store: Store) -> bool:
    """Return whether a job's newest completion continues a plain query behind its last batch; say so.

    A start that names the same checkpoint again, as after a crash, then goes on from that completion.

    Args:
        named: see `take_over`.
        store: at the job's root.

    Raises:
        CannotRestore: the query's checkpoint or the job's newest completion cannot be read.
        InvalidInput: the location cannot be opened.
        StoreError: a store failed.
    """
    newest = drive(store, read(job, checkpoints=1)).newest
    if newest is None:
        return False
    location = query_location(named)
    with reading(location) as source:
        origin = read_origin(source)
    references = References(store)
    try:
        manifest = drive(store, read_completed(newest), find=references.find)
    finally:
        references.close()
    if manifest.graph.get(CONTINUES) != origin:
        return False
    log.info(
        "The job has taken over the checkpoint at %s already, and continues from its own %s %s; --from %s starts "
        "behind the query's batch again, as a fork",
        location.uri,
        newest.kind,
        newest.id,
        _savepoint(store, job.name, origin).uri,
    )
    return True


def take_over(
    named: str,
    loaded: LoadedJob,
    plan: Plan,
    job: JobId,
    store: Store,
    clock: Clock,
    spark: Callable[[], SparkSession],
    work: Path | None = None,
) -> str:
    """Create a savepoint from a plain query's checkpoint below the job's root; return its manifest's URI.

    The checkpoint is only read. A planned but uncommitted batch is left out: the job reads its input again.

    Args:
        named: the checkpoint directory: a path, `file:///…` or `s3://…`, with or without the prefix `spark:`.
        store: at the job's root.
        clock: seconds since 1970.
        spark: returns the session that converts state which RocksDB does not keep.
        work: a directory for files of this process; None for the system's.

    Raises:
        CannotRestore: the job cannot continue from there; the error gives the reason.
        InvalidInput: the location cannot be opened.
        StoreError: a store failed.
    """
    location = query_location(named)
    chain = the_chain(plan, location.uri)
    with tempfile.TemporaryDirectory(prefix="streamjob-take-over-", dir=work) as scratch:
        with reading(location) as source:
            query = read_query(source, loaded, chain, Path(scratch), spark)
            manifest, hold = describe(query, loaded, chain, job, clock())
        uri = _write(manifest, hold, query, store)
    log.info("The checkpoint at %s is taken over behind its batch %d, as %s", location.uri, query.batch, uri)
    return uri


def _savepoint(store: Store, job: str, origin: str) -> Location:
    # The same checkpoint leads to the same location, so a repeated start leaves no second copy.
    return savepoint_location(store.uri, None, job, CheckpointId(0), origin)


def _write(manifest: Manifest, hold: Hold, query: Query, store: Store) -> str:
    savepoint = Savepoint(_savepoint(store, manifest.job, query.origin), store.uri)
    try:
        files: tuple[FileRef, ...] = savepoint.target.upload(hold)
        (chain,) = manifest.chains
        savepoint.write(manifest.model_copy(update={"chains": (chain.model_copy(update={"files": files}),)}))
    finally:
        savepoint.close()
    return savepoint.uri
