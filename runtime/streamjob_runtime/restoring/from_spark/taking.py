"""Converts a plain query's checkpoint to a savepoint in the job's own store, from which a job starts as usual."""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path

from streamjob.clock import Clock
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.plan import Plan
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import FileRef, Manifest
from streamjob.store.base import Store
from streamjob_runtime.checkpointing.savepoints import Savepoint, savepoint_location
from streamjob_runtime.restoring.from_spark.errors import UnknownCheckpoint
from streamjob_runtime.restoring.from_spark.reading import Query, describe, query_location, read_query, reading
from streamjob_runtime.restoring.from_spark.suitability import the_chain
from streamjob_runtime.spark.checkpoint_dir.hold import Hold

log = logging.getLogger("streamjob")


def take_over(named: str, loaded: LoadedJob, plan: Plan, job: JobId, store: Store, clock: Clock) -> str:
    """Create a savepoint from a plain query's checkpoint below the job's root; return its manifest's URI.

    The checkpoint is only read. A planned but uncommitted batch is left out: the job reads its input again.

    Args:
        named: the checkpoint directory: a path, `file:///…` or `s3://…`, with or without the prefix `spark:`.
        store: at the job's root.
        clock: seconds since 1970.

    Raises:
        CannotRestore: the job cannot continue from there; the error gives the reason.
        InvalidInput: the location cannot be opened.
        StoreError: a store failed.
    """
    location = query_location(named)
    chain = the_chain(plan, location.uri)
    with tempfile.TemporaryDirectory(prefix="streamjob-take-over-") as scratch:
        with reading(location) as source:
            query = read_query(source, loaded, chain, Path(scratch), whole=True)
            manifest, hold = describe(query, loaded, chain, job, clock())
        uri = _write(manifest, hold, query, store)
    log.info("The checkpoint at %s is taken over behind its batch %d, as %s", location.uri, query.batch, uri)
    return uri


def _write(manifest: Manifest, hold: Hold, query: Query, store: Store) -> str:
    # The same checkpoint leads to the same location, so a repeated start leaves no second copy.
    suffix = f"spark-{_query_id(query)}-{query.batch}"
    savepoint = Savepoint(savepoint_location(store.uri, None, manifest.job, manifest.id, suffix), store.uri)
    try:
        files: tuple[FileRef, ...] = savepoint.target.upload(hold)
        (chain,) = manifest.chains
        savepoint.write(manifest.model_copy(update={"chains": (chain.model_copy(update={"files": files}),)}))
    finally:
        savepoint.close()
    return savepoint.uri


def _query_id(query: Query) -> str:
    try:
        return str(json.loads((query.checkpoint / "metadata").read_text("utf-8"))["id"])[:8]
    except (ValueError, KeyError, TypeError) as error:
        raise UnknownCheckpoint(f"The metadata of the query at {query.uri} cannot be read: {error!r}") from None
