"""A job as a snapshot has it: its parts, the chains that they ran in, and whose state there is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from streamjob.comparison.verdicts import Kind
from streamjob.ids import NO_BATCH, ChainUid, OperatorUid
from streamjob.job.sql import stateful_parts
from streamjob.snapshot.manifest import ChainState, ChannelState, Manifest
from streamjob.stored.state_owners import KINDS, owners

TAKEN_FROM = "takenFrom"
"""The field of a graph that names what else its state was made by, where no job had made it: `spark:URI`."""

_STATE = re.compile(r"state/(\d+)/")
_PARTS = {Kind.SOURCE: "sources", Kind.OPERATOR: "operators", Kind.SINK: "sinks"}


@dataclass(frozen=True)
class FormerChain:
    """A chain of a snapshot.

    Args:
        state: what the manifest says of it.
        keepers: whose state each of its stateful operators is, by Spark's number; several uids where it is not known.
        names: what Spark calls them; nothing in snapshots that do not tell.
    """

    state: ChainState
    keepers: Mapping[int, frozenset[OperatorUid]]
    names: Mapping[int, str]

    @property
    def has_run(self) -> bool:
        """Whether it had a batch at the cut."""
        return self.state.batch != NO_BATCH


def inputs_read(manifest: Manifest, chain: ChainState) -> tuple[tuple[OperatorUid, int | None], ...]:
    """Return a chain's inputs in their order, each with the position up to which it was read; None for a source."""
    consumed = {each.source: each.consumed for each in manifest.channels if each.target == chain.uid}
    return tuple((each.uid, consumed.get(ChainUid(each.uid))) for each in chain.inputs)


class Former:
    """What a snapshot says of the job that it is of.

    Args:
        manifest: the snapshot.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    @cached_property
    def parts(self) -> Mapping[OperatorUid, tuple[Kind, Mapping[str, Any]]]:
        """The parts of the graph by uid: what each is, and its fields."""
        return {
            OperatorUid(each["uid"]): (kind, each)
            for kind, key in _PARTS.items()
            for each in self.manifest.graph.get(key, ())
        }

    @property
    def is_of_a_query(self) -> bool:
        """Whether the state was made by a plain query, of which the graph only tells what it is to be in the job."""
        return TAKEN_FROM in self.manifest.graph

    @cached_property
    def finished(self) -> frozenset[OperatorUid]:
        """What has done its work for good."""
        return frozenset(each.uid for each in self.manifest.operators if each.finished)

    @cached_property
    def chain_of(self) -> Mapping[OperatorUid, ChainUid]:
        """The chain that each part ran in."""
        return {each.uid: each.chain for each in self.manifest.operators}

    @cached_property
    def positions(self) -> frozenset[OperatorUid]:
        """The sources that had been read."""
        return frozenset(each.uid for each in self.manifest.sources if each.position is not None)

    @cached_property
    def chains(self) -> Mapping[ChainUid, FormerChain]:
        """The chains by uid."""
        found = {}
        for each in self.manifest.chains:
            keepers = self._keepers(each)
            names = dict(zip(keepers, each.stateful, strict=True)) if len(keepers) == len(each.stateful) else {}
            found[each.uid] = FormerChain(each, keepers, names)
        return found

    @cached_property
    def stateful(self) -> frozenset[OperatorUid]:
        """The operators that have state, or may have it."""
        return frozenset(uid for chain in self.chains.values() for keep in chain.keepers.values() for uid in keep)

    def aggregates(self, uid: OperatorUid) -> bool:
        """Return whether an operator's state is that of an aggregation."""
        return any(
            KINDS.get(chain.names[number]) == "aggregation"
            for chain in self.chains.values()
            for number, keepers in chain.keepers.items()
            if number in chain.names and uid in keepers
        )

    def output_mode(self, chain: ChainUid) -> str:
        """Return the output mode that a chain ran in: only its last operator may have another one than append."""
        modes = [self.parts[uid][1].get("outputMode", "append") for uid in self._operators(chain)]
        return next((mode for mode in modes if mode != "append"), "append")

    def has_event_time(self, chain: ChainUid) -> bool:
        """Return whether a chain's rows may have had a watermark: that of a source, or of another chain's rows."""
        parts = [self.parts.get(each.uid) for each in self.chains[chain].state.inputs]
        return any(part is None or part[0] is not Kind.SOURCE or part[1].get("watermark") for part in parts)

    def channels_of(self, producer: ChainUid) -> tuple[ChannelState, ...]:
        """Return the channels that a chain wrote."""
        return tuple(each for each in self.manifest.channels if each.source == producer)

    def label(self, uid: OperatorUid) -> str:
        """Return what messages call a part."""
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
        known = [uid for uid in operators if keeps_state(self.parts[uid][1].get("sql")) is not False]
        return frozenset(known or operators)


def keeps_state(sql: str | None) -> bool | None:
    """Return whether a query keeps state; None if only Spark can tell, as of a function."""
    parts = stateful_parts(sql) if sql is not None else None
    return None if parts is None else bool(parts)


def records_in_flight(channel: ChannelState) -> int:
    """Return how many records a snapshot holds of a channel."""
    return sum(segment.records for entry in channel.entries for segment in entry.segments)
