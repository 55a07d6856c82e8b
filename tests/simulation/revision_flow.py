"""The results of rows in a job's revision, as arithmetic: operator by operator, regardless of chains."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulation.revisions import Revision, Step

from streamjob.ids import OperatorUid


class Item(NamedTuple):
    """A row; `marks` has the operators that have numbered it, with its number and a hash of the content."""

    id: str
    key: int
    time: int
    marks: tuple[tuple[OperatorUid, int, int], ...] = ()

    def marked(self, uid: OperatorUid, number: int) -> Item:
        """Return the row as an operator has numbered it."""
        return self._replace(marks=(*self.marks, (uid, number, zlib.crc32(self.id.encode()))))


def source_items(uid: OperatorUid, start: int, end: int) -> list[Item]:
    """Return the rows of a source from an offset to below another; half of them have one key."""
    return [Item(f"{uid}.{time}", 3 if time % 2 else time % 3, time) for time in range(start, end)]


def partition_of(key: int, partitions: int) -> int:
    """Return the state partition that holds a key."""
    return hashlib.sha256(str(key).encode()).digest()[0] % partitions


def take(step: Step, item: Item, *, again: bool) -> Item | None:
    """Return a row as an operator hands it on; None for one that has gone round often enough."""
    if not again:
        return item._replace(id=f"{step.uid}({item.id})")
    mark = f"{step.uid}~("
    return None if item.id.count(mark) == step.laps else item._replace(id=f"{mark}{item.id})")


def encode(items: Sequence[Item]) -> bytes:
    """Return the content of a segment."""
    return json.dumps(items).encode()


def decode(content: bytes) -> list[Item]:
    """Return the rows of a segment."""
    return [
        Item(name, key, time, tuple((uid, number, what) for uid, number, what in marks))
        for name, key, time, marks in json.loads(content)
    ]


@dataclass
class Flow:
    """The results of rows: how often each reaches each sink, and how many of a key each operator numbers."""

    rows: Counter[tuple[OperatorUid, str]] = field(default_factory=Counter)
    counts: Counter[tuple[OperatorUid, int]] = field(default_factory=Counter)


class Arrival(NamedTuple):
    """A row before an operator that reads it, through feedback or not."""

    step: Step
    item: Item
    again: bool


def arrivals(revision: Revision, uid: OperatorUid, items: Iterable[Item]) -> list[Arrival]:
    """Return rows of a source or an operator before all who read it."""
    readers = revision.readers(uid)
    return [Arrival(reader, item, reader.feedback == uid) for item in items for reader in readers]


def run_out(revision: Revision, waiting: Iterable[Arrival]) -> Flow:
    """Return what comes of rows that are on their way if nothing else comes."""
    flow = Flow()
    queue = deque(waiting)
    while queue:
        step, item, again = queue.popleft()
        taken = take(step, item, again=again)
        if taken is None:
            continue
        if step.counts:
            flow.counts[step.uid, taken.key] += 1
        for sink in revision.outputs:
            if sink.input == step.uid:
                flow.rows[sink.uid, taken.id] += 1
        queue.extend(arrivals(revision, step.uid, [taken]))
    return flow
