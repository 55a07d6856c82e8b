"""Everything around the processes: the store and its network, the sink and the clock, under an oracle's eyes.

A schedule is a string of choices. Each picks what happens next, down to a single request to the store; when it is used
up, everything goes on in turn and nothing fails any more. Choice 0 is always the harmless one, so a failing schedule
shrinks towards one without faults.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from enum import Enum, auto

from tests.simulation.model import Row
from tests.simulation.oracle import Oracle
from tests.virtual_clock import VirtualClock

from streamjob.ids import Attempt, CheckpointId, Epoch, Key, LogSeq
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord
from streamjob.store.base import StoreUnavailable
from streamjob.store.effects import Delete, Get, Hash, List, Page, Put, PutIfAbsent, StoreEffect
from streamjob.store.hashing import hash_parts


class Choices:
    """The schedule: numbers drawn one by one; all 0 when they are used up."""

    def __init__(self, drawn: bytes) -> None:
        self._drawn = drawn
        self._at = 0

    @classmethod
    def seeded(cls, seed: int, length: int) -> Choices:
        """Return a schedule from a seed."""
        return cls(random.Random(seed).randbytes(length))

    @property
    def used_up(self) -> bool:
        """Whether only 0 is left."""
        return self._at >= len(self._drawn)

    def pick(self, count: int) -> int:
        """Return a number from 0 to below `count`."""
        if count <= 1 or self.used_up:
            return 0
        self._at += 1
        return self._drawn[self._at - 1] % count

    def in_percent(self, share: int) -> bool:
        """Return True in `share` of 100 draws."""
        return self.pick(100) >= 100 - share


class Fault(Enum):
    """The fate of a request."""

    NONE = auto()
    REFUSED = auto()
    """It is not applied; the caller sees that the store is unavailable."""
    UNANSWERED = auto()
    """It is applied; the caller sees that the store is unavailable."""
    LATE = auto()
    """The caller sees that the store is unavailable; it is applied at a later moment."""
    REPEATED = auto()
    """It is applied and answered, and applied once more at some later moment."""


class World(ABC):
    """The store, the sink and the clock, shared by all processes."""

    def __init__(self, choices: Choices, oracle: Oracle) -> None:
        self.choices = choices
        self.clock = VirtualClock(1000.0)
        self.store = oracle.store
        self.sink = oracle.sink
        self.oracle = oracle
        self.late: list[StoreEffect] = []
        self.trace: list[str] = []
        self.highest_attempt = Attempt(0)

    @abstractmethod
    def end_inputs(self) -> None:
        """Let every input without an end come to its end soon."""

    def change(self) -> bool:
        """Let the job be another from the next process on; return whether it is."""
        return False

    def note(self, line: str) -> None:
        """Add a line to the story that a failing test tells."""
        self.trace.append(line)

    def request(self, who: str, effect: StoreEffect, fault: Fault) -> object:
        """Carry a request to the store, as well as the fault lets it. Raises StoreUnavailable, ObjectMissing."""
        self.note(f"{who}: {_brief(effect)}{'' if fault is Fault.NONE else ' ' + fault.name}")
        writes = isinstance(effect, Put | PutIfAbsent | Delete)
        if fault is Fault.REFUSED or (fault is Fault.LATE and not writes):
            raise StoreUnavailable("503")
        if fault is Fault.LATE:
            self.late.append(effect)
            raise StoreUnavailable("timeout")
        reply = self.apply(effect)
        if fault is Fault.UNANSWERED:
            raise StoreUnavailable("timeout")
        if fault is Fault.REPEATED and writes:
            self.late.append(effect)
        return reply

    def is_edge(self, effect: object) -> bool:
        """Whether an effect would create a record right below the log, under a number that was pruned."""
        if not isinstance(effect, PutIfAbsent):
            return False
        seq, stored = keys.log_seq(effect.key), self.store.objects
        return (
            seq is not None
            and self.store.uri + effect.key not in stored
            and self.store.uri + keys.log_record(LogSeq(seq + 1)) in stored
        )

    def deliver_late(self, index: int) -> None:
        """Let a request that was held up reach the store."""
        effect = self.late.pop(index)
        self.note(f"network: {_brief(effect)} arrives late")
        self.apply(effect)

    def apply(self, effect: StoreEffect) -> object:
        """Do in the store what a request asks for, and let the oracle see it."""
        match effect:
            case Get(reference):
                return self.store.get(Key(reference.removeprefix(self.store.uri)))
            case Put(key, content):
                self.store.put(key, content)
                return None
            case PutIfAbsent(key, content):
                created = self.store.put_if_absent(key, content)
                if created and keys.log_seq(key) is not None:
                    self.oracle.log_created(key, content)
                return created
            case List(prefix, start_after, limit):
                # Small pages, so that what happens between two of them matters.
                objects = tuple(self.store.list(prefix, start_after))
                size = min(limit, 3)
                return Page(objects[:size], more=len(objects) > size)
            case Delete(doomed):
                self.store.delete(doomed)
                self.oracle.deleted()
                return None
            case Hash(parts):
                return hash_parts(parts, lambda key, *part: self.store.get_range(Key(key), *part), lambda _: True)

    def commit(self, checkpoint: int, names: tuple[str, ...]) -> None:
        """Publish in the sink."""
        self.sink.commit(CheckpointId(checkpoint), names)
        self.oracle.committed(names)

    def stage(self, name: str, epoch: Epoch, rows: tuple[Row, ...]) -> None:
        """Stage in the sink."""
        self.sink.stage(name, epoch, rows)


def _brief(effect: StoreEffect) -> str:
    match effect:
        case List(prefix, start_after, _):
            return f"List {prefix} after {start_after[-12:]}"
        case Delete(doomed):
            return "Delete " + ", ".join(key[-30:] for key in doomed)
        case Get(reference):
            return f"Get {reference[-30:]}"
        case Hash(parts):
            return f"Hash {len(parts)} parts"
        case PutIfAbsent(key, content) if keys.log_seq(key) is not None:
            record = LogRecord.model_validate_json(content)
            return f"PutIfAbsent {key[-10:]} {record.kind} {record.id} of epoch {record.epoch}"
        case _:
            return f"{type(effect).__name__} {effect.key[-30:]}"
