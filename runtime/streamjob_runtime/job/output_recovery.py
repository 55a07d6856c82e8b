"""The first step of an epoch: commits the rest of the log's last completion, and discards later output."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from streamjob.errors import CannotRestore, StreamJobError
from streamjob.ids import BatchId, CheckpointId, Key, OperatorUid
from streamjob.job.model.spec import BATCH
from streamjob.job.planning.plan import Plan
from streamjob.journal import JournalRecord, Replay, replay_of
from streamjob.protocol.log.restore import LATEST, NONE, Resolution
from streamjob.sink import PublishesBatches, Sink
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import Store
from streamjob_runtime.chain.emissions.outputs import FormerOutputs, Outputs
from streamjob_runtime.chain.emissions.publishing import BatchPublisher
from streamjob_runtime.checkpointing.ledger import Ledger
from streamjob_runtime.sinks.checking.left_staged import left_staged
from streamjob_runtime.sinks.factory import SinkSurroundings, build_sink, build_sink_from_graph
from streamjob_runtime.sinks.meter import SinkMeters

log = logging.getLogger("streamjob")


@dataclass(frozen=True, slots=True)
class Journals:
    """The records of published batches that continue a checkpoint, by sink.

    Args:
        records: none if the job does not continue from a checkpoint by itself.
        checkpoint: the checkpoint; None if there is none.
        continued: whether each batch that is published from now on continues a checkpoint.
    """

    records: Mapping[OperatorUid, Sequence[JournalRecord]]
    checkpoint: CheckpointId | None
    continued: bool

    def replay(self, sinks: Iterable[OperatorUid], batch: BatchId) -> Replay:
        """Return what the chain of some sinks has to run again behind a batch. Raises JournalIncomplete."""
        return replay_of({uid: self.records[uid] for uid in sinks if uid in self.records}, self.checkpoint, batch)


def open_outputs(plan: Plan, surroundings: SinkSurroundings, meters: SinkMeters) -> Outputs:
    """Return the sinks of all chains, opened and metered. Raises the errors of `build_sink`."""
    specs = [sink for chain in plan.chains for sink in chain.sinks]
    sinks = {sink.uid: build_sink(sink, surroundings) for sink in specs}
    assert all(isinstance(sinks[each.uid], PublishesBatches) for each in specs if each.publish == BATCH)
    # One that publishes by checkpoint may have published batches before it was changed.
    publishers = {
        each.uid: BatchPublisher(each.uid, sink, surroundings.epoch, publishes=each.publish == BATCH)
        for each in specs
        if isinstance(sink := sinks[each.uid], PublishesBatches)
    }
    return Outputs(sinks, meters, publishers)


class ChangedBeforeReplay(CannotRestore):
    """A job was changed while batches were published behind its checkpoint, which have to run again as they did."""


def check_unchanged(
    replay: Replay, manifest: Manifest, graph: Mapping[str, Any], uids: Iterable[OperatorUid], *, rewritten: bool
) -> None:
    """Check that the batches of a chain can run again as they did.

    Args:
        manifest: the snapshot that they follow.
        graph: the graph of the job.
        uids: the parts of the chain.
        rewritten: whether its state has another number of partitions than in the snapshot.

    Raises:
        ChangedBeforeReplay: a part of the chain has changed since.
    """
    if not replay.plans:
        return
    wanted = frozenset(uids)
    was, now = (
        {each["uid"]: each for kind in ("sources", "operators") for each in of.get(kind, ()) if each["uid"] in wanted}
        for of in (manifest.graph, graph)
    )
    changed = sorted(uid for uid in was.keys() | now.keys() if was.get(uid) != now.get(uid))
    if changed or rewritten:
        sinks = ", ".join(sorted(uid for uid, published in replay.published.items() if published))
        what = f"{', '.join(changed)} changed" if changed else "maxParallelism changed"
        raise _changed(sinks, len(replay.plans), manifest.id, what)


def _changed(sinks: str, batches: int, checkpoint: CheckpointId, what: str) -> ChangedBeforeReplay:
    return ChangedBeforeReplay(
        f"sink {sinks} has published {batches} batches behind checkpoint {checkpoint}, which have to run again as they "
        f"did, and {what} since",
        "start the job as it was, and stop it with a savepoint: then change it; or start with --from and the "
        "checkpoint: what was published since stays, and is published again",
    )


class JournalBeyondTheLog(CannotRestore):
    """A sink has published batches that the snapshot of the start knows nothing of."""


class JournalGone(CannotRestore):
    """The journal of a sink was deleted, so that it is not known what was published behind a checkpoint."""


def claim_journals(ledger: Ledger, outputs: Outputs) -> None:
    """Let no other process publish; called before the newest completion is committed.

    A process that was suspended would fence off its successor, publish what that has published, and with a commit
    delete the records of batches with the same numbers.

    Raises:
        Superseded: another process owns the log.
        StreamJobError: what the sinks raise.
    """
    there = [each for each in outputs.publishers.values() if each.journal_id() is not None]
    for publisher in there:
        publisher.take_journal()
    if there:
        ledger.verify()


def recover_journals(
    ledger: Ledger,
    outputs: Outputs,
    sinks: Sequence[Mapping[str, Any]],
    surroundings: SinkSurroundings,
    resolution: Resolution,
    wanted: str,
) -> Journals:
    """Return the journals of the sinks that publish each batch; called when the newest completion is committed.

    A start from a snapshot that a person named is the decision to publish again: the journals are emptied.

    Args:
        sinks: the sinks in the job's graph.
        surroundings: for building sinks of the snapshot that the job has changed or removed.
        wanted: the snapshot that was asked for: `latest`, `none`, or a reference.

    Raises:
        JournalBeyondTheLog, JournalGone, ChangedBeforeReplay: published batches cannot run again as they did.
        StreamJobError: what the sinks raise.
    """
    if resolution.manifest is not None:
        _recover_former_sinks(resolution.manifest, sinks, surroundings, check=wanted == LATEST)
    # Former instances of changed sinks have been opened since, and may have taken the right to publish.
    claim_journals(ledger, outputs)
    records: dict[OperatorUid, Sequence[JournalRecord]] = {}
    for uid, publisher in outputs.publishers.items():
        if publisher.journal_id() is None:
            continue
        if wanted == LATEST:
            records[uid] = publisher.journal()
        else:
            records[uid] = ()
            _note_dropped(uid, publisher.drop_journal())
    states = () if resolution.manifest is None or wanted != LATEST else resolution.manifest.sinks
    known = {each.uid: each.journal for each in states if each.journal is not None}
    for uid, found in records.items():
        if uid not in known and found:
            raise JournalBeyondTheLog(
                f"sink {uid} has published {len(found)} batches that {resolution.reference or 'the log'} at "
                f"{ledger.store.uri} knows nothing of",
                "name the location that the job had; or bring the log back; or start with --from "
                f"{resolution.reference or NONE}: what was published stays, and is published again",
            )
    for uid, journal in known.items():
        if uid in outputs.publishers and outputs.publishers[uid].journal_id() != journal:
            assert resolution.manifest is not None
            raise _gone(uid, journal, resolution.manifest.id)
    continued = all(uid in known for uid, each in outputs.publishers.items() if each.publishes)
    return Journals(records, None if resolution.manifest is None else resolution.manifest.id, continued)


def _gone(sink: OperatorUid, journal: str, checkpoint: CheckpointId) -> JournalGone:
    return JournalGone(
        f"sink {sink}: its journal, which has the id {journal} in checkpoint {checkpoint}, was deleted. So it is not "
        "known which rows were published behind the checkpoint",
        "start with --from and the checkpoint: what was published since stays, and is published again",
    )


def _note_dropped(sink: OperatorUid, batches: int) -> None:
    if batches:
        log.warning("Sink %s: the %d batches that it published last are published again", sink, batches)


def _recover_former_sinks(
    manifest: Manifest, sinks: Sequence[Mapping[str, Any]], surroundings: SinkSurroundings, *, check: bool
) -> None:
    """Empty the journals of sinks which the job has changed or removed, or `check` that they are empty.

    Raises:
        ChangedBeforeReplay: one has; as it is now, nobody would compare what runs again with it.
    """
    now = {each["uid"]: _but_publish(each) for each in sinks}
    journals = {each.uid: each.journal for each in manifest.sinks if each.journal is not None}
    for sink in manifest.graph.get("sinks", ()):
        uid = sink["uid"]
        if uid not in journals or now.get(uid) == _but_publish(sink):
            continue
        what = f"the sink was {'changed' if uid in now else 'removed'}"
        if check:
            _check_former_sink(uid, build_sink_from_graph(sink, surroundings), journals[uid], manifest.id, what)
            continue
        try:
            former = build_sink_from_graph(sink, surroundings)
            with closing(former):
                if isinstance(former, PublishesBatches) and former.journal_id() is not None:
                    former.take_journal()
                    _note_dropped(uid, former.drop_journal())
        except StreamJobError as error:
            log.warning("Sink %s: %s, and its journal cannot be emptied: %s", uid, what, error.what)


def _check_former_sink(uid: OperatorUid, former: Sink, journal: str, checkpoint: CheckpointId, what: str) -> None:
    with closing(former):
        if not isinstance(former, PublishesBatches):
            return
        if former.journal_id() != journal:
            raise _gone(uid, journal, checkpoint)
        former.take_journal()
        if published := len(former.journal()):
            raise _changed(uid, published, checkpoint, what)


def _but_publish(sink: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in sink.items() if key != "publish"}


class PublishedBeyondTheLog(CannotRestore):
    """A sink has published a checkpoint that the job's log does not know: the log is older than the output."""


