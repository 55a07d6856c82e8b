"""Compares the graphs of a job and a snapshot, and finds out whether each part is restored, dropped, new or refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from streamjob.comparison import event_time
from streamjob.comparison.chain_origins import ChainOrigins, find_origins
from streamjob.comparison.empty_starts import BEGINS, EMPTY, given_up
from streamjob.comparison.refusals import (
    FinishedAndUnfinished,
    InFlightDataLost,
    NewStateInOldChain,
    NonRestoredState,
    OutputModeChanged,
    PartChanged,
    SourceFormatChanged,
    UnfinishedBeforeFinished,
)
from streamjob.comparison.snapshot_job import SnapshotJob, inputs_read, keeps_state, records_in_flight
from streamjob.comparison.verdicts import Comparison, Finding, Kind, Origin, Verdict, refused
from streamjob.errors import CannotRestore
from streamjob.ids import ChainUid, OperatorUid
from streamjob.job.model.spec import JobSpec, OperatorSpec, SinkSpec, SourceSpec
from streamjob.job.planning.dead_letters import as_written, rows_of
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import ChainPlan, Plan
from streamjob.snapshot.manifest import Manifest

_ALLOW = "or give it up with --allow-non-restored-state"


def compare(spec: JobSpec, plan: Plan, manifest: Manifest, uri: str, allow_non_restored_state: bool) -> Comparison:
    """Return the findings for a job that starts from a snapshot.

    Args:
        manifest: the snapshot.
        uri: the snapshot's URI, for messages.
        allow_non_restored_state: discard state for which the job has no operator.
    """
    return _Comparing(spec, plan, manifest, uri, allow_non_restored_state).compare()


class _Comparing:
    def __init__(self, spec: JobSpec, plan: Plan, manifest: Manifest, uri: str, allow: bool) -> None:
        self._spec = spec
        self._plan = plan
        self._former = SnapshotJob(manifest)
        self._uri = uri
        self._allow = allow
        self._graph = graph_of(spec)
        self._chain_origins: ChainOrigins = find_origins(plan, self._former)
        self._chain_of = {uid: chain for chain in plan.chains for uid in chain.uids()}
        self._unfinished = dict(self._before_finished())
        self._changed: set[ChainUid] = set()
        self._empty: dict[ChainUid, dict[OperatorUid, CannotRestore]] = defaultdict(dict)

    def compare(self) -> Comparison:
        partitions, job = self._partitions()
        findings = [
            *job,
            *map(self._source, self._spec.sources),
            *map(self._operator, self._spec.operators),
            *map(self._sink, self._spec.sinks),
            *self._channels(),
            *self._gone(),
        ]
        return Comparison(
            findings=tuple(findings),
            origins={
                uid: replace(origin, empty=self._empty[uid]) if uid in self._empty else origin
                for uid, origin in self._chain_origins.origins.items()
            },
            max_parallelism=partitions,
            undecided=dict(self._undecided()),
            changed=frozenset(self._changed),
        )

    def _partitions(self) -> tuple[int, list[Finding]]:
        spec, stored = self._spec, self._former.manifest.graph.get("maxParallelism")
        if not isinstance(stored, int):
            return spec.max_parallelism, []
        if not spec.max_parallelism_is_given() or spec.max_parallelism == stored:
            why = f"its state has {stored} partitions"
            return stored, [Finding(kind=Kind.JOB, uid=spec.name, verdict=Verdict.RESTORED, why=why)]
        why = f"its state is rewritten from {stored} partitions to {spec.max_parallelism}"
        return spec.max_parallelism, [Finding(kind=Kind.JOB, uid=spec.name, verdict=Verdict.REWRITTEN, why=why)]

    def _source(self, source: SourceSpec) -> Finding:
        former = self._former
        kind, uid = Kind.SOURCE, source.uid
        if (error := self._refusal(kind, uid)) is not None:
            return refused(kind, uid, error)
        if uid not in former.parts:
            return Finding(kind=kind, uid=uid, verdict=Verdict.NEW, why="it is read from its beginning")
        before = former.parts[uid][1]
        if uid in former.finished:
            return Finding(kind=kind, uid=uid, verdict=Verdict.RESTORED, why="it has finished, and is not read again")
        if uid not in former.positions:
            return Finding(kind=kind, uid=uid, verdict=Verdict.RESTORED, why="it had not been read")
        if before.get("format") != source.format:
            error = SourceFormatChanged(
                f"Source {uid!r} has the format {source.format}, but snapshot {self._uri} has a position in "
                f"{before.get('format')}",
                "give the source another uid, so that it is read from its beginning",
            )
            return refused(kind, uid, error)
        if not source.replayable:
            lost = "it cannot be replayed, and starts over: rows since this snapshot are lost"
            return Finding(kind=kind, uid=uid, verdict=Verdict.NEW, why=lost)
        why = ["it continues from its position", *self._changes_of("sources", uid)]
        if uid in former.chain_of and former.chain_of[uid] != self._chain_of[uid].uid:
            why.append(f"which moves from chain {former.chain_of[uid]!r} to {self._chain_of[uid].uid!r}")
        return Finding(kind=kind, uid=uid, verdict=self._moved(uid), why=", ".join(why))

    def _operator(self, operator: OperatorSpec) -> Finding:
        former, kind, uid = self._former, Kind.OPERATOR, operator.uid
        chain = self._chain_of[uid]
        if (error := self._refusal(kind, uid)) is not None:
            return refused(kind, uid, error)
        if (error := self._new_state(operator, chain)) is not None:
            if not self._allow:
                return refused(kind, uid, error)
            return Finding(kind=kind, uid=uid, verdict=Verdict.NEW, why=BEGINS)
        if (error := self._other_mode(uid, chain)) is not None:
            if not self._allow:
                return refused(kind, uid, error)
            self._empty[chain.uid][uid] = error
            return Finding(kind=kind, uid=uid, verdict=Verdict.DROPPED, why=given_up(error))
        if uid not in former.parts:
            return Finding(kind=kind, uid=uid, verdict=Verdict.NEW, why=self._why_new(operator))
        if uid in former.finished:
            return Finding(kind=kind, uid=uid, verdict=Verdict.RESTORED, why="it has finished, and is not run again")
        why = self._changes_of("operators", uid)
        if uid not in former.stateful:
            return Finding(
                kind=kind, uid=uid, verdict=Verdict.RESTORED, why=", ".join(["it has no state in the snapshot", *why])
            )
        base = self._chain_origins.origins[chain.uid].base
        moved = [f"which moves from chain {base!r} to {chain.uid!r}"] if base not in (None, chain.uid) else []
        mode = former.output_mode(base) if base is not None else chain.output_mode
        modes = [event_time.mode_changed(mode, chain.output_mode)] if mode != chain.output_mode else []
        why = ["it continues with its state", *moved, *modes, *why]
        return Finding(kind=kind, uid=uid, verdict=self._moved(uid), why=", ".join(why))

    def _sink(self, sink: SinkSpec) -> Finding:
        kind, uid = Kind.SINK, sink.uid
        if (error := self._refusal(kind, uid)) is not None:
            return refused(kind, uid, error)
        if uid not in self._former.parts:
            return Finding(kind=kind, uid=uid, verdict=Verdict.NEW, why="it receives rows from now on")
        why = [
            "it continues after its published output",
            *self._changes_of("sinks", uid),
        ]
        return Finding(kind=kind, uid=uid, verdict=Verdict.RESTORED, why=", ".join(why))

    def _channels(self) -> Iterator[Finding]:
        former = {(each.source, each.target): each for each in self._former.manifest.channels}
        names = set()
        for channel in self._plan.channels:
            name = f"{channel.source} -> {channel.target}"
            names.add(name)
            before = former.get((channel.source, channel.target))
            if before is None:
                yield Finding(kind=Kind.CHANNEL, uid=name, verdict=Verdict.NEW, why=channel.reason)
            else:
                yield Finding(kind=Kind.CHANNEL, uid=name, verdict=Verdict.RESTORED, why=_in_flight(before))
        lost = {(each.source, each.target) for each in self._chain_origins.lost}
        for pair, before in former.items():
            name = f"{pair[0]} -> {pair[1]}"
            if pair in lost:
                yield self._lost(name, before)
            elif name not in names:
                yield Finding(kind=Kind.CHANNEL, uid=name, verdict=Verdict.DROPPED, why=_in_flight(before))

    def _lost(self, name: str, channel: Any) -> Finding:
        reads = self._former.chains.get(channel.target)
        stays = reads is not None and any(uid in self._chain_of for uid in reads.state.operators)
        count = records_in_flight(channel)
        if self._allow and not stays:
            why = f"{count} records in flight are given up with {channel.target!r}"
            return Finding(kind=Kind.CHANNEL, uid=name, verdict=Verdict.DROPPED, why=why)
        error = InFlightDataLost(
            f"Snapshot {self._uri} has {count} records in flight from {channel.source!r} to {channel.target!r}, and "
            "the job has no such channel",
            "start from a savepoint of the job as it was: it has nothing in flight",
        )
        return refused(Kind.CHANNEL, name, error)

    def _gone(self) -> Iterator[Finding]:
        """Yield findings for the parts that the job no longer has."""
        homeless = [uid for uid in self._former.parts if uid not in self._chain_of and self._holds(uid)]
        error = NonRestoredState(
            f"Snapshot {self._uri} has state for {', '.join(homeless)}, which the job does not have",
            f"give the operators their old uid, {_ALLOW}",
        )
        for uid, (kind, _) in self._former.parts.items():
            if uid in self._chain_of:
                continue
            if uid in homeless and not self._allow:
                yield refused(kind, uid, error)
            else:
                what = {Kind.SOURCE: "its position is", Kind.OPERATOR: "its state is", Kind.SINK: "nothing is"}[kind]
                cost = ": earlier rows of open groups are missing in later results"
                what = f"{what} given up{cost if kind is Kind.OPERATOR else ''}"
                why = what if uid in homeless else "nothing of it is in the snapshot"
                yield Finding(
                    kind=kind,
                    uid=uid,
                    verdict=Verdict.DROPPED,
                    why="its staged output is published" if kind is Kind.SINK else why,
                )

    def _holds(self, uid: OperatorUid) -> bool:
        """Return whether the snapshot has data of a part that would be lost without it."""
        if uid in self._former.finished:
            return False
        return uid in self._former.stateful or uid in self._former.positions

    def _refusal(self, kind: Kind, uid: OperatorUid) -> CannotRestore | None:
        before = self._former.parts.get(uid)
        if before is not None and before[0] is not kind:
            return PartChanged(
                f"The uid {uid!r} is of the kind {kind.value} here, and of another kind, {before[0].value}, in "
                f"snapshot {self._uri}",
                f"give the {kind.value} another uid",
            )
        placed = self._chain_origins.refusals.get(uid)
        if self._unfinished and isinstance(placed, FinishedAndUnfinished):
            # The other cause explains it better.
            placed = None
        return self._unfinished.get(uid) or placed

    def _new_state(self, operator: OperatorSpec, chain: ChainPlan) -> CannotRestore | None:
        """An operator with its first state must not be in a chain that has run: Spark has no empty state for it."""
        origin = self._chain_origins.origins[chain.uid]
        if origin.base is None or origin.finished or operator.uid in self._former.stateful:
            return None
        if not self._former.chains[origin.base].has_run or not keeps_state(operator.sql, self._spec.table_names()):
            return None
        return begins_to_keep(operator.uid, origin.base)

    def _other_mode(self, uid: OperatorUid, chain: ChainPlan) -> CannotRestore | None:
        """Of all output modes, Spark compares only that of `transformWithState`."""
        base, former = self._chain_origins.origins[chain.uid].base, self._former
        if base is None or uid in former.finished or not former.aggregates(uid):
            return None
        before = former.output_mode(base)
        lost = event_time.loss(before, chain.output_mode, ended=former.has_event_time(base))
        if lost is None:
            return None
        return OutputModeChanged(
            f"Operator {uid!r} kept its state in the output mode {before}, and would continue in {chain.output_mode}: "
            f"{lost}",
            f"undo the change, or give the state up with --allow-non-restored-state: {EMPTY}",
        )

    def _why_new(self, operator: OperatorSpec) -> str:
        namesake = next(
            (
                uid
                for uid, (kind, each) in self._former.parts.items()
                if kind is Kind.OPERATOR and each.get("name") == operator.name and uid not in self._chain_of
            ),
            None,
        )
        if namesake is not None:
            return f"the snapshot's operator of this name has the uid {namesake!r}"
        return "it begins without state"

    def _moved(self, uid: OperatorUid) -> Verdict:
        """Return whether a part continues from Spark's checkpoint as it is, or from a newly assembled one."""
        chain = self._chain_of[uid]
        origin = self._chain_origins.origins[chain.uid]
        if origin.base is None:
            return Verdict.RESTORED
        before = set(inputs_read(self._former.manifest, self._former.chains[origin.base].state))
        # A source may come from a chain of its own, and other readers' positions may be used for a chain's output.
        sources = {(each.uid, None) for each in chain.sources}
        now = sources | {(each.uid, origin.consumed.get(each.source, 0)) for each in chain.channels}
        return Verdict.RESTORED if before == now and origin.state is None else Verdict.REWRITTEN

    def _undecided(self) -> Iterator[tuple[ChainUid, str]]:
        for chain in self._plan.chains:
            origin: Origin = self._chain_origins.origins[chain.uid]
            if origin.base is None or origin.finished or not self._former.chains[origin.base].has_run:
                continue
            former = self._former.chains[origin.base]
            static = self._spec.table_names()
            functions = [each.name for each in chain.operators if each.python is not None or each.sql is None]
            functions += [each.name for each in chain.sources if each.python is not None]
            changed = [
                each.name
                for each in chain.operators
                if each.uid not in former.state.operators
                or _meaning(self._former.parts.get(each.uid, (None, {}))[1])
                != _meaning(self._fields("operators", each.uid))
            ]
            gone = [uid for uid in former.state.operators if uid not in chain.uids()]
            keeps = former.keepers or any(keeps_state(each.sql, static) is not False for each in chain.operators)
            others = self._former.is_of_a_query
            differs = changed or gone or self._event_time_changed(chain) or others
            if keeps and (functions or differs):
                if differs:
                    self._changed.add(chain.uid)
                whose = [uid for keepers in former.keepers.values() for uid in sorted(keepers)] if others else []
                concerned = dict.fromkeys([*changed, *functions, *gone, *whose]) or {chain.uid: None}
                yield chain.uid, ", ".join(concerned)

    def _event_time_changed(self, chain: ChainPlan) -> bool:
        return any(
            self._former.parts[each.uid][1].get(field) != self._fields("sources", each.uid).get(field)
            for each in chain.sources
            if each.uid in self._former.parts
            for field in ("watermark", "schema", "key", "value", "columns", "python")
        )

    def _fields(self, key: str, uid: OperatorUid) -> Mapping[str, Any]:
        parts: Any = self._graph[key]
        return next(each for each in parts if each["uid"] == uid)

    def _changes_of(self, key: str, uid: OperatorUid) -> list[str]:
        """Return the changes of a part as its author sees them, also where only one job has dead letters for it."""
        before, after = self._former.parts[uid][1], self._fields(key, uid)
        operators: Any = self._graph["operators"]
        rows = rows_of(uid)
        former = self._former.parts[rows][1] if rows in self._former.parts else None
        now = next((each for each in operators if each["uid"] == rows), None)
        if (former is None) == (now is None):
            return _changes(before, after)
        return _changes(as_written(before, former), as_written(after, now))

    def _before_finished(self) -> Iterator[tuple[OperatorUid, CannotRestore]]:
        """Finished parts never run again, so no part before them may be unfinished (FLIP-147)."""
        spec, finished = self._spec, self._former.finished
        uids = {name: node.uid for name, node in spec.inputs().items()}
        # Feedback counts, too: the operators of a loop finish together, so this loop has just been closed.
        edges = [(each.name, operator) for operator in spec.operators for each in operator.inputs]
        for name, reader in (*edges, *((sink.input, sink) for sink in spec.sinks)):
            if reader.uid in finished and uids[name] not in finished:
                yield (
                    reader.uid,
                    UnfinishedBeforeFinished(
                        f"In snapshot {self._uri} {reader.uid!r} has finished, but the job has {uids[name]!r} before "
                        "it, which has not",
                        f"give {reader.uid!r} another uid, so that it starts again, or take {uids[name]!r} away from "
                        "before it",
                    ),
                )


