"""Brokers in memory, with what the sink relies on: fencing, and transactions that hold a record and rows together.

Each effect on them or on the store is a moment at which a process may die; some die when the effect has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from streamjob.ids import CheckpointId, Epoch, OperatorUid
from streamjob.sink import SinkContext
from streamjob.store.staging import StoreStaging
from streamjob.testing.interception import Crash
from streamjob.testing.memory_store import MemoryStore
from streamjob_runtime.kafka.admin import Topic
from streamjob_runtime.sinks.kafka.errors import ProducerFenced
from streamjob_runtime.sinks.kafka.sink import KafkaSink
from streamjob_runtime.sinks.kafka.transactions import Kafka

UID = OperatorUid("alerts")
OPTIONS = {"kafka.bootstrap.servers": "broker:9092", "topic": "alerts"}


@dataclass
class BrokersAndStore:
    """The parts that outlive processes: the brokers and the store."""

    scratch: Path
    store: MemoryStore = field(default_factory=MemoryStore)
    rows: list[str] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    generation: int = 0
    topic_id: str | None = "id-of-alerts"
    """None while there is no topic for the rows: the brokers make it."""
    dies_in: int | None = None
    before_fencing: Callable[[], None] = lambda: None
    """What others do at the last moment before a producer fences them off."""

    def moment(self) -> None:
        """Die, if it is time."""
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                self.dies_in = None
                raise Crash

    def open(self, epoch: int) -> KafkaSink:
        """Return the sink of a new process."""
        sink = KafkaSink("alerts", cast(Any, lambda: None), brokers=lambda *_: cast(Kafka, _Brokers(self)))
        staging = _MortalStaging(self, Epoch(epoch))
        sink.open(SinkContext("job", "default", UID, Epoch(epoch), OPTIONS, staging))
        return sink

    def stage(self, epoch: int, *rows: str) -> dict[str, Any]:
        """Stage a batch, each row in an object of its own, and return its committable."""
        staging = StoreStaging(self.store, UID, Epoch(epoch), self.scratch)
        return {"formatVersion": 2, "names": [staging.put(row.encode()) for row in rows], "rows": len(rows)}

    def staged(self) -> int:
        """Return how many batches are staged."""
        return len(list(self.store.list("staged/")))


def commit(sink: KafkaSink, checkpoint: int, committables: Iterable[Any]) -> None:
    """Commit a checkpoint."""
    sink.commit(CheckpointId(checkpoint), list(committables))


class _MortalStaging(StoreStaging):
    def __init__(self, world: BrokersAndStore, epoch: Epoch) -> None:
        super().__init__(world.store, UID, epoch, world.scratch)
        self._world = world

    def fetch(self, name: str, target: Path) -> bool:
        self._world.moment()
        return super().fetch(name, target)

    def delete(self, names: Iterable[str]) -> None:
        # The store may take only some of them before it fails.
        for name in names:
            self._world.moment()
            super().delete([name])


class _Brokers:
    def __init__(self, world: BrokersAndStore) -> None:
        self._world = world

    @contextmanager
    def admin(self) -> Iterator[_Brokers]:
        yield self

    def describe(self, topic: str) -> Topic | None:
        if topic != OPTIONS["topic"]:
            return Topic(1, True, True, {})
        return None if self._world.topic_id is None else Topic(1, True, True, {}, self._world.topic_id)

    def makes_topics(self) -> bool:
        return True

    def newest(self, topic: str, partitions: Sequence[int], key: str) -> str | None:
        self._world.moment()
        return self._world.records[-1] if self._world.records else None

    def producer(self) -> _Producer:
        return _Producer(self._world)


class _Producer:
    def __init__(self, world: BrokersAndStore) -> None:
        self._world = world
        self._generation = -1
        self._rows: list[str] = []
        self._records: list[str] = []

    def open(self) -> None:
        self._world.moment()
        self._world.before_fencing()
        self._world.generation += 1
        self._generation = self._world.generation
        self._world.moment()

    def begin(self) -> None:
        self._rows, self._records = [], []

    def send(self, file: Path, doing: str) -> int:
        self._check()
        self._rows.append(file.read_text())
        return 1

    def record(self, topic: str, partition: int, key: str, value: str, doing: str) -> None:
        self._check()
        self._records.append(value)

    def commit(self, doing: str) -> None:
        self._check()
        self._world.rows += self._rows
        self._world.records += self._records
        self._world.moment()

    def close(self) -> None:
        pass

    def _check(self) -> None:
        self._world.moment()
        if self._generation != self._world.generation:
            raise ProducerFenced("sink alerts: another process makes transactions")
