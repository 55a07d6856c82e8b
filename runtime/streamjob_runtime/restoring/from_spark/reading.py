"""Reads a stopped plain query, and describes it as a savepoint of the job that will continue it."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from streamjob.comparison.snapshot_job import CONTINUES, TAKEN_FROM
from streamjob.ids import BatchId, CheckpointId, Epoch, Key, OperatorUid
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.spec import SourceSpec
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import ChainPlan, Plan
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import ChainState, InputState, Manifest, OperatorState, SourceState
from streamjob.store.base import ObjectMissing, Store
from streamjob.store.opening import Location, open_directory_of_spark
from streamjob.stored.start_snapshot import FROM_SPARK
from streamjob_runtime.restoring.from_spark.converting import (
    check_convertible,
    copy_state,
    give_ids,
    stand_in,
    stores_of,
)
from streamjob_runtime.restoring.from_spark.errors import (
    IncompleteCheckpoint,
    NoQueryThere,
    NothingCommitted,
    UnknownCheckpoint,
    UnsupportedState,
)
from streamjob_runtime.restoring.from_spark.fetching import Fetching, Listing
from streamjob_runtime.restoring.from_spark.sources import QuerySource, match_sources
from streamjob_runtime.restoring.from_spark.suitability import chains_of, check_state, partitions_of, places_in
from streamjob_runtime.spark.checkpoint_dir.errors import CheckpointError, CheckpointFileMissing
from streamjob_runtime.spark.checkpoint_dir.files import files_for
from streamjob_runtime.spark.checkpoint_dir.hold import Hold
from streamjob_runtime.spark.checkpoint_dir.logs import (
    VOID_OFFSET,
    OffsetEntry,
    OperatorMetadata,
    batches,
    read_commit,
    read_offsets,
    read_operator_metadata,
)
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import store_schemas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES_LOOKED_AT = 1000

log = logging.getLogger("streamjob")


@dataclass(frozen=True, slots=True)
class Query:
    """A stopped plain query, in a local directory.

    Args:
        uri: its checkpoint.
        checkpoint: the local directory.
        batch: the last committed batch.
        origin: names the query and this batch.
        sources: the job's sources that match the query's, in the query's order.
        operators: Spark's metadata of its stateful operators, by number.
        partitions: number of its state partitions; None if it has no state.
        converted: whether its state was converted to RocksDB, or has to be.
    """

    uri: str
    checkpoint: Path
    batch: BatchId
    origin: str
    sources: tuple[SourceSpec, ...]
    operators: Mapping[int, OperatorMetadata]
    partitions: int | None
    converted: bool


@contextmanager
def reading(location: Location) -> Iterator[Store]:
    """Yield the store with a query's checkpoint.

    Raises:
        CannotRestore: raised for errors in the block that mean that the checkpoint is unusable.
        StoreUnavailable, StoreDenied: the store gave no usable answer, or refused.
    """
    store = location.store()
    try:
        yield store
    except ObjectMissing as error:
        raise IncompleteCheckpoint(
            f"A file of the checkpoint at {location.uri} is gone: {error.what}",
            "stop the query first: while it runs, it deletes files that it does not need any more",
        ) from error
    except CheckpointFileMissing as error:
        raise IncompleteCheckpoint(
            f"The checkpoint at {location.uri} is incomplete: {error.what}",
            "copy it again as a whole, with the query stopped",
        ) from error
    except CheckpointError as error:
        raise UnknownCheckpoint(f"The checkpoint at {location.uri} cannot be used: {error.what}") from error
    finally:
        store.close()


def read_query(
    source: Store,
    loaded: LoadedJob,
    chain: ChainPlan,
    target: Path,
    spark: Callable[[], SparkSession] | None,
) -> Query:
    """Download the files of a query that a job needs, after checking that the job can continue it.

    Args:
        source: the store, at the checkpoint's root.
        target: an empty directory.
        spark: returns a session that converts state; None to omit the content of the state: its tables are then empty
            files.

    Raises:
        StateRewrittenWrongly: converted state differs from the original.
        CannotRestore: the job cannot continue from there; the error gives the reason.
        CheckpointError: a file does not have the format of Spark 4.3.
        StoreError: the store failed.
    """
    uri = source.uri
    listing = Listing(entry.key for entry in source.list(""))
    batch = _last_committed(listing, uri)
    if (planned := listing.batches("offsets")[-1]) > batch:
        log.warning(
            "The query at %s had planned batch %d and not committed it. The job reads the batch's rows again: rows "
            "that the query had written of it stay where they are.",
            uri,
            planned,
        )
    fetching = Fetching(source, listing, target, uri, tables=spark is not None)
    fetching.fetch(listing.logs(batch))
    offsets = read_offsets(target, batch)
    options = {each.uid: loaded.options(each) for each in chain.sources}
    sources = match_sources(_sources(target, offsets), chain.sources, options, uri)
    operators = {int(number): read_operator_metadata(target, number, batch) for number in batches(target / "state")}
    names = [each.name for each in operators.values()]
    check_state(chain, loaded.spec.table_names(), names, offsets, uri)
    partitions, converted = None, False
    if operators:
        partitions = partitions_of(offsets, uri)
        if read_commit(target, batch).state_ids is None:
            converted = _open_up(listing, fetching, target, batch, operators, partitions, spark, uri)
        else:
            fetching.fetch(listing.state())
    origin = _origin((target / "metadata").read_bytes(), batch, uri)
    return Query(uri, target, batch, origin, sources, operators, partitions, converted)


def read_origin(named: str, plan: Plan) -> str:
    """Return what names queries and their last committed batches. Raises as `read_queries` does.

    Args:
        named: see `places_in`.
    """
    origins = []
    for place in places_in(named, plan).values():
        with reading(open_directory_of_spark(place)) as source:
            batch = _last_committed(Listing(entry.key for entry in source.list("")), source.uri)
            origins.append(_origin(source.get(Key("metadata")), batch, source.uri))
    return _of_all(origins)


def _of_all(origins: Sequence[str]) -> str:
    # It becomes a part of the savepoint's name.
    return origins[0] if len(origins) == 1 else f"spark-{sha256(' '.join(origins).encode()).hexdigest()[:16]}"


def _open_up(
    listing: Listing,
    fetching: Fetching,
    target: Path,
    batch: BatchId,
    operators: Mapping[int, OperatorMetadata],
    partitions: int,
    spark: Callable[[], SparkSession] | None,
    uri: str,
) -> bool:
    """Download state without ids, and make it such that a job can open it; return whether it had to be converted."""
    counts = {number: _count(listing, target, number, partitions) for number in operators}
    stores = stores_of(operators, counts)
    files = {store: listing.version(store.path, batch + 1, uri) for store in stores}
    to_convert = [store for store, (newest, *_) in files.items() if newest != f"{store.path}/{batch + 1}.zip"]
    check_convertible(to_convert, operators, uri)
    wanted = [key for store in stores if spark is not None or store not in to_convert for key in files[store]]
    fetching.fetch(wanted)
    fetching.fetch_snapshots([key for key in wanted if key.endswith(".zip")])
    if to_convert and spark is not None:
        copy_state(target, batch, to_convert, operators, spark, uri)
    elif to_convert:
        stand_in(target, batch, to_convert)
    give_ids(target, batch, stores, uri)
    return bool(to_convert)


def _count(listing: Listing, checkpoint: Path, operator: int, partitions: int) -> int:
    """Return the number of an operator's state partitions: one if its state has no key, as a total over all rows."""
    if listing.partitions(operator) != 1:
        return partitions
    schemas = store_schemas(checkpoint / "state" / str(operator)).values()
    return partitions if any(key for key, _ in schemas) else 1


