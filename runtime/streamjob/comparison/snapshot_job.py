"""The job of a snapshot: its parts, their chains, and the owners of the state."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from streamjob.comparison.verdicts import Kind
from streamjob.ids import NO_BATCH, ChainUid, OperatorUid
from streamjob.job.planning.graph import tables_of
from streamjob.job.query.sql import stateful_parts
from streamjob.snapshot.manifest import ChainState, ChannelState, Manifest
from streamjob.stored.state_owners import KINDS, owners

TAKEN_FROM = "takenFrom"
"""The graph's field with the origin of state that no job made: `spark:URI`."""

CONTINUES = "continues"
"""The graph's field with the batch of a plain query behind which the job has continued it."""

MIGRATIONS = "migrations"
"""The graph's field with the changes of state to new forms, oldest first: `streamjob.migration.records`."""

_MOST_MIGRATIONS = 100

_STATE = re.compile(r"state/(\d+)/")
_PARTS = {Kind.SOURCE: "sources", Kind.OPERATOR: "operators", Kind.SINK: "sinks"}


@dataclass(frozen=True)
class SnapshotChain:
    """A chain of a snapshot.

    Args:
        state: its state in the manifest.
        keepers: the owners of its stateful operators, by Spark's number; several uids if it is ambiguous.
        names: Spark's names for them; empty in snapshots without names.
    """

    state: ChainState
    keepers: Mapping[int, frozenset[OperatorUid]]
    names: Mapping[int, str]

    @property
    def has_run(self) -> bool:
        """Whether it had run a batch at the cut."""
        return self.state.batch != NO_BATCH


def inputs_read(manifest: Manifest, chain: ChainState) -> tuple[tuple[OperatorUid, int | None], ...]:
    """Return a chain's inputs in order, each with the position up to which it was read; None for a source."""
    consumed = {each.source: each.consumed for each in manifest.channels if each.target == chain.uid}
    return tuple((each.uid, consumed.get(ChainUid(each.uid))) for each in chain.inputs)


def kept_notes(former: Mapping[str, Any], migrations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the snapshots of a restored job say of its state's past, as fields of their graphs.

    Args:
        former: the graph of the snapshot that it was restored from.
        migrations: the changes of its state since, as JSON.
    """
    notes = {CONTINUES: former[CONTINUES]} if CONTINUES in former else {}
    changes = [*former.get(MIGRATIONS, ()), *migrations][-_MOST_MIGRATIONS:]
    return {**notes, MIGRATIONS: changes} if changes else notes


class SnapshotJob:
    """The job of a snapshot."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    @cached_property
    def parts(self) -> Mapping[OperatorUid, tuple[Kind, Mapping[str, Any]]]:
        """The graph's parts by uid: their kinds and fields."""
        return {
            OperatorUid(each["uid"]): (kind, each)
            for kind, key in _PARTS.items()
            for each in self.manifest.graph.get(key, ())
        }

    @property
    def is_of_a_query(self) -> bool:
        """Whether a plain query made the state; then the graph only describes the job that takes it over."""
        return TAKEN_FROM in self.manifest.graph

    @cached_property
    def finished(self) -> frozenset[OperatorUid]:
        """The parts that have finished for good."""
        return frozenset(each.uid for each in self.manifest.operators if each.finished)

    @cached_property
    def chain_of(self) -> Mapping[OperatorUid, ChainUid]:
        """The chain of each part."""
        return {each.uid: each.chain for each in self.manifest.operators}

    @cached_property
    def positions(self) -> frozenset[OperatorUid]:
        """The sources that have positions."""
        return frozenset(each.uid for each in self.manifest.sources if each.position is not None)

    @cached_property
    def chains(self) -> Mapping[ChainUid, SnapshotChain]:
        """The chains by uid."""
        found = {}
        for each in self.manifest.chains:
            keepers = self._keepers(each)
            names = dict(zip(keepers, each.stateful, strict=True)) if len(keepers) == len(each.stateful) else {}
            found[each.uid] = SnapshotChain(each, keepers, names)
        return found

    @cached_property
    def stateful(self) -> frozenset[OperatorUid]:
        """The operators that have or may have state."""
        return frozenset(uid for chain in self.chains.values() for keep in chain.keepers.values() for uid in keep)

    def aggregates(self, uid: OperatorUid) -> bool:
        """Return whether an operator's state belongs to an aggregation."""
        return any(
            KINDS.get(chain.names[number]) == "aggregation"
            for chain in self.chains.values()
            for number, keepers in chain.keepers.items()
            if number in chain.names and uid in keepers
        )

    def output_mode(self, chain: ChainUid) -> str:
        """Return a chain's output mode: only its last operator can have one other than append."""
        modes = [self.parts[uid][1].get("outputMode", "append") for uid in self._operators(chain)]
        return next((mode for mode in modes if mode != "append"), "append")

    def has_event_time(self, chain: ChainUid) -> bool:
        """Return whether a chain's rows may have had a watermark, from a source or from another chain."""
        parts = [self.parts.get(each.uid) for each in self.chains[chain].state.inputs]
        return any(part is None or part[0] is not Kind.SOURCE or part[1].get("watermark") for part in parts)

    def channels_of(self, producer: ChainUid) -> tuple[ChannelState, ...]:
        """Return the channels into which a chain wrote."""
        return tuple(each for each in self.manifest.channels if each.source == producer)

    def label(self, uid: OperatorUid) -> str:
        """Return a part's name in messages."""
        part = self.parts.get(uid)
        return f"{part[0]} {uid!r}" if part else repr(uid)

    def _keepers(self, chain: ChainState) -> Mapping[int, frozenset[OperatorUid]]:
        numbers = sorted({int(match[1]) for file in chain.files if (match := _STATE.match(file.path))})
        if not numbers:
            return {}
        if len(chain.stateful) == len(numbers):
            found = owners(self.manifest.graph, chain.operators, chain.stateful)
            return {number: frozenset(uids) for number, uids in zip(numbers, found, strict=True)}
        return dict.fromkeys(numbers, self._may_keep(chain))

    def _operators(self, chain: ChainUid) -> list[OperatorUid]:
        uids = self.chains[chain].state.operators
        return [uid for uid in uids if uid in self.parts and self.parts[uid][0] is Kind.OPERATOR]

    def _may_keep(self, chain: ChainState) -> frozenset[OperatorUid]:
        operators = [uid for uid in chain.operators if self.parts.get(uid, (Kind.OPERATOR,))[0] is Kind.OPERATOR]
        known = [
            uid
            for uid in operators
            if keeps_state(self.parts[uid][1].get("sql"), tables_of(self.manifest.graph)) is not False
        ]
        return frozenset(known or operators)


def keeps_state(sql: str | None, static: frozenset[str] = frozenset()) -> bool | None:
    """Return whether a query keeps state; None if only Spark can tell, as for a function.

    Args:
        sql: the query.
        static: the names, in lower case, of tables that are no streams.
    """
    parts = stateful_parts(sql, static) if sql is not None else None
    return None if parts is None else bool(parts)


def records_in_flight(channel: ChannelState) -> int:
    """Return the number of records in flight in a channel of a snapshot."""
    return sum(segment.records for entry in channel.entries for segment in entry.segments)