def check_published(ledger: Ledger, outputs: Outputs, resolution: Resolution, wanted: str) -> None:
    """Refuse to start from the log's newest completion if a sink has published a later checkpoint.

    If a person has chosen the snapshot, the start goes on, and ids of new checkpoints are above all published ones.

    Args:
        wanted: the snapshot that was asked for: `latest`, `none`, or a reference.

    Raises:
        PublishedBeyondTheLog: rows would be published again without anybody's decision.
    """
    found = published_beyond(outputs.published(), ledger.store, resolution.last_id)
    if found is None:
        return
    if wanted == LATEST:
        raise found.error(resolution.reference)
    log.warning("%s: rows published since are published again", found.told)
    ledger.log.skip_ids(found.newest)


@dataclass(frozen=True, slots=True)
class Beyond:
    """What sinks have published beyond the log in a store: the newest checkpoint, and a clause about it."""

    newest: CheckpointId
    told: str
    store: Store

    def error(self, reference: str | None) -> PublishedBeyondTheLog:
        """Return the error of a start. Raises StoreError.

        Args:
            reference: the snapshot that the job would start from; None if it would start from nothing.
        """
        manifest = _manifest_of(self.store, self.newest)
        start = reference or NONE
        fork = f"--from {start} makes a fork: what was published since stays published, and is published again"
        repair = f"streamjob log repair {self.store.uri} --newest {manifest} --yes"
        return PublishedBeyondTheLog(
            f"{self.told}: its record of checkpoint {self.newest} is lost with its copy, "
            "it was restored from an older backup, or the job had another location then",
            f"name the location that the job had; or bring back the newest records; {fork}"
            if manifest is None
            else f"{manifest} is there: `{repair}` continues from it, and publishes nothing again; {fork}",
        )


