"""Invariants regardless of the processes' beliefs: the log is linear, and retained snapshots can be restored."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tests.simulation.model import ModelSink, committables_of, sha256

from streamjob.ids import Attempt, Key, LogSeq
from streamjob.protocol.coordination.triggers import TriggerState, TriggerStatus
from streamjob.protocol.log.ownership import Claim
from streamjob.protocol.log.records import JobId, read
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import FileRef, Manifest
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import StoreError
from streamjob.store.effects import drive
from streamjob.testing.memory_store import MemoryStore

JOB = JobId("default", "simulated")


class Violation(AssertionError):
    """An invariant does not hold."""


class Oracle(ABC):
    """Watches the store and the sink; what a cut must hold, the job's own oracle knows."""

    def __init__(self, store: MemoryStore, sink: ModelSink, min_retained: int) -> None:
        self.store = store
        self.sink = sink
        self.min_retained = min_retained
        self.log: list[LogRecord] = []
        self.completions: list[tuple[LogRecord, Manifest]] = []
        self.subsumed: set[str] = set()
        self.strays = 0
        self.strays_at_the_edge = 0
        self.forgotten_claims = 0
        self.drains_failed = 0

    @abstractmethod
    def check_cut(self, record: LogRecord, manifest: Manifest) -> None:
        """Check that a completion is a consistent cut; the earlier ones are in `completions`."""

    @abstractmethod
    def check_result(self) -> None:
        """Check, at the end, that what the sink shows is the batch's result."""

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
        self.check_cut(record, manifest)
        self.completions.append((record, manifest))

    def restorable(self, record: LogRecord) -> Manifest:
        """Return the manifest of a completion, all of whose objects are there as they should be."""
        assert record.manifest is not None
        try:
            manifest = Manifest.model_validate_json(self.store.get(self._key(record.manifest)))
            for file in manifest.files():
                content = self.read(file)
                if sha256(content) != file.sha256:
                    raise Violation(f"{file.object} does not have what {record.kind} {record.id} put there")
        except StoreError as error:
            raise Violation(f"{record.kind} {record.id} of epoch {record.epoch} cannot be restored: {error}") from error
        return manifest

    def stops(self, record: LogRecord) -> None:
        """Check that a job that ends with a snapshot has committed all output that its log names up to there."""
        delivered = self.sink.visible.keys() | self.sink.consumed.keys()
        for completion, manifest in self.completions:
            if completion.seq <= record.seq and not delivered >= set(committables_of(manifest.sinks)):
                raise Violation(f"the job stops behind {record.kind} {record.id}, and {completion.id} is not committed")

    def tells_of_drain(self, outcome: TriggerStatus) -> None:
        """Check that the caller of a drain receives a drained snapshot or a failure."""
        self.drains_failed += outcome.state is TriggerState.FAILED
        drained = {manifest.id for _, manifest in self.completions if manifest.drained}
        if outcome.state is TriggerState.COMPLETED and outcome.checkpoint not in drained:
            raise Violation(f"a drain is said to have succeeded behind {outcome.checkpoint}, which is not drained")

    def superseded(self, attempt: Attempt, claim: Claim | None) -> None:
        """Check that a process that gave up had to."""
        last = self.claims[-1]
        if last.attempt <= attempt and claim is not None and last == claim.record:
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
                # Every snapshot with a manifest is complete; a late request may bring a deleted manifest back, alone.
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

    def read(self, file: FileRef) -> bytes:
        return self.store.get_range(self._key(file.object), file.offset, file.length)

    def _exists(self, key: Key) -> bool:
        return any(True for info in self.store.list(key) if info.key == key)

    def committed(self, names: tuple[str, ...]) -> None:
        """Check, after a commit, that the log names what was committed, and that no row is there twice."""
        named = {name for _, manifest in self.completions for name in committables_of(manifest.sinks)}
        strangers = set(names) - named
        if strangers:
            raise Violation(f"{sorted(strangers)} are committed, and the log does not name them")
        delivered = self.sink.delivered()
        if len(set(delivered)) != len(delivered):
            raise Violation("a row is committed twice")

    def check_end(self, num_retained: int, *, recovered: bool, swept: bool) -> None:
        """Check, after a last quiet epoch, that all is committed and that nothing leaks.

        Args:
            num_retained: how many checkpoints are retained.
            recovered: the quiet epoch also began quietly, so that nothing was staged after its beginning in vain.
            swept: the quiet epoch has moreover completed something, so that nothing superfluous is left in the store.
        """
        if not self.completions or self.completions[-1][0].kind is not RecordKind.FINAL:
            raise Violation("the job did not finish")
        self.check_result()
        if recovered and self.sink.staged:
            raise Violation(f"{sorted(self.sink.staged)} stay staged for ever")
        if not swept:
            return
        own = [(record, manifest) for record, manifest in self.completions if record.kind is not RecordKind.SAVEPOINT]
        # An earlier process may have retained fewer.
        retained = [manifest for record, manifest in own[-num_retained:] if record.manifest not in self.subsumed]
        needed = {Key(name) for manifest in retained for name in manifest.objects()}
        needed |= {keys.manifest(manifest.epoch, manifest.id) for manifest in retained}
        stored = {
            info.key for prefix in (keys.CHECKPOINTS_PREFIX, keys.SHARED_PREFIX) for info in self.store.list(prefix)
        }
        # An earlier process that retained fewer may have come to the mark of a deletion, and no further.
        left = {key for key in stored - needed if keys.marked_manifest(key) not in needed}
        if left or not needed <= stored:
            raise Violation(f"left behind: {sorted(left)}; missing: {sorted(needed - stored)}")