def begins_to_keep(operator: OperatorUid, chain: ChainUid) -> NewStateInOldChain:
    """Return the error for an operator that starts to keep state in a chain that has already run without it."""
    return NewStateInOldChain(
        f"Operator {operator!r} begins to keep state in chain {chain!r}, which has run: Spark has no empty state for "
        "it",
        f"give {operator!r} `chain: false`: in a chain of its own it starts without state; or start it without state "
        "in this one with --allow-non-restored-state",
    )


def _in_flight(channel: Any) -> str:
    count = records_in_flight(channel)
    return f"{count} records are in flight" if count else "nothing is in flight"


_MEANINGFUL = ("sql", "python", "outputMode", "inputs", "watermark")


def _meaning(fields: Mapping[str, Any]) -> list[Any]:
    return [fields.get(each) for each in _MEANINGFUL]


_WORDS = {
    "sql": "its query has changed",
    "python": "its function has changed",
    "inputs": "its inputs have changed",
    "input": "its input has changed",
    "options": "its options have changed",
    "schema": "its schema has changed",
    "columns": "its columns have changed",
    "key": "the form of its keys has changed",
    "value": "the form of its values has changed",
    "changes": "the way in which its records describe changes has changed",
    "unavailableValue": "what stands for columns that a change leaves out has changed",
    "onUnavailable": "its handling of columns that a change leaves out has changed",
    "onError": "its handling of errors has changed",
    "skip": "the records that it skips have changed",
    "bounded": "whether it ends has changed",
    "format": "its format has changed",
    "delivery": "its delivery has changed",
    "name": "it has another name",
}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the changes of a part in words; options that differ only by the job's directory do not count."""
    words = [
        words
        for field, words in _WORDS.items()
        if before.get(field) != after.get(field) and not (field == "options" and _same_places(before, after))
    ]
    watermark = event_time.watermark_changed(before.get("watermark"), after.get("watermark"))
    return words if watermark is None else [*words, watermark]


def _same_places(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    then, now = before.get("options", {}), after.get("options", {})
    return then.keys() == now.keys() and all(
        value == now[key] or str(value).endswith(f"/{str(now[key]).removeprefix('./')}") for key, value in then.items()
    )
