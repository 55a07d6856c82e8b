"""The segments of a job's channels on its executors: where each is, what a restore brings, and when one is deleted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from streamjob.clock import Clock
from streamjob.ids import ChainUid, CheckpointId, Epoch, Key
from streamjob.protocol.segment_places import SegmentFile, SegmentNames, SegmentPlaces, SegmentRefused
from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.checkpointing.segment_holds import Kept
from streamjob_runtime.checkpointing.upload.uploader import Progress
from streamjob_runtime.executors.driver.asking import ask_all, result_of
from streamjob_runtime.executors.driver.fleet import Executor, ExecutorLost, Fleet, RefusedByDriver, slots_of
from streamjob_runtime.executors.messages import (
    Allocated,
    DropSegments,
    HasFiles,
    KeepSegments,
    Lend,
    SegmentAsked,
    SegmentSource,
    ShareSegment,
)
from streamjob_runtime.restoring.restoration import RestoredSegments

_DROP_SECONDS = 1.0
"""Executors are told at most so often which segments they may delete."""
_HOLDINGS_SECONDS = 30.0
_SHARE_SECONDS = 60.0

log = logging.getLogger("streamjob")


@dataclass
class _Untold:
    """Segments that executors may delete, but do not know of yet."""

    since: float
    segments: dict[str, dict[ChainUid, list[str]]] = field(default_factory=dict)


class SegmentsOnExecutors:
    """The segments of one epoch after the other; any thread may call it.

    Args:
        store: the URI of the job's root in its store.
        clock: seconds since 1970.

    `has_streams` tells whether chains of the epoch hand on rows, so that any executor may have some at any moment.
    """

    def __init__(self, fleet: Fleet, store: str, clock: Clock) -> None:
        self._fleet = fleet
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._places = SegmentPlaces(Epoch(0))
        self._restored: Mapping[ChainUid, RestoredSegments] = {}
        self._home = ""
        self._lend: Callable[[str], Key] | None = None
        self._untold = _Untold(0.0)
        self.has_streams = False

    def handlers(self) -> dict[str, Callable[[str, str, bytes], BaseModel]]:
        """Return what answers agents, by the last part of the request's path."""
        return {"segment": self._segment, "lend": self._lend_key}

    def begin(
        self, epoch: Epoch, home: str, restored: Mapping[ChainUid, RestoredSegments], lend: Callable[[str], Key]
    ) -> None:
        """Begin an epoch: choose an executor for each segment that was in flight in a snapshot.

        Args:
            home: the URI of the store from which the snapshot's relative references start.
            restored: the segments in flight, by the chain that wrote them.
            lend: returns the key of an object for other executors, given the SHA-256 of its content.

        Raises:
            ExecutorLost: there is no executor for them.
        """
        files = {(chain, _name(file)): file for chain, each in restored.items() for file in each.files}
        places = SegmentPlaces(epoch, files)
        if files:
            slots = slots_of(self._fleet.live())
            if not slots:
                raise ExecutorLost("There is no executor for the rows that were in flight")
            places.choose(slots, self._holders(restored))
        with self._lock:
            self._places, self._restored, self._home, self._lend = places, dict(restored), home, lend
            self._untold = _Untold(self._clock())
            self.has_streams = False

    def _holders(self, restored: Mapping[ChainUid, RestoredSegments]) -> dict[tuple[ChainUid, str], list[str]]:
        """Return the executors that hold segments of a snapshot."""
        asked = HasFiles(
            files={
                chain: tuple(file.path for each in restored.values() if chain in each.holders for file in each.files)
                for chain in {holder for each in restored.values() for holder in each.holders}
            }
        )
        producers = {file.path: chain for chain, each in restored.items() for file in each.files}
        found: dict[tuple[ChainUid, str], list[str]] = {}
        for executor, answer in ask_all(self._fleet, "has", asked.model_dump(mode="json"), _HOLDINGS_SECONDS).items():
            for path in {path for paths in HasFiles.model_validate(answer).files.values() for path in paths}:
                found.setdefault((producers[path], path.rpartition("/")[2]), []).append(executor)
        return found

    def of(self, producer: ChainUid, location: str) -> StreamOnExecutors:
        """Return the files of a chain's stream, given its directory as a `job:/…` path."""
        self.has_streams = True
        return StreamOnExecutors(self, producer, location)

    def check(self) -> None:
        """Check that all executors with segments are there; each loss from now on is noticed.

        Raises:
            ExecutorLost: one is not.
        """
        with self._lock:
            there = self._places.executors()
        self._check_live(there)

    def written(self, producer: ChainUid, executors: Mapping[str, str]) -> None:
        """Note by which executors segments of a chain were written. Raises ExecutorLost if one is gone with them."""
        with self._lock:
            self._places.written(producer, executors)
        # The loss of an executor that comes later ends the epoch, since it has segments now.
        self._check_live(executors.values())

    def _check_live(self, executors: Iterable[str]) -> None:
        if gone := set(executors) - {each.id for each in self._fleet.live()}:
            raise ExecutorLost(f"Executor {', '.join(sorted(gone))} was lost with rows that nobody has read yet")

    def executor_of(self, producer: ChainUid, name: str) -> Executor:
        """Return the executor on which a segment is. Raises ExecutorLost if it is gone."""
        with self._lock:
            owner = self._places.owner(producer, name)
        found = next((each for each in self._fleet.live() if each.id == owner), None)
        if found is None:
            raise ExecutorLost(f"Executor {owner} was lost with rows of chain {producer!r} that nobody has read yet")
        return found

    def producers_on(self, executor: str) -> frozenset[ChainUid]:
        """Return the chains of whose output an executor has rows that somebody has still to read."""
        with self._lock:
            return self._places.producers_on(executor)

    def keep(self, checkpoint: CheckpointId, chain: ChainUid, segments: SegmentNames, progress: Progress) -> Kept:
        """Ask executors to hold the segments in flight of a chain's cut; return them by executor when they do.

        Args:
            chain: the chain that stores them.
            progress: cancels.

        Raises:
            UploadCancelled: the checkpoint was aborted.
            ExecutorLost: an executor was lost.
            CommandFailed: an executor cannot hold them.
        """
        with self._lock:
            epoch, kept = self._places.epoch, self._places.split(segments)
        answers = [
            self._fleet.tell(
                executor,
                "keep",
                KeepSegments(epoch=epoch, checkpoint=checkpoint, chain=chain, segments=mine).model_dump(mode="json"),
            )
            for executor, mine in kept.items()
        ]
        for answer in answers:
            result_of(answer, progress)
        return kept

    def drop(self, producer: ChainUid, names: Sequence[str]) -> None:
        """Ask executors to delete, soon, segments that nobody needs any more."""
        now = self._clock()
        with self._lock:
            for executor, mine in self._places.drop(producer, names).items():
                untold = self._untold.segments.setdefault(executor, {})
                for each, dropped in mine.items():
                    untold.setdefault(each, []).extend(dropped)
            if now - self._untold.since < _DROP_SECONDS:
                return
        self.tell_dropped()

    def tell_dropped(self) -> None:
        """Ask executors to delete now what they may delete."""
        with self._lock:
            epoch, untold = self._places.epoch, self._untold.segments
            self._untold = _Untold(self._clock())
        for executor, segments in untold.items():
            # One that does not do it does it when the epoch is over.
            body = DropSegments(epoch=epoch, segments={chain: tuple(names) for chain, names in segments.items()})
            self._fleet.tell(executor, "drop", body.model_dump(mode="json"))

    def _segment(self, name: str, instance: str, body: bytes) -> BaseModel:
        asked = SegmentAsked.model_validate_json(body)
        self._fleet.check(asked.executor, instance)
        try:
            segment = SegmentFile.at(asked.path)
            with self._lock:
                source = self._places.bring(segment, asked.executor)
                restored, home = self._restored.get(segment.producer), self._home
        except SegmentRefused as error:
            raise RefusedByDriver(error.what) from None
        if source.file is not None and restored is not None:
            return SegmentSource(home=home, holders=restored.holders, file=source.file)
        return SegmentSource(home=self._store, holders=(), file=source.file or self._share(asked.path, source.owner))

    def _share(self, path: str, owner: str) -> FileRef:
        """Ask the executor that wrote a segment to store it."""
        body = ShareSegment(path=path).model_dump(mode="json")
        file = FileRef.model_validate(self._fleet.ask(owner, "share", body, _SHARE_SECONDS))
        with self._lock:
            self._places.shared(SegmentFile.at(path), file)
        return file

    def _lend_key(self, name: str, instance: str, body: bytes) -> BaseModel:
        asked = Lend.model_validate_json(body)
        self._fleet.check(asked.executor, instance)
        with self._lock:
            lend = self._lend
        if lend is None:
            raise RefusedByDriver("No epoch has begun")
        return Allocated(key=lend(asked.sha256))


class StreamOnExecutors:
    """The files of one chain's stream: each executor has those that it wrote.

    Args:
        location: the directory, as a `job:/…` path.
    """

    def __init__(self, segments: SegmentsOnExecutors, producer: ChainUid, location: str) -> None:
        self._segments = segments
        self._producer = producer
        self.location = location

    def written(self, executors: Mapping[str, str]) -> None:
        """Note by which executors new segments were written. Raises ExecutorLost if one is gone with them."""
        self._segments.written(self._producer, executors)

    def place(self, name: str) -> str:
        """Return where Spark should read a segment. Raises ExecutorLost if its executor is gone."""
        executor = self._segments.executor_of(self._producer, name)
        return f"executor_{executor.host}_{executor.id}"

    def drop(self, names: Sequence[str]) -> None:
        """Delete segments, soon."""
        self._segments.drop(self._producer, names)


def _name(file: FileRef) -> str:
    return file.path.rpartition("/")[2]
