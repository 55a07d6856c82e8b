"""Plans a job: fuses operators into chains, and places channels between the chains.

A chain is a group of operators that one Spark query computes. A channel connects two chains where one query cannot
compute both; see `streamjob.job.planning.fusing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import partial

from streamjob.ids import ChainUid, OperatorUid
from streamjob.job.model.spec import JobSpec, Node, OperatorSpec, OutputMode, SinkSpec, SourceSpec
from streamjob.job.planning.fusing import Edge, Reason, channel_edges, inputs_of
from streamjob.job.planning.loops import loops_of
from streamjob.job.query.sql import NotAQuery, read_query


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """A channel from one chain to another.

    Args:
        source: the chain that writes it.
        target: the chain that reads it.
        name: the name of its rows in the job, which is the table's name in the reader's SQL.
        uid: the uid of the operator or source with that name.
        reason: why the channel exists, in words.
        feedback: whether it closes a cycle.
        schema_ddl: the columns of a feedback channel.
    """

    source: ChainUid
    target: ChainUid
    name: str
    uid: OperatorUid
    reason: str
    feedback: bool = False
    schema_ddl: str | None = None


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """A group of operators fused into one Spark query.

    Args:
        uid: the chain's identity: the uid of the operator or source whose rows leave it.
        sources: the sources that it reads.
        operators: its operators, each after its inputs.
        sinks: its sinks, which all read `output`.
        output: name of the operator or source whose rows leave the chain, for its sinks and for other chains.
        output_mode: Spark's output mode of the query.
        channels: the channels that it reads.
        bounded: whether all its inputs end, directly and through channels.
        loop: the operators of the loop that it belongs to; empty if it is in no loop.
    """

    uid: ChainUid
    sources: tuple[SourceSpec, ...]
    operators: tuple[OperatorSpec, ...]
    sinks: tuple[SinkSpec, ...]
    output: str
    output_mode: OutputMode
    channels: tuple[ChannelPlan, ...] = ()
    bounded: bool = False
    loop: tuple[str, ...] = ()

    def uids(self) -> tuple[OperatorUid, ...]:
        """Return the uids of all parts in the chain: sources, operators, sinks."""
        nodes: tuple[Node, ...] = (*self.sources, *self.operators, *self.sinks)
        return tuple(each.uid for each in nodes)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a job.

    Args:
        chains: its chains, each after those that it reads, apart from feedback.
        channels: the channels between them, by the reading chain, in the order of the chains.
    """

    chains: tuple[ChainPlan, ...]
    channels: tuple[ChannelPlan, ...] = ()

    def chain(self, uid: ChainUid) -> ChainPlan:
        """Return the chain with this uid; KeyError if there is none."""
        for chain in self.chains:
            if chain.uid == uid:
                return chain
        raise KeyError(uid)

    def readers(self, uid: ChainUid) -> tuple[ChainUid, ...]:
        """Return the chains that read the channels of the chain `uid`; empty if there are none."""
        return tuple(each.target for each in self.channels if each.source == uid)

    def feeds_back(self, uid: ChainUid) -> bool:
        """Return whether a feedback channel starts at a chain."""
        return any(each.feedback for each in self.channels if each.source == uid)


def plan(spec: JobSpec) -> Plan:
    """Return the plan of a valid job, with as few chains as possible."""
    ordered = in_order(spec)
    edges = channel_edges(spec, ordered, partial(_is_the_same_in, spec.table_names()))
    fused = {name for each in ordered for name in inputs_of(each) if (name, each.name) not in edges}
    loops = loops_of(spec)
    chains: dict[str, ChainPlan] = {}
    parts: tuple[SourceSpec | OperatorSpec, ...] = (*spec.sources, *ordered)
    for part in parts:
        if part.name not in fused:
            chains[part.name] = _chain(spec, ordered, part, edges, chains, loops)
    return Plan(tuple(chains.values()), tuple(channel for chain in chains.values() for channel in chain.channels))


def in_order(spec: JobSpec) -> tuple[OperatorSpec, ...]:
    """Return the operators, each after its inputs apart from feedback, and otherwise in the order of the file.

    Operators of a cycle without a feedback input are left out.
    """
    done = {each.name for each in spec.sources}
    waiting = list(spec.operators)
    ordered: list[OperatorSpec] = []
    while ready := next((each for each in waiting if _is_ready(each, done)), None):
        waiting.remove(ready)
        ordered.append(ready)
        done.add(ready.name)
    return tuple(ordered)


def _is_ready(operator: OperatorSpec, done: Set[str]) -> bool:
    return all(edge.name in done for edge in operator.inputs if not edge.feedback)


def _chain(
    spec: JobSpec,
    ordered: tuple[OperatorSpec, ...],
    last: SourceSpec | OperatorSpec,
    edges: dict[Edge, tuple[Reason, ...]],
    earlier: dict[str, ChainPlan],
    loops: Mapping[str, tuple[str, ...]],
) -> ChainPlan:
    """Return the chain that outputs the rows of `last`, with everything fused with it."""
    members = {last.name}
    for operator in reversed(ordered):
        if operator.name in members:
            members.update(name for name in inputs_of(operator) if (name, operator.name) not in edges)
    operators = tuple(each for each in ordered if each.name in members)
    sources = tuple(each for each in spec.sources if each.name in members)
    reasons: dict[str, dict[Reason, None]] = {}
    for operator in operators:
        for name in inputs_of(operator):
            if found := edges.get((name, operator.name)):
                reasons.setdefault(name, {}).update(dict.fromkeys(found))
    back = {edge.name: edge.schema_ddl for each in operators for edge in each.inputs if edge.feedback}
    uid = ChainUid(last.uid)
    parts = spec.inputs()
    return ChainPlan(
        uid=uid,
        sources=sources,
        operators=operators,
        sinks=tuple(each for each in spec.sinks if each.input == last.name),
        output=last.name,
        output_mode=last.output_mode if isinstance(last, OperatorSpec) else "append",
        channels=tuple(
            ChannelPlan(
                # Every chain has the uid of its output; chains that are created later follow the same rule.
                source=ChainUid(parts[name].uid),
                target=uid,
                name=name,
                uid=parts[name].uid,
                reason="; ".join(why),
                feedback=name in back,
                schema_ddl=back.get(name),
            )
            for name, why in reasons.items()
        ),
        bounded=all(each.bounded for each in sources) and all(earlier[name].bounded for name in reasons.keys() - back),
        loop=loops.get(last.name, ()),
    )


def _is_the_same_in(static: Set[str], operator: OperatorSpec, mode: OutputMode) -> bool:
    """Return whether an operator certainly yields its append-mode rows in a query of another output mode."""
    if operator.sql is None:
        return operator.lookup is not None
    try:
        return mode in read_query(operator.sql, static=static).modes
    except NotAQuery:
        return False


def lossy_names(spec: JobSpec) -> Set[str]:
    """Return the names of the sources that cannot be replayed, and of the operators behind them."""
    lossy = {each.name for each in spec.sources if not each.replayable}
    while more := {each.name for each in spec.operators if lossy.intersection(inputs_of(each))} - lossy:
        lossy |= more
    return lossy
