"""A job that changes from one process to the next: its revisions and inputs, and what its snapshots must be."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tests.simulation.model import ModelSink
from tests.simulation.oracle import Oracle, Violation
from tests.simulation.revision_flow import (
    Arrival,
    Item,
    arrivals,
    decode,
    partition_of,
    run_out,
    source_items,
)
from tests.simulation.revisions import HARMLESS, Revision, change
from tests.simulation.world import Choices, World

from streamjob.errors import CannotRestore
from streamjob.ids import ChainUid, Epoch, OperatorUid
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChannelState, Manifest
from streamjob.snapshot.record import LogRecord
from streamjob.testing.memory_store import MemoryStore

LIMITS = (12, 5, 30)
_STATE = re.compile(r"state/(\d+)/(\d+)/1\.zip")


def revision_of(manifest: Manifest) -> int:
    """Return the number of the revision that a snapshot is of."""
    return int(manifest.graph["revision"])


def positions_in(manifest: Manifest | None) -> dict[OperatorUid, int]:
    """Return how far a snapshot has read its sources."""
    found = {each.uid: each.position for each in manifest.sources} if manifest else {}
    return {uid: position if isinstance(position, int) else 0 for uid, position in found.items()}


def parse_row(name: str) -> tuple[OperatorUid, str, list[tuple[str, int, int]]]:
    """Return the sink, the row and its marks that the name of what a sink got tells."""
    sink, identity, marks = name.split("|")
    return OperatorUid(sink), identity, [tuple(mark) for mark in json.loads(marks)]


class ChangedOracle(Oracle):
    """Knows that every row goes once through each operator that reads it, by the graph in force when it comes there.

    Between two checkpoints of one revision, the sinks' content and pending rows grow by the results of the rows that
    the sources have read, and so do the operators' counts. After a change, they are the previous content plus the
    results, by the new graph, of the rows that were on their way.
    """

    def __init__(self, revisions: Mapping[int, Revision], limits: Mapping[OperatorUid, int | None]) -> None:
        super().__init__(MemoryStore(), ModelSink(), 1)
        self.revisions = revisions
        self.limits = limits
        self.moments: Counter[str] = Counter()
        self._put_out: Counter[tuple[OperatorUid, str]] = Counter()
        self._rows: Counter[tuple[OperatorUid, str]] = Counter()
        self._counts: Counter[tuple[OperatorUid, int]] = Counter()
        self._numbered: dict[tuple[str, int, int], int] = {}
        self._newest: dict[tuple[OperatorUid, str, int], int] = {}

    @property
    def newest(self) -> Manifest | None:
        """The last completed snapshot."""
        return self.completions[-1][1] if self.completions else None

    def check_cut(self, record: LogRecord, manifest: Manifest) -> None:
        what, before = f"{record.kind} {record.id}", self.newest
        revision = self.revisions[revision_of(manifest)]
        self._check_finished(what, revision, manifest)
        if before is not None and revision_of(before) != revision.number:
            self._change(what, before, revision)
        was = positions_in(before)
        for uid, position in positions_in(manifest).items():
            fresh = run_out(revision, arrivals(revision, uid, source_items(uid, was.get(uid, 0), position)))
            self._rows += fresh.rows
            self._counts += fresh.counts
        self._take_out(what, manifest)
        following = run_out(revision, self._on_their_way(what, manifest, revision))
        rows = self._put_out + following.rows
        if rows != self._rows:
            raise Violation(f"{what} loses {self._rows - rows} and puts {rows - self._rows} out too often")
        finished = {each.uid for each in manifest.operators if each.finished}
        counts = self._counts_in(what, manifest) + following.counts
        for operator, key in {*counts, *self._counts}:
            if operator not in finished and counts[operator, key] != self._counts[operator, key]:
                wrong, right = counts[operator, key], self._counts[operator, key]
                raise Violation(f"{what}: operator {operator} has counted {wrong} of {key}, and should have {right}")
        self._count_moments(manifest, before)

    def check_untouched(self, epoch: Epoch) -> None:
        """Check that an epoch that was refused has done nothing but claim the log."""
        staged = [name for name, (of, _) in self.sink.staged.items() if of == epoch]
        written = [
            info.key
            for prefix in (keys.CHECKPOINTS_PREFIX, keys.SHARED_PREFIX)
            for info in self.store.list(prefix)
            if f"/{epoch}-" in info.key and not info.key.endswith("claimed.json")
        ]
        if staged or written:
            raise Violation(f"epoch {epoch} is refused, and has written {staged or written}")

    def _change(self, what: str, before: Manifest, revision: Revision) -> None:
        waiting = self._on_their_way(f"{before.kind} {before.id}, changed for {what},", before, revision)
        following = run_out(revision, waiting)
        self._rows = self._put_out + following.rows
        stored = self._counts_in(what, before)
        here = Counter({place: count for place, count in stored.items() if place[0] in revision.by_uid})
        self._counts = here + following.counts
        self.moments.update(revision.changes)
        moved = any(each.segments for channel in before.channels for each in channel.entries)
        if moved:
            self.moments.update(f"{each}, rows in flight" for each in revision.changes)
            self.moments["loops changed with rows in flight"] += bool(revision.looped)
        self.moments["changed behind a drain"] += before.drained
        self.moments[f"changed behind a {before.kind}"] += 1

    def _on_their_way(self, what: str, manifest: Manifest, revision: Revision) -> list[Arrival]:
        """Return the rows in flight in a snapshot before those who go on to read them."""
        ran = {each.uid: each.chain for each in manifest.operators}
        found: list[Arrival] = []
        read: set[tuple[ChainUid, ChainUid]] = set()
        for chain in revision.plan.chains:
            for channel in chain.channels:
                readers = [
                    each
                    for each in revision.steps
                    if each.uid in chain.uids() and channel.uid in (*each.inputs, each.feedback)
                ]
                stood = [
                    each
                    for each in manifest.channels
                    if each.source == channel.source and each.target in {ran.get(reader.uid) for reader in readers}
                ]
                read |= {(each.source, each.target) for each in stood}
                several = [list(self._items(each)) for each in stood]
                if any(items != several[0] for items in several):
                    raise Violation(f"{what}: chain {chain.uid} goes on from several positions in {channel.source}")
                found += [
                    Arrival(reader, item, reader.feedback == channel.uid)
                    for item in (several[0] if several else ())
                    for reader in readers
                ]
        for left in manifest.channels:
            if (left.source, left.target) not in read and [*self._items(left)]:
                stay = [uid for uid, chain in ran.items() if chain == left.target and uid in revision.by_uid]
                if stay or not revision.allow:
                    raise Violation(f"{what} gives up what is in flight from {left.source} to {left.target}")
                self.moments["rows given up"] += 1
        return found

    def _items(self, channel: ChannelState) -> Iterator[Item]:
        for entry in channel.entries:
            for file in entry.segments:
                yield from decode(self.read(file))

    def _take_out(self, what: str, manifest: Manifest) -> None:
        for sink in manifest.sinks:
            for committable in sink.committables:
                for name, key, time in self.sink.ever_staged[str(committable)]:
                    uid, identity, marks = parse_row(name)
                    self._put_out[uid, identity] += 1
                    for operator, number, numbered in marks:
                        if self._numbered.setdefault((operator, key, number), numbered) != numbered:
                            raise Violation(f"{what}: operator {operator} counts {number} of {key} twice")
                    line = (uid, re.sub(r"\.\d+", "", identity), key)
                    if self._newest.get(line, -1) >= time:
                        raise Violation(f"{what}: {identity} comes to {uid} behind time {self._newest[line]}")
                    self._newest[line] = time

    def _counts_in(self, what: str, manifest: Manifest) -> Counter[tuple[OperatorUid, int]]:
        partitions = int(manifest.graph["maxParallelism"])
        counts: Counter[tuple[OperatorUid, int]] = Counter()
        for file in (file for chain in manifest.chains for file in chain.files):
            if (match := _STATE.fullmatch(file.path)) is None:
                continue
            content = json.loads(self.read(file))
            for key, count in content["counts"].items():
                if partition_of(int(key), partitions) != int(match[2]):
                    raise Violation(f"{what}: key {key} of {content['of']} is in partition {match[2]}")
                counts[content["of"], int(key)] += count
        return counts

    def _check_finished(self, what: str, revision: Revision, manifest: Manifest) -> None:
        finished = {each.uid for each in manifest.operators if each.finished}
        positions = positions_in(manifest)
        for uid in finished:
            step = revision.by_uid.get(uid)
            if step is None:
                done = positions.get(uid, self.limits.get(uid)) == self.limits.get(uid)
            else:
                read = (*step.inputs, step.feedback) if step.feedback is not None else step.inputs
                done = finished.issuperset(read)
            if not done:
                raise Violation(f"{what}: {uid} is said to have finished")

    def _count_moments(self, manifest: Manifest, before: Manifest | None) -> None:
        finished = [each.finished for each in manifest.operators]
        moments = {
            "aligned": not manifest.unaligned,
            "unaligned": manifest.unaligned,
            "drained": manifest.drained,
            "some have finished": any(finished) and not all(finished),
        }
        if before is not None and before.graph["maxParallelism"] != manifest.graph["maxParallelism"]:
            moments["state with more or fewer partitions"] = bool(self._counts_in("", manifest))
        self.moments.update({moment: int(reached) for moment, reached in moments.items()})

    def check_result(self) -> None:
        given = Counter(parse_row(name)[:2] for name, _, _ in self.sink.delivered())
        if given != self._put_out or given != self._rows:
            raise Violation("what the sinks show is not what the rows make")
        newest = self.newest
        assert newest is not None
        for uid, position in positions_in(newest).items():
            if position != self.limits[uid]:
                raise Violation(f"the job ends, and source {uid} is read up to {position} of {self.limits[uid]}")


class ChangedWorld(World):
    """The job as it is now, and as it was; `directory` is a place for files."""

    def __init__(self, choices: Choices, revision: Revision, directory: Path) -> None:
        self.current = revision
        self.revisions = {revision.number: revision}
        self.limits: dict[OperatorUid, int | None] = {}
        self.read_to: dict[OperatorUid, int] = {}
        self.directory = directory
        self._all_ends = False
        self.known = ChangedOracle(self.revisions, self.limits)
        super().__init__(choices, self.known)
        self._take_in(revision)

    def _take_in(self, revision: Revision) -> None:
        self.current = self.revisions[revision.number] = revision
        for each in revision.inputs:
            if each.uid not in self.limits:
                ends = each.bounded or self._all_ends
                self.limits[each.uid] = LIMITS[self.choices.pick(len(LIMITS))] if ends else None
                self.read_to[each.uid] = 0
        self.note(f"revision {revision.number}: {revision}")

    def change(self) -> bool:
        if self.choices.pick(4) == 0:
            return False
        before = self._proven()
        changed = change(self.current, self.choices, len(self.revisions))
        if before is None or self.current.number != before.number:
            changed = replace(changed, changes=(*self.current.changes, *changed.changes))
        self._take_in(changed)
        return True

    def _proven(self) -> Revision | None:
        newest = self.known.newest
        return self.revisions[revision_of(newest)] if newest is not None else None

    def refused(self, revision: Revision, error: CannotRestore) -> None:
        """Undo a change of the job that cannot start. Raises Violation if it could."""
        self.known.moments[type(error).__name__] += 1
        before = self._proven()
        if before is None or HARMLESS.issuperset(revision.changes):
            raise Violation(f"revision {revision.number} is refused for {revision.changes}: {error}") from error
        if self.current is revision:
            self.current = before
            self.note(f"revision {before.number} again")

    def end_inputs(self) -> None:
        self._all_ends = True
        for uid, limit in self.limits.items():
            if limit is None:
                self.limits[uid] = self.read_to[uid] + 3

    def read_source(self, uid: OperatorUid, start: int, count: int) -> list[Item]:
        """Return up to the given number of rows of a source from an offset on."""
        limit = self.limits[uid]
        end = start + count if limit is None else min(start + count, limit)
        self.read_to[uid] = max(self.read_to[uid], end)
        return source_items(uid, start, end)
