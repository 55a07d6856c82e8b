"""Makes a savepoint of a plain query's checkpoint, in the job's own store: a job starts from it as from any other."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.job.graph import graph_of
from streamjob.job.load import LoadedJob
from streamjob.job.plan import ChainPlan, Plan
from streamjob.protocol.log import JobId
from streamjob.snapshot.manifest import ChainState, FileRef, InputState, Manifest, OperatorState, SinkState, SourceState
from streamjob.store.base import Store
from streamjob.store.opening import open_location
from streamjob_runtime.clock import Clock
from streamjob_runtime.from_spark.checks import check_sources, check_state, partitions_of, the_chain
from streamjob_runtime.from_spark.converting import give_ids
from streamjob_runtime.from_spark.errors import NoQueryThere, NothingCommitted, UnknownCheckpoint
from streamjob_runtime.from_spark.fetching import Listing, fetch, fetch_snapshots
from streamjob_runtime.savepoints import Savepoint, savepoint_place
from streamjob_runtime.spark_checkpoint.errors import CheckpointError
from streamjob_runtime.spark_checkpoint.files import files_for
from streamjob_runtime.spark_checkpoint.hold import Hold
from streamjob_runtime.spark_checkpoint.logs import (
    OperatorMetadata,
    batches,
    read_commit,
    read_offsets,
    read_operator_metadata,
)

FROM_SPARK = "spark:"
"""What `--from` begins with where it names the checkpoint of a plain query."""

log = logging.getLogger("streamjob")


@dataclass(frozen=True, slots=True)
class Query:
    """A plain query where it stopped, in a local directory."""

    checkpoint: Path
    batch: BatchId
    partitions: int | None


def take_over(named: str, loaded: LoadedJob, plan: Plan, job: JobId, store: Store, clock: Clock) -> str:
    """Make a savepoint of a plain query's checkpoint below the job's root; return its manifest's URI.

    The checkpoint is only read. What the query had planned and not committed is left out: the job reads it again.

    Args:
        named: the checkpoint directory: a path, `file:///…` or `s3://…`; with or without `spark:` before it.
        loaded: the job.
        plan: its chains.
        job: the job in its store.
        store: at the job's root.
        clock: seconds since 1970.

    Raises:
        CannotRestore: the job cannot go on from there; the error says why.
        InvalidInput: the place cannot be opened.
        StoreError: a store failed.
    """
    place = open_location(named.removeprefix(FROM_SPARK).replace("s3a://", "s3://", 1))
    chain = the_chain(plan, place.uri)
    source = place.store()
    try:
        with tempfile.TemporaryDirectory(prefix="streamjob-take-over-") as scratch:
            try:
                query = _fetch(source, chain, Path(scratch), place.uri)
                manifest, hold = _describe(query, loaded, chain, job, clock)
            except CheckpointError as error:
                raise UnknownCheckpoint(f"The checkpoint at {place.uri} cannot be used: {error.what}") from error
            uri = _write(manifest, hold, query, store)
    finally:
        source.close()
    log.info("The checkpoint at %s is taken over behind its batch %d, as %s", place.uri, query.batch, uri)
    return uri


def _fetch(source: Store, chain: ChainPlan, target: Path, uri: str) -> Query:
    listing = Listing(entry.key for entry in source.list(""))
    if "metadata" not in listing.keys or not listing.batches("offsets"):
        raise NoQueryThere(
            f"{uri} is no checkpoint of a Structured Streaming query: there is no metadata, or no offsets",
            "name the directory that the query has as checkpointLocation",
        )
    committed, planned = listing.batches("commits"), listing.batches("offsets")
    if not committed:
        raise NothingCommitted(f"The query at {uri} has committed no batch", "start the job with --from none")
    batch = BatchId(committed[-1])
    if planned[-1] > batch:
        log.warning(
            "The query at %s had planned batch %d and not committed it. The job reads the batch's rows again: what the "
            "query had written of them by then stays where it is.",
            uri,
            planned[-1],
        )
    fetch(source, listing.logs(batch), target)
    offsets = read_offsets(target, batch)
    check_sources(chain, offsets, uri)
    operators = _operators(target, batch)
    check_state(chain, [each.name for each in operators.values()], offsets, uri)
    if not operators:
        return Query(target, batch, None)
    partitions = partitions_of(offsets, uri)
    if read_commit(target, batch).state_ids is None:
        fetch_snapshots(source, listing.snapshots(batch + 1), target)
        give_ids(target, batch, operators, partitions, uri)
    else:
        fetch(source, listing.state(), target)
    return Query(target, batch, partitions)


def _operators(checkpoint: Path, batch: BatchId) -> Mapping[int, OperatorMetadata]:
    return {number: read_operator_metadata(checkpoint, number, batch) for number in batches(checkpoint / "state")}


def _describe(query: Query, loaded: LoadedJob, chain: ChainPlan, job: JobId, clock: Clock) -> tuple[Manifest, Hold]:
    """Return the manifest, still without files, and the files."""
    hold = Hold(query.checkpoint, files_for(query.checkpoint, query.batch))
    watermark = read_commit(query.checkpoint, query.batch).next_watermark_ms
    graph = graph_of(loaded.spec, loaded.directory)
    if query.partitions is not None:
        graph["maxParallelism"] = query.partitions
    now = clock()
    state = ChainState(
        uid=chain.uid,
        operators=chain.uids(),
        batch=query.batch,
        watermark=watermark,
        # Spark keeps one watermark for all of a query's sources, and so begins each of them there.
        inputs=tuple(
            InputState(uid=source.uid, watermark_ms=watermark if source.watermark is not None else None)
            for source in chain.sources
        ),
    )
    manifest = Manifest(
        job=job.name,
        namespace=job.namespace,
        id=CheckpointId(0),
        epoch=Epoch(0),
        kind="savepoint",
        triggered=now,
        completed=now,
        graph=graph,
        operators=tuple(OperatorState(uid=uid, chain=chain.uid) for uid in chain.uids()),
        chains=(state,),
        sources=tuple(SourceState(uid=OperatorUid(source.uid)) for source in chain.sources),
        sinks=tuple(SinkState(uid=OperatorUid(sink.uid)) for sink in chain.sinks),
    )
    return manifest, hold


def _write(manifest: Manifest, hold: Hold, query: Query, store: Store) -> str:
    # The same checkpoint gives the same place: a start that is repeated leaves no second copy.
    suffix = f"spark-{_query_id(query.checkpoint)}-{query.batch}"
    savepoint = Savepoint(savepoint_place(store.uri, None, manifest.job, manifest.id, suffix), store.uri)
    try:
        files: tuple[FileRef, ...] = savepoint.target.upload(hold)
        (chain,) = manifest.chains
        savepoint.write(manifest.model_copy(update={"chains": (chain.model_copy(update={"files": files}),)}))
    finally:
        savepoint.close()
    return savepoint.uri


def _query_id(checkpoint: Path) -> str:
    try:
        return str(json.loads((checkpoint / "metadata").read_text("utf-8"))["id"])[:8]
    except (ValueError, KeyError, TypeError) as error:
        raise UnknownCheckpoint(f"The query's metadata cannot be read: {error!r}") from None
