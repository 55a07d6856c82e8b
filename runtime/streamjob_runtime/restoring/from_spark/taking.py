"""Converts plain queries' checkpoints to a savepoint in the job's own store, from which a job starts as usual."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.clock import Clock
from streamjob.comparison.snapshot_job import CONTINUES
from streamjob.ids import CheckpointId
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.plan import Plan
from streamjob.protocol.log.records import JobId, read
from streamjob.protocol.manifests.stored_manifests import read_completed
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import Store
from streamjob.store.effects import drive
from streamjob.store.opening import Location, References
from streamjob_runtime.checkpointing.savepoints import Savepoint, savepoint_location
from streamjob_runtime.restoring.from_spark.reading import read_origin, read_queries
from streamjob_runtime.spark.checkpoint_dir.hold import Hold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("streamjob")


def was_taken_over(named: str, plan: Plan, job: JobId, store: Store) -> bool:
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
    origin = read_origin(named, plan)
    references = References(store)
    try:
        manifest = drive(store, read_completed(newest), find=references.find)
    finally:
        references.close()
    if manifest.graph.get(CONTINUES) != origin:
        return False
    log.info(
        "The job has taken over %s already, and continues from its own %s %s; --from %s starts behind the query's "
        "batch again, as a fork",
        named,
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
    """Create a savepoint from plain queries' checkpoints below the job's root; return its manifest's URI.

    The checkpoints are only read. A planned but uncommitted batch is left out: the job reads its input again.

    Args:
        named: the checkpoint directory, as a path, `file:///…` or `s3://…`; or one for each chain: see `places_in`.
        store: at the job's root.
        clock: seconds since 1970.
        spark: returns the session that converts state which RocksDB does not keep.
        work: a directory for files of this process; None for the system's.

    Raises:
        CannotRestore: the job cannot continue from there; the error gives the reason.
        InvalidInput: the location cannot be opened.
        StoreError: a store failed.
    """
    with tempfile.TemporaryDirectory(prefix="streamjob-take-over-", dir=work) as scratch:
        queries, manifest, holds = read_queries(named, loaded, plan, job, clock(), Path(scratch), spark)
        uri = _write(manifest, holds, store)
    for query in queries:
        log.info("The checkpoint at %s is taken over behind its batch %d, as %s", query.uri, query.batch, uri)
    return uri


def _savepoint(store: Store, job: str, origin: str) -> Location:
    # The same checkpoint leads to the same location, so a repeated start leaves no second copy.
    return savepoint_location(store.uri, None, job, CheckpointId(0), origin)


def _write(manifest: Manifest, holds: Sequence[Hold], store: Store) -> str:
    savepoint = Savepoint(_savepoint(store, manifest.job, str(manifest.graph[CONTINUES])), store.uri)
    try:
        chains = [
            chain.model_copy(update={"files": savepoint.target.upload(hold)})
            for chain, hold in zip(manifest.chains, holds, strict=True)
        ]
        savepoint.write(manifest.model_copy(update={"chains": tuple(chains)}))
    finally:
        savepoint.close()
    return savepoint.uri