def read_queries(
    named: str,
    loaded: LoadedJob,
    plan: Plan,
    job: JobId,
    now: float,
    target: Path,
    spark: Callable[[], SparkSession] | None,
) -> tuple[list[Query], Manifest, list[Hold]]:
    """Read the queries that a job continues; return them, the manifest of a savepoint without files, and the files.

    Args:
        named: see `places_in`.
        now: seconds since 1970.
        target: an empty directory.
        spark: see `read_query`.

    Raises:
        CannotRestore: the job cannot continue from there; the error gives the reason.
        InvalidInput: a place cannot be opened.
        StoreError: a store failed.
    """
    queries, states, sources, holds = [], [], list[SourceState](), []
    for chain, place in chains_of(named, plan):
        folder = target / chain.uid
        folder.mkdir()
        with reading(open_directory_of_spark(place)) as source:
            query = read_query(source, loaded, chain, folder, spark)
            state, hold = _describe(query, chain)
        positions = _positions(query)
        sources += [SourceState(uid=each.uid, position=positions.get(each.uid)) for each in chain.sources]
        queries.append(query)
        states.append(state)
        holds.append(hold)
    # The job does not own the queries' output: for the job's sinks, everything is new.
    graph = {**graph_of(loaded.spec, loaded.directory), "sinks": []}
    graph |= {
        TAKEN_FROM: FROM_SPARK + ",".join(query.uri for query in queries),
        CONTINUES: _of_all([query.origin for query in queries]),
    }
    partitions = sorted({query.partitions for query in queries if query.partitions is not None})
    if len(partitions) > 1:
        raise UnsupportedState(
            f"The queries of {named} have {' and '.join(map(str, partitions))} state partitions; a job has one number",
            "take them over as several jobs",
        )
    if partitions:
        graph["maxParallelism"] = partitions[0]
    manifest = Manifest(
        job=job.name,
        namespace=job.namespace,
        id=CheckpointId(0),
        epoch=Epoch(0),
        kind="savepoint",
        triggered=now,
        completed=now,
        graph=graph,
        operators=tuple(OperatorState(uid=uid, chain=state.uid) for state in states for uid in state.operators),
        chains=tuple(states),
        sources=tuple(sources),
    )
    return queries, manifest, holds