def published_beyond(
    published: Mapping[OperatorUid, CheckpointId], store: Store, last_id: CheckpointId
) -> Beyond | None:
    """Return what sinks have published beyond the log of a job; None if they have published nothing else.

    Args:
        published: the checkpoint that each sink published last.
        store: the store at the job's root.
        last_id: the last id of the log.
    """
    beyond = {uid: newest for uid, newest in published.items() if newest > last_id}
    if not beyond:
        return None
    newest = max(beyond.values())
    who = ", ".join(f"sink {uid} has published checkpoint {each}" for uid, each in beyond.items())
    last = f"ends with checkpoint {last_id}" if last_id else "names no checkpoint"
    return Beyond(newest, f"{who}, and the log at {store.uri} {last}", store)


def _manifest_of(store: Store, checkpoint: CheckpointId) -> Key | None:
    """Return the manifest of a checkpoint; of several, that of the highest epoch, whose owner superseded the others."""
    found = ((keys.manifest_ids(each.key), each.key) for each in store.list(keys.CHECKPOINTS_PREFIX))
    manifests = [(ids[0], key) for ids, key in found if ids is not None and ids[1] == checkpoint]
    return max(manifests)[1] if manifests else None


def recover_output(
    ledger: Ledger,
    outputs: Outputs,
    sinks: Sequence[Mapping[str, Any]],
    surroundings: SinkSurroundings,
    resolution: Resolution,
) -> None:
    """Commit the newest completion, even in sinks that have changed or been removed since.

    Args:
        sinks: their descriptions in its graph.
        surroundings: for building sinks of the completion that the job has changed or removed.
        resolution: the job's starting point. In a fork, an unreadable newest completion is given up.

    Raises:
        CannotRestore: the newest completion cannot be read.
    """
    fork = resolution.fork
    now = {sink["uid"]: sink for sink in sinks}
    then = {sink["uid"]: sink for sink in _newest_graph(ledger, fork).get("sinks", [])}
    unchanged = frozenset(uid for uid, sink in now.items() if then.get(uid, sink) == sink)

    def former(uid: OperatorUid) -> Sink | None:
        return build_sink_from_graph(then[uid], surroundings) if uid in then else None

    recovered = ledger.recover(FormerOutputs(outputs, unchanged, former), now, fork=fork)
    if recovered.uncommittable is not None:
        log.warning("The last completion's output cannot be committed: %s", recovered.uncommittable)
    if resolution.manifest is not None:
        for uid, left in left_staged(resolution.manifest.graph.get("sinks", []), sinks, surroundings):
            log.warning("Sink %s of the snapshot: %s", uid, left)


def _newest_graph(ledger: Ledger, fork: bool) -> Mapping[str, Any]:
    try:
        newest = ledger.newest_manifest()
    except CannotRestore:
        if not fork:
            raise
        return {}
    return newest.graph if newest is not None else {}
