"""Decides on which executor each segment of a job's channels is, and from where another executor gets it.

An executor writes segments to its own disk. The chains that read them run their tasks there. A segment that was in
flight in the restored snapshot is in the store; an executor is chosen for it, which downloads it before the first read.
A task that runs elsewhere gets its segment through the store, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streamjob.errors import StreamJobError
from streamjob.ids import ChainUid, Epoch
from streamjob.snapshot.manifest import FileRef

_SEGMENT = re.compile(r"/(\d+)/([^/]+)/stream/([^/]+\.arrow)")

SegmentNames = Mapping[ChainUid, tuple[str, ...]]
"""Names of segments by the chain that wrote them."""


class SegmentRefused(StreamJobError):
    """An executor may not have a segment."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment of a channel.

    Args:
        producer: the chain that wrote it.
        name: its name in the chain's stream.
    """

    epoch: Epoch
    producer: ChainUid
    name: str

    @staticmethod
    def at(path: str) -> SegmentFile:
        """Return the segment at the path of a `job:` URI.

        Raises:
            SegmentRefused: there is none.
        """
        found = _SEGMENT.fullmatch(path)
        if found is None:
            raise SegmentRefused(f"{path} is no segment of a channel")
        return SegmentFile(Epoch(int(found[1])), ChainUid(found[2]), found[3])


@dataclass(frozen=True, slots=True)
class Source:
    """Where an executor gets a segment: from the store; if it is not there, its owner has to share it first."""

    file: FileRef | None
    owner: str


_Name = tuple[ChainUid, str]


@dataclass
class SegmentPlaces:
    """The places of the segments of one epoch that are still needed.

    Args:
        restored: the files of the segments in flight in the restored snapshot.
    """

    epoch: Epoch
    restored: Mapping[_Name, FileRef] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._owners: dict[_Name, str] = {}
        self._copies: dict[_Name, set[str]] = {}
        self._shared: dict[_Name, FileRef] = {}

    def choose(self, slots: Mapping[str, int], holders: Mapping[_Name, Collection[str]]) -> None:
        """Choose an executor for each restored segment: one that holds its file, or else evenly by bytes and slots.

        Args:
            slots: the tasks that each executor runs at a time; not empty.
            holders: executors that hold the files of some segments.
        """
        load = dict.fromkeys(slots, 0)
        for name, file in self.restored.items():
            candidates = [each for each in holders.get(name, ()) if each in slots] or list(slots)
            chosen = min(candidates, key=lambda each: (load[each] + file.length) / slots[each])
            load[chosen] += file.length
            self._owners[name] = chosen

    def written(self, producer: ChainUid, executors: Mapping[str, str]) -> None:
        """Executors have written segments, by name."""
        for name, executor in executors.items():
            self._owners[producer, name] = executor

    def owner(self, producer: ChainUid, name: str) -> str:
        """Return the executor on which a segment is, or will be.

        Raises:
            SegmentRefused: nobody needs the segment any more.
        """
        owner = self._owners.get((producer, name))
        if owner is None:
            raise SegmentRefused(f"Segment {name} of chain {producer!r} is not needed any more")
        return owner

    def bring(self, segment: SegmentFile, executor: str) -> Source:
        """Let an executor have a segment; return where it gets it.

        Raises:
            SegmentRefused: the epoch is over, nobody needs the segment any more, or the executor itself has lost it.
        """
        if segment.epoch != self.epoch:
            raise SegmentRefused(f"Epoch {segment.epoch} is over: the job is in epoch {self.epoch}")
        name = (segment.producer, segment.name)
        owner, file = self.owner(*name), self.restored.get(name) or self._shared.get(name)
        if owner != executor:
            self._copies.setdefault(name, set()).add(executor)
        elif file is None:
            raise SegmentRefused(f"Executor {executor} has lost segment {segment.name} of chain {segment.producer!r}")
        return Source(file, owner)

    def shared(self, segment: SegmentFile, file: FileRef) -> None:
        """The owner of a segment has put it into the store."""
        self._shared[segment.producer, segment.name] = file

    def split(self, segments: SegmentNames) -> dict[str, dict[ChainUid, tuple[str, ...]]]:
        """Return segments by the executor that has them.

        Raises:
            SegmentRefused: nobody needs one of them any more.
        """
        return _grouped((self.owner(producer, name), producer, name) for producer, name in _each(segments))

    def drop(self, producer: ChainUid, names: Sequence[str]) -> dict[str, dict[ChainUid, tuple[str, ...]]]:
        """Forget segments; return them by the executors that have to delete them."""
        holders = []
        for name in names:
            owner = self._owners.pop((producer, name), None)
            copies = self._copies.pop((producer, name), set())
            self._shared.pop((producer, name), None)
            holders += [(each, producer, name) for each in ({owner} if owner is not None else set()) | copies]
        return _grouped(holders)

    def producers_on(self, executor: str) -> frozenset[ChainUid]:
        """Return the chains of which an executor has segments that are still needed."""
        return frozenset(producer for (producer, _), owner in self._owners.items() if owner == executor)

    def executors(self) -> frozenset[str]:
        """Return the executors with segments that are still needed."""
        return frozenset(self._owners.values())


def _each(segments: SegmentNames) -> Iterable[_Name]:
    return ((producer, name) for producer, names in segments.items() for name in names)


def _grouped(holders: Iterable[tuple[str, ChainUid, str]]) -> dict[str, dict[ChainUid, tuple[str, ...]]]:
    found: dict[str, dict[ChainUid, list[str]]] = {}
    for executor, producer, name in holders:
        found.setdefault(executor, {}).setdefault(producer, []).append(name)
    return {executor: {producer: tuple(names) for producer, names in mine.items()} for executor, mine in found.items()}