def _describe(query: Query, chain: ChainPlan) -> tuple[ChainState, Hold]:
    """Return a chain that continues a query, still without files, and the files."""
    hold = Hold(query.checkpoint, files_for(query.checkpoint, query.batch))
    for path in hold.files:
        if not (query.checkpoint / path).exists():
            raise CheckpointFileMissing(query.checkpoint, path, query.batch)
    # Spark's watermark begins at 0: a query that still has that one has had none.
    watermark = read_commit(query.checkpoint, query.batch).next_watermark_ms or None
    timed = any(each.watermark is not None for each in chain.operators)
    state = ChainState(
        uid=chain.uid,
        operators=tuple(each.uid for each in (*chain.sources, *chain.operators)),
        batch=query.batch,
        watermark=watermark,
        # Spark has one watermark for all of a query's sources, so each source starts with it.
        inputs=tuple(
            InputState(uid=source.uid, watermark_ms=watermark if source.watermark is not None or timed else None)
            for source in query.sources
        ),
        stateful=tuple(each.name for _, each in sorted(query.operators.items())),
    )
    return state, hold


def _last_committed(listing: Listing, uri: str) -> BatchId:
    committed, planned = listing.batches("commits"), listing.batches("offsets")
    if "metadata" not in listing.keys or not planned:
        raise NoQueryThere(
            f"{uri} is not a checkpoint of a Structured Streaming query: it has no metadata or no offsets"
            if listing.keys
            else f"There is nothing at {uri}, and so no checkpoint of a Structured Streaming query",
            "name the directory that the query has as checkpointLocation",
        )
    if not committed:
        raise NothingCommitted(f"The query at {uri} has committed no batch", "start the job with --from none")
    return BatchId(committed[-1])


def _origin(metadata: bytes, batch: BatchId, uri: str) -> str:
    try:
        return f"spark-{str(json.loads(metadata)['id'])[:8]}-{batch}"
    except (ValueError, KeyError, TypeError) as error:
        raise UnknownCheckpoint(f"The metadata of the query at {uri} cannot be read: {error!r}") from None


def _sources(checkpoint: Path, offsets: OffsetEntry) -> list[QuerySource]:
    return [
        QuerySource(offset, tuple(itertools.islice(_files_read(checkpoint / "sources" / name), _FILES_LOOKED_AT)))
        for name, offset in offsets.offsets()
    ]


def _files_read(directory: Path) -> Iterator[str]:
    """Yield the files in the log of a file source; other sources store other content there."""
    for entry in sorted(directory.glob("*")):
        for line in entry.read_text("utf-8", "replace").splitlines()[1:] if entry.is_file() else ():
            try:
                yield str(json.loads(line)["path"])
            except (ValueError, KeyError, TypeError):
                break


def _positions(query: Query) -> dict[OperatorUid, JsonValue]:
    offsets = read_offsets(query.checkpoint, query.batch).offsets()
    return {
        source.uid: json.loads(offset)
        for source, (_, offset) in zip(query.sources, offsets, strict=True)
        if offset != VOID_OFFSET
    }
