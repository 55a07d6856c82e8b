"""One store and one sink, and an observer who sees all that is done to them and checks what must always hold."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cache

from pydantic import JsonValue
from tests.simulated_store import Outcome, SimulatedStore

from streamjob.ids import CheckpointId, Epoch, Key, LogSeq, OperatorUid
from streamjob.protocol.log.claiming import CreateOutside, Marker
from streamjob.protocol.log.committing import Abort, Commit, SinkEffect
from streamjob.protocol.log.records import JOBS_OWN, JobId, follows, read
from streamjob.protocol.manifests.stored_manifests import read_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import StoreUnavailable
from streamjob.store.effects import Delete, Put, PutIfAbsent, StoreEffect

JOB = JobId("tests", "job")
SINK = OperatorUid("sink")
FILES = 3


@dataclass(frozen=True)
class Stage:
    """Write a batch where no reader of the sink sees it."""

    epoch: Epoch
    start: int
    stop: int


Effect = StoreEffect | SinkEffect | Stage | CreateOutside


class ModelSink:
    """Renames what was staged when it is committed; remembers how often each batch became visible."""

    def __init__(self) -> None:
        self.staged: set[Stage] = set()
        self.shown: Counter[Stage] = Counter()

    def perform(self, effect: Stage | SinkEffect) -> None:
        match effect:
            case Stage():
                self.staged.add(effect)
            case Commit(_, output):
                for batch in (batch_of(each) for sink in output for each in sink.committables):
                    if batch in self.staged:
                        self.staged.remove(batch)
                        self.shown[batch] += 1
            case Abort(_, before):
                self.staged = {batch for batch in self.staged if batch.epoch >= before}


@cache
def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def batch_of(committable: JsonValue) -> Stage:
    assert isinstance(committable, list)
    epoch, start, stop = committable
    assert isinstance(epoch, int) and isinstance(start, int) and isinstance(stop, int)  # noqa: PT018
    return Stage(Epoch(epoch), start, stop)


def contents(position: int) -> dict[str, bytes]:
    """The job's state after `position` batches: of its files some change, some stay, and some come back."""
    return {f"f{n}": b"%d:%d" % (n, (position // (n + 1)) % 2) for n in range(FILES)}


class ObservedStore:
    """The store, the sink, and what an all-seeing observer knows of them."""

    def __init__(self) -> None:
        self.store = SimulatedStore()
        self.sink = ModelSink()
        self.num_retained = 3
        self.log: list[LogRecord] = []
        self.manifests: dict[tuple[Epoch, CheckpointId], Manifest] = {}
        self.encoded: dict[tuple[Epoch, CheckpointId], bytes] = {}
        self.bytes: dict[str, bytes] = {}
        self.forked = False
        self.strays = 0
        self.strays_at_the_edge = 0
        self.claimed: list[LogRecord] = []
        self.completed = 0

    def perform(self, effect: Effect, outcome: Outcome) -> object:
        if isinstance(effect, Stage | SinkEffect):
            self._perform_in_sink(effect, outcome)
            return None
        if isinstance(effect, CreateOutside):
            effect = PutIfAbsent(Key(effect.uri.removeprefix(self.store.root)), effect.content)
        before = len(self.store.objects)
        try:
            return self.store.perform(effect, outcome)
        finally:
            self._observe(effect, grown=len(self.store.objects) > before)

    def land(self, number: int) -> None:
        if self.store.late:
            before = len(self.store.objects)
            effect = self.store.land(number)
            self._observe(effect, grown=len(self.store.objects) > before)

    def _perform_in_sink(self, effect: Stage | SinkEffect, outcome: Outcome) -> None:
        if outcome in (Outcome.DONE, Outcome.REPLY_LOST):
            self.sink.perform(effect)
            self.check_sink()
        if outcome is not Outcome.DONE:
            raise StoreUnavailable("the sink got no answer")

    def _observe(self, effect: StoreEffect, *, grown: bool) -> None:
        match effect:
            case PutIfAbsent(key, content) if grown and keys.log_seq(key) is not None:
                self._observe_record(LogRecord.model_validate_json(content))
                self.check_restorable()
            case Put(key, _) if keys.shared_epoch(key) is not None:
                assert key not in self.bytes or self.store.objects.get(key, self.bytes[key]) == self.bytes[key]
            case Delete():
                self.check_restorable()
                self.check_readers()

    def _observe_record(self, record: LogRecord) -> None:
        assert record.seq <= len(self.log), "a record left a gap in the log"
        if record.seq < len(self.log):
            self.strays += 1
            self.strays_at_the_edge += keys.log_record(LogSeq(record.seq + 1)) in self.store.objects
            self.check_readers()
            return
        assert not self.log or follows(self.log[-1], record), "an epoch wrote above a later claim"
        if record.completes:
            self.check_published(self.completions[-1:])
            finished = bool(self.completions) and self.completions[-1].kind is RecordKind.FINAL
            assert not finished or self.forked, "something was completed after the final checkpoint"
        self.log.append(record)

    def check_readers(self) -> None:
        """Readers of the log now see its end as it was written; if a claim was written, perhaps another claim."""
        if not self.log:
            return
        seen = self.store.run(read(JOB)).records
        assert seen[-1] == self.log[-1]
        for record in seen:
            written = self.log[record.seq]
            both_claim = record.kind is RecordKind.CLAIM and written.kind is RecordKind.CLAIM
            assert record == written or (both_claim and record.epoch == written.epoch), f"{record} is a stray"
        own = [record for record in self.completions if record.kind in JOBS_OWN]
        assert set(own[-self.num_retained :]) <= set(seen), "a retained checkpoint is not in the log any more"

    @property
    def completions(self) -> list[LogRecord]:
        return [record for record in self.log if record.completes]

    def manifest_of(self, record: LogRecord) -> Manifest:
        assert record.id is not None
        return self.manifests[record.epoch, record.id]

    def retained(self) -> list[LogRecord]:
        """The newest checkpoints, as many as every owner retains, and all savepoints."""
        own = [record for record in self.completions if record.kind in JOBS_OWN]
        savepoints = [record for record in self.completions if record.kind is RecordKind.SAVEPOINT]
        return own[-self.num_retained :] + savepoints

    def check_restorable(self) -> None:
        """Retained snapshots exist, and every snapshot with a manifest is complete."""
        for record in self.completions:
            if Key(str(record.manifest)) not in self.store.objects:
                assert record not in self.retained(), f"retained {record.kind} {record.id} is gone"
                assert record not in self.claimed, f"claimed {record.kind} {record.id} is gone"
                continue
            manifest = self.manifest_of(record)
            assert self.store.objects.get(Key(str(record.manifest))) == self.encoded[record.epoch, manifest.id]
            for file in manifest.files():
                stored = self.store.objects.get(Key(file.object))
                assert stored is not None, f"{file.object} of {record.kind} {record.id} is gone"
                assert sha256_of(stored) == file.sha256

    def check_published(self, completions: list[LogRecord]) -> None:
        for record in completions:
            for committable in self.manifest_of(record).sinks[0].committables:
                assert self.sink.shown[batch_of(committable)] == 1, f"{committable} of {record.id} is not committed"

    def check_sink(self) -> None:
        named = {batch_of(c) for record in self.completions for c in self.manifest_of(record).sinks[0].committables}
        for batch, times in self.sink.shown.items():
            assert times == 1, f"{batch} was committed {times} times"
            assert batch in named, f"{batch} is committed, and the log does not name it"

    def check_complete_output(self) -> None:
        """Everything up to the last cut is visible, without a gap and without an overlap."""
        if self.completions and not self.forked:
            end = position_of(self.manifest_of(self.completions[-1]))
            rows = sorted(row for batch in self.sink.shown for row in range(batch.start, batch.stop))
            assert rows == list(range(end))

    def check_no_garbage(self, claimed: LogSeq) -> None:
        """Nothing is left but what retained checkpoints and savepoints need, and the end of the log."""
        own = [record for record in self.retained() if record.kind in JOBS_OWN]
        needed = {str(record.manifest) for record in own}
        needed |= {name for record in own for name in self.manifest_of(record).objects()}
        lowest = own[0].seq if own else claimed
        needed |= {keys.log_record(record.seq) for record in self.log if record.seq >= lowest}
        for key in self.store.objects:
            manifest = keys.marked_manifest(key)
            if manifest is None or manifest not in self.store.objects:
                continue
            needed.add(key)
            if Marker.model_validate_json(self.store.objects[key]).kind == "claim":
                needed |= {manifest, *self.store.run(read_manifest(manifest)).objects()}
        left = {key for key in self.store.objects if not key.startswith("savepoints/")}
        # A record whose writer died right afterwards has no copy.
        copies = {key for key in left if key.startswith(keys.COPIES_PREFIX)}
        assert copies <= {keys.record_copy(record.seq) for record in self.log if record.seq >= lowest}
        assert left - copies == needed
        assert not self.sink.staged


def position_of(manifest: Manifest) -> int:
    position = manifest.sources[0].position
    assert isinstance(position, int)
    return position
