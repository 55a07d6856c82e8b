"""Everything around the processes: the store and its network, the sink, the clock, and an oracle that watches them all.

A schedule is a string of choices. Each picks what happens next, down to a single request to the store; when it is used
up, everything goes on in turn and nothing fails any more. Choice 0 is always the harmless one, so a failing schedule
shrinks towards one without faults.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import Enum, auto

from tests.simulation.model import ModelSink, Row, Source, committables_of, decode_state, sha256

from streamjob.ids import Attempt, CheckpointId, Epoch, Key, LogSeq
from streamjob.protocol.log import JobId, read
from streamjob.protocol.ownership import Claim
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import FileRef, Manifest
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import ObjectMissing, StoreUnavailable
from streamjob.store.effects import Delete, Get, GetUri, List, Page, Put, PutIfAbsent, StoreEffect, drive
from streamjob.testing.clock import VirtualClock
from streamjob.testing.memory_store import MemoryStore

JOB = JobId("default", "simulated")


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
    """What becomes of a request."""

    NONE = auto()
    REFUSED = auto()
    """It is not applied; the caller is told that the store is not available."""
    UNANSWERED = auto()
    """It is applied; the caller is told that the store is not available."""
    LATE = auto()
    """The caller is told that the store is not available; it is applied at some later moment."""
    REPEATED = auto()
    """It is applied and answered, and applied once more at some later moment."""


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass
class Oracle:
    """Watches the store and the sink, and knows what must hold whatever the processes think."""

    store: MemoryStore
    sink: ModelSink
    source: Source
    limit: int | None
    min_retained: int
    log: list[LogRecord] = field(default_factory=list)
    completions: list[tuple[LogRecord, Manifest]] = field(default_factory=list)
    subsumed: set[str] = field(default_factory=set)
    strays: int = 0
    strays_at_the_edge: int = 0
    forgotten_claims: int = 0

    @property
    def claims(self) -> list[LogRecord]:
        """The claims in the log."""
        return [record for record in self.log if record.kind is RecordKind.CLAIM]

    def log_created(self, key: Key, content: bytes) -> None:
        """Take in a log record that was just created."""
        record = LogRecord.model_validate_json(content)
        if record.seq < len(self.log):
            self.strays += 1
            self.strays_at_the_edge += self._exists(keys.log_record(LogSeq(record.seq + 1)))
            self.check_readers()
            return
        if record.seq > len(self.log):
            raise Violation(f"{key} leaves a gap above record {len(self.log) - 1}")
        self.log.append(record)
        if record.kind is RecordKind.CLAIM:
            if len(self.claims) > 1 and record.attempt < self.claims[-2].attempt:
                raise Violation(f"attempt {record.attempt} claims above attempt {self.claims[-2].attempt}")
            if record.epoch != len(self.claims):
                raise Violation(f"claim {record.seq} begins epoch {record.epoch}, the {len(self.claims)}th")
            return
        self._completed(record)

    def _completed(self, record: LogRecord) -> None:
        holder = self.claims[-1]
        if (record.epoch, record.owner) != (holder.epoch, holder.owner):
            raise Violation(f"epoch {record.epoch} completes {record.id} while epoch {holder.epoch} holds the log")
        if self.completions and self.completions[-1][0].kind is RecordKind.FINAL:
            raise Violation(f"{record.kind} {record.id} completes behind the final record")
        if self.completions and (record.id or 0) <= (self.completions[-1][0].id or 0):
            raise Violation(f"id {record.id} is used again")
        assert record.manifest is not None
        manifest = self.restorable(record)
        self._check_cut(record, manifest)
        self.completions.append((record, manifest))

    def restorable(self, record: LogRecord) -> Manifest:
        """Return the manifest of a completion, all of whose objects are there as they should be."""
        assert record.manifest is not None
        try:
            manifest = Manifest.model_validate_json(self.store.get(self._key(record.manifest)))
            for file in manifest.files():
                content = self._read(file)
                if sha256(content) != file.sha256:
                    raise Violation(f"{file.object} does not have what {record.kind} {record.id} put there")
        except ObjectMissing as error:
            raise Violation(f"{record.kind} {record.id} of epoch {record.epoch} cannot be restored: {error}") from error
        return manifest

    def position(self, manifest: Manifest | None) -> tuple[int, bool]:
        """Return how far a snapshot has read, and whether it has flushed the end of input."""
        if manifest is None:
            return 0, False
        position = manifest.sources[0].position
        assert isinstance(position, int)
        return position, manifest.operators[0].finished

    def _check_cut(self, record: LogRecord, manifest: Manifest) -> None:
        position, finished = self.position(manifest)
        files = {file.path: self._read(file) for file in manifest.files()}
        state, _ = self.source.fold({}, 0, position)
        if decode_state(files) != state:
            raise Violation(f"{record.kind} {record.id}: its state is not that of position {position}")
        before, had_finished = self.position(self.completions[-1][1] if self.completions else None)
        earlier, _ = self.source.fold({}, 0, before)
        _, expected = self.source.fold(earlier, before, position)
        if finished and not had_finished:
            expected += self.source.flush(state)
        named: list[Row] = []
        for name in committables_of(manifest.sinks):
            named += self.sink.ever_staged[name]
        if sorted(named) != sorted(expected):
            raise Violation(
                f"{record.kind} {record.id}: its committables are not the output from {before} to {position}: "
                f"{sorted(named)} instead of {sorted(expected)}"
            )

    def superseded(self, attempt: Attempt, held: Claim | None) -> None:
        """Check that a process that gave up had to."""
        last = self.claims[-1]
        if last.attempt <= attempt and held is not None and last == held.record:
            raise Violation(f"epoch {last.epoch} gave up as superseded, and nobody has claimed the log since")

    def deleted(self) -> None:
        """Check, after a deletion, that nothing retained has suffered."""
        own = [record for record, _ in self.completions if record.kind is not RecordKind.SAVEPOINT]
        for record in own[-self.min_retained :]:
            self.restorable(record)
        for record, _ in self.completions:
            assert record.manifest is not None
            if record.kind is RecordKind.SAVEPOINT:
                self.restorable(record)
            elif not self._exists(self._key(record.manifest)):
                self.subsumed.add(record.manifest)
            elif record.manifest not in self.subsumed:
                # What has its manifest is whole; a late request may bring a deleted one back, alone.
                self.restorable(record)
        if self.log and not self._exists(keys.log_record(self.log[-1].seq)):
            raise Violation("the log's highest record was deleted")
        self.forgotten_claims += bool(self.log) and not self._exists(keys.log_record(self.claims[-1].seq))
        self.check_readers()

    def check_readers(self) -> None:
        """Check that a reader sees the log's end as it was written; where a claim was written, maybe another one."""
        if not self.log:
            return
        seen = drive(self.store, read(JOB)).records
        if seen[-1] != self.log[-1]:
            raise Violation(f"a reader takes {seen[-1]} for the last record")
        for record in seen:
            written = self.log[record.seq]
            claims = record.kind is RecordKind.CLAIM and written.kind is RecordKind.CLAIM
            if record != written and not (claims and record.epoch == written.epoch):
                raise Violation(f"a stray counts for a reader: {record}")
        own = [record for record, _ in self.completions if record.kind is not RecordKind.SAVEPOINT]
        if not set(own[-self.min_retained :]) <= set(seen):
            raise Violation("the record of a retained checkpoint was pruned")

    def _key(self, reference: str) -> Key:
        return Key(reference.removeprefix(self.store.uri))

    def _read(self, file: FileRef) -> bytes:
        return self.store.get_range(self._key(file.object), file.offset, file.length)

    def _exists(self, key: Key) -> bool:
        return any(True for info in self.store.list(key) if info.key == key)

    def committed(self, names: tuple[str, ...]) -> None:
        """Check, after a publication, that the log names what was published, and that no row is there twice."""
        named = {name for _, manifest in self.completions for name in committables_of(manifest.sinks)}
        strangers = set(names) - named
        if strangers:
            raise Violation(f"{sorted(strangers)} are published, and the log does not name them")
        delivered = self.sink.delivered()
        if len(set(delivered)) != len(delivered):
            raise Violation("a row is published twice")

    def check_end(self, num_retained: int, limit: int, *, swept: bool) -> None:
        """Check, after a last quiet epoch, that all is published, and if it completed something, that nothing leaks."""
        if not self.completions or self.completions[-1][0].kind is not RecordKind.FINAL:
            raise Violation("the job did not finish")
        expected = Source(limit).batch_result()
        if self.sink.delivered() != expected:
            raise Violation("what the sink shows is not the batch's result")
        if self.sink.staged:
            raise Violation(f"{sorted(self.sink.staged)} stay staged for ever")
        if not swept:
            return
        own = [manifest for record, manifest in self.completions if record.kind is not RecordKind.SAVEPOINT]
        retained = own[-num_retained:]
        needed = {Key(name) for manifest in retained for name in manifest.objects()}
        needed |= {keys.manifest(manifest.epoch, manifest.id) for manifest in retained}
        stored = {
            info.key for prefix in (keys.CHECKPOINTS_PREFIX, keys.SHARED_PREFIX) for info in self.store.list(prefix)
        }
        if stored != needed:
            raise Violation(f"left behind: {sorted(stored - needed)}; missing: {sorted(needed - stored)}")


class World:
    """The store, the sink and the clock, shared by all processes."""

    def __init__(self, choices: Choices, *, source: Source, limit: int | None, min_retained: int) -> None:
        self.choices = choices
        self.clock = VirtualClock(1000.0)
        self.store = MemoryStore()
        self.sink = ModelSink()
        self.source = source
        self.limit = limit
        self.read_to = 0
        self.oracle = Oracle(self.store, self.sink, source, limit, min_retained)
        self.late: list[StoreEffect] = []
        self.trace: list[str] = []
        self.highest_attempt = Attempt(0)

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
        seq, stored = keys.log_seq(effect.key), self.store.bucket.objects
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
            case Get(key):
                return self.store.get(key)
            case GetUri(uri):
                return self.store.get(Key(uri.removeprefix(self.store.uri)))
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
        case GetUri(uri):
            return f"Get {uri}"
        case PutIfAbsent(key, content) if keys.log_seq(key) is not None:
            record = LogRecord.model_validate_json(content)
            return f"PutIfAbsent {key[-10:]} {record.kind} {record.id} of epoch {record.epoch}"
        case _:
            return f"{type(effect).__name__} {effect.key[-30:]}"
