"""The state of a job on its executors: who has which store, what a restore brings, and how a checkpoint stores it."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from streamjob.ids import BatchId, ChainUid, CheckpointId, Epoch
from streamjob.protocol.placement import Counts, Owners, StateStore, StoreNotOpened, StoreRefused, by_store, place
from streamjob.protocol.segment_places import SegmentNames
from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.chain.channels.in_flight import is_segment
from streamjob_runtime.checkpointing.segment_holds import Kept
from streamjob_runtime.checkpointing.upload.packing import FileIdentity
from streamjob_runtime.checkpointing.upload.uploader import Progress, Target, UploadCancelled
from streamjob_runtime.executors.driver.asking import ask_all, result_of
from streamjob_runtime.executors.driver.fleet import Executor, ExecutorLost, Fleet, RefusedByDriver, slots_of
from streamjob_runtime.executors.driver.segments import SegmentsOnExecutors
from streamjob_runtime.executors.messages import (
    Adoption,
    Allocate,
    Allocated,
    HeldCheckpoint,
    Holdings,
    HoldStores,
    Known,
    KnownFiles,
    Nothing,
    Store,
    Stored,
)
from streamjob_runtime.spark.checkpoint_dir.files import StoreVersion
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets, read_operator_metadata
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import operator_names
from streamjob_runtime.spark.gateway import java_session, our_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Decided = TypeVar("Decided")

_LOOK_SECONDS = 0.2
_HOLDINGS_SECONDS = 30.0

log = logging.getLogger("streamjob")


@dataclass(frozen=True, slots=True)
class RestoredState:
    """The state of a snapshot that a chain takes over.

    Args:
        chain: the snapshot's chain.
        home: the URI of the store from which relative references start.
        files: the files of its state stores.
    """

    chain: ChainUid
    home: str
    files: tuple[FileRef, ...]


@dataclass(frozen=True, slots=True)
class _Transfer:
    target: Target
    progress: Progress


class StateOnExecutors:
    """The state of one epoch after the other; any thread may call it."""

    def __init__(self, fleet: Fleet, segments: SegmentsOnExecutors) -> None:
        self._fleet = fleet
        self.segments = segments
        self._lock = threading.Lock()
        self._owners = Owners(Epoch(0))
        self._restored: Mapping[ChainUid, RestoredState] = {}
        self._placed: dict[ChainUid, frozenset[str]] = {}
        self._partitions: dict[ChainUid, dict[int, int]] = {}
        self._holders: dict[ChainUid, dict[int, list[str]]] = {}
        self._transfers: dict[str, _Transfer] = {}
        self._sizes: dict[tuple[ChainUid, str], int] = {}

    def handlers(self) -> dict[str, Callable[[str, str, bytes], BaseModel]]:
        """Return what answers agents, by the last part of the request's path."""
        return {
            "adopt": self._adopt,
            "adopted": self._adopted,
            "known": self._known,
            "allocate": self._allocate,
            **self.segments.handlers(),
        }

    def begin(self, epoch: Epoch, restored: Mapping[ChainUid, RestoredState]) -> None:
        """Begin an epoch: stores are opened again, from the files of a snapshot.

        Args:
            restored: the state of each chain that continues.
        """
        holders = self._ask_holdings({chain: state.chain for chain, state in restored.items()})
        with self._lock:
            files = {chain: by_store(state.files) for chain, state in restored.items()}
            self._owners = Owners(epoch, files)
            self._restored = dict(restored)
            self._placed, self._partitions = {}, {}
            self._sizes = {}
            self._holders = holders

    def _ask_holdings(self, former: Mapping[ChainUid, ChainUid]) -> dict[ChainUid, dict[int, list[str]]]:
        """Return the executors that hold files of each partition; one that does not say so holds none."""
        if not former:
            return {}
        found: dict[ChainUid, dict[int, list[str]]] = {}
        for executor, answer in ask_all(self._fleet, "holdings", {}, _HOLDINGS_SECONDS).items():
            held = Holdings.model_validate(answer).partitions
            for chain, origin in former.items():
                for partition in held.get(origin, ()):
                    found.setdefault(chain, {}).setdefault(partition, []).append(executor)
        return found

    def place(
        self,
        spark: SparkSession,
        query: StreamingQuery,
        chain: ChainUid,
        checkpoint: Path,
        location: str,
        batch: BatchId,
    ) -> None:
        """Decide where a query opens its state, and check that the rows it reads are there.

        Call it in the query's first batch, before any action.

        Args:
            checkpoint: its checkpoint directory on the driver.
            location: the URI by which it opens that.

        Raises:
            ExecutorLost: an executor was lost meanwhile, or there is none.
        """
        self.segments.check()
        metadata = {each: read_operator_metadata(checkpoint, each, batch) for each in operator_names(checkpoint, batch)}
        if not metadata:
            return
        # Metadata of an operator keeps the number that it began with, although its state may have been rewritten.
        rewritten = read_offsets(checkpoint, batch).partitions
        chosen = self.choose(chain, {number: rewritten or each.partitions for number, each in metadata.items()})
        for number, each in metadata.items():
            places = "\n".join(f"{executor.host} {executor.id}" for executor in chosen[number])
            our_java(spark).StatePlacement.seed(
                java_session(spark), str(query.runId), location, number, "\n".join(each.stores), places
            )
        # Tasks would wait for one that was lost before the loss of state on it was a reason to end the epoch.
        used = {executor.id for each in chosen.values() for executor in each}
        if gone := used - {each.id for each in self._fleet.live()}:
            raise ExecutorLost(f"Executor {', '.join(sorted(gone))} was lost while chain {chain!r} began")

    def choose(self, chain: ChainUid, partitions: Mapping[int, int]) -> dict[int, tuple[Executor, ...]]:
        """Choose an executor for each partition of a chain's operators; the loss of one of them ends the epoch now.

        What is open stays where it is: the flush at the end of a chain is another query with the same state. An
        executor that is to end gets nothing new, unless there are no others.

        Args:
            partitions: the number of partitions of each operator.

        Raises:
            ExecutorLost: there is no executor.
        """
        executors = {each.id: each for each in self._fleet.live()}
        if not executors:
            raise ExecutorLost(f"There is no executor for the state of chain {chain!r}")
        slots = slots_of(executors.values())
        with self._lock:
            holders = self._holders_of(chain, executors.keys())
            offset = list(self._placed).index(chain) if chain in self._placed else len(self._placed)
            chosen = {
                number: place(count, slots, holders, offset, self._owners.of_operator(chain, number))
                for number, count in partitions.items()
            }
            self._placed[chain] = frozenset(executor for each in chosen.values() for executor in each)
            self._partitions[chain] = dict(partitions)
        return {number: tuple(executors[executor] for executor in each) for number, each in chosen.items()}

    def _holders_of(self, chain: ChainUid, live: Collection[str]) -> dict[int, list[str]]:
        """Return the executors that hold files of a chain's partitions."""
        holders = self._holders.get(chain, {})
        return {partition: [each for each in held if each in live] for partition, held in holders.items()}

    def lost_with(self, executor: str) -> dict[ChainUid, str]:
        """Return the chains that cannot go on without an executor, each with what they lose in words."""
        with self._lock:
            placed = {chain for chain, executors in self._placed.items() if executor in executors}
            state = self._owners.chains_on(executor) | placed
        unread = self.segments.producers_on(executor)
        return {
            **{chain: f"rows of chain {chain!r} that nobody has read yet" for chain in unread},
            **{chain: f"state of chain {chain!r}" for chain in state},
        }

    def needs(self, executor: str) -> bool:
        """Return whether the epoch cannot go on without an executor, or may not be able to at any moment."""
        return self.segments.has_streams or bool(self.lost_with(executor))

    def idle(self) -> tuple[Executor, ...]:
        """Return the executors without state that would get some if the chains that have begun were placed anew."""
        executors = self._fleet.live()
        slots = slots_of(executors)
        if not slots:
            return ()
        with self._lock:
            wanted = {
                each
                for offset, partitions in enumerate(self._partitions.values())
                for count in partitions.values()
                for each in place(count, slots, offset=offset)
            }
            used = frozenset(self._owners.counts()).union(*self._placed.values())
        return tuple(each for each in executors if each.id in wanted - used)

    def counts(self) -> dict[str, Counts]:
        """Return the numbers of open partitions and state stores by executor."""
        with self._lock:
            return self._owners.counts()

    def sizes(self) -> dict[str, int]:
        """Return the bytes of state in the last checkpoint by executor."""
        with self._lock:
            sizes: dict[str, int] = {}
            for (_, executor), size in self._sizes.items():
                sizes[executor] = sizes.get(executor, 0) + size
            return sizes

    def keep(self, checkpoint: CheckpointId, chain: ChainUid, segments: SegmentNames, progress: Progress) -> Kept:
        """See `SegmentsOnExecutors.keep`."""
        return self.segments.keep(checkpoint, chain, segments, progress)

    def store(
        self,
        checkpoint: CheckpointId,
        chain: ChainUid,
        batch: BatchId,
        stores: Sequence[StoreVersion],
        kept: Kept,
        target: Target,
        progress: Progress,
    ) -> Callable[[], tuple[FileRef, ...]]:
        """Ask the owners to hold and upload the files of a cut; return a function that waits for the files.

        The function raises UploadCancelled, and the errors of `Fleet.ask`.

        Args:
            batch: the batch of the cut.
        """
        versions = {store.path: store for store in stores}
        parts = self._owners_of(chain, list(versions), progress)
        transfer = uuid.uuid4().hex
        with self._lock:
            epoch = self._owners.epoch
            self._transfers[transfer] = _Transfer(target, progress)
        answers = {
            owner: self._fleet.tell(
                owner,
                "hold",
                HoldStores(
                    transfer=transfer,
                    store=target.uploader.store.uri,
                    epoch=epoch,
                    checkpoint=checkpoint,
                    chain=chain,
                    batch=batch,
                    stores=tuple(versions[path] for path in parts.get(owner, ())),
                    segments=dict(kept.get(owner, {})),
                ).model_dump(mode="json"),
            )
            for owner in dict.fromkeys((*parts, *kept))
        }

        def wait() -> tuple[FileRef, ...]:
            try:
                files: list[FileRef] = []
                for owner, answer in answers.items():
                    stored = Stored.model_validate(result_of(answer, progress))
                    progress.include(stored.statistics)
                    files += stored.files
                    size = sum(file.length for file in stored.files if not is_segment(file.path))
                    with self._lock:
                        self._sizes[chain, owner] = size
                return tuple(files)
            finally:
                with self._lock:
                    self._transfers.pop(transfer, None)

        return wait

    def _owners_of(self, chain: ChainUid, stores: Sequence[str], progress: Progress) -> dict[str, tuple[str, ...]]:
        """Return the stores by owner. Before the first batch of an epoch, wait until they have been opened."""
        while True:
            with self._lock:
                try:
                    return self._owners.split(chain, stores)
                except StoreNotOpened as error:
                    if progress.cancelled:
                        raise UploadCancelled(error.what) from None
            time.sleep(_LOOK_SECONDS)

    def complete(self, checkpoint: CheckpointId) -> None:
        """Ask the owners to hold the files of a completed checkpoint, and none of earlier ones."""
        self._tell_all("retain", checkpoint)
        self.segments.tell_dropped()

    def abort(self, checkpoint: CheckpointId) -> None:
        """Ask the owners to drop the files that they hold for a checkpoint."""
        self._tell_all("release", checkpoint)

    def _tell_all(self, kind: str, checkpoint: CheckpointId) -> None:
        with self._lock:
            held = HeldCheckpoint(epoch=self._owners.epoch, checkpoint=checkpoint)
        for executor in self._fleet.live():
            # One that does not do it does it with the next completed checkpoint.
            self._fleet.tell(executor.id, kind, held.model_dump())

    def _adopt(self, name: str, instance: str, body: bytes) -> BaseModel:
        asked = Store.model_validate_json(body)
        self._fleet.check(asked.executor, instance)
        store = _parsed(asked.directory)
        with self._lock:
            files = _allowed(lambda: self._owners.adopt(store, asked.executor))
            restored = self._restored.get(store.chain)
        if restored is None:
            return Adoption(home="", chain=store.chain, files=())
        return Adoption(home=restored.home, chain=restored.chain, files=files)

    def _adopted(self, name: str, instance: str, body: bytes) -> BaseModel:
        asked = Store.model_validate_json(body)
        self._fleet.check(asked.executor, instance)
        store = _parsed(asked.directory)
        with self._lock:
            _allowed(lambda: self._owners.adopted(store, asked.executor))
        return Nothing()

    def _known(self, name: str, instance: str, body: bytes) -> BaseModel:
        asked = Known.model_validate_json(body)
        self._fleet.check(asked.executor, instance)
        known = self._transfer(asked.transfer).target.known
        found = ((number, known.get(FileIdentity(identity))) for number, identity in enumerate(asked.identities))
        return KnownFiles(files={number: ref for number, ref in found if ref is not None})

    def _allocate(self, name: str, instance: str, body: bytes) -> BaseModel:
        asked = Allocate.model_validate_json(body)
        self._fleet.check(asked.executor, instance)
        return Allocated(key=self._transfer(asked.transfer).target.key_of(asked.sha256))

    def _transfer(self, transfer: str) -> _Transfer:
        with self._lock:
            found = self._transfers.get(transfer)
        if found is None or found.progress.cancelled:
            raise RefusedByDriver("The checkpoint was aborted")
        return found


def _parsed(directory: str) -> StateStore:
    return _allowed(lambda: StateStore.at(directory))


def _allowed(decide: Callable[[], Decided]) -> Decided:
    try:
        return decide()
    except StoreRefused as error:
        raise RefusedByDriver(error.what) from None
