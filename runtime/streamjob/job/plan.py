"""Plans a job: which operators are fused into which chain, and which channels stand between the chains.

A chain is a run of operators that one Spark query computes. A channel stands between two chains where one query cannot
do it, see `streamjob.job.fusing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from streamjob.ids import ChainUid, OperatorUid
from streamjob.job.fusing import Edge, Reason, channel_edges, inputs_of
from streamjob.job.loops import loops_of
from streamjob.job.spec import JobSpec, Node, OperatorSpec, OutputMode, SinkSpec, SourceSpec
from streamjob.job.sql import NotAQuery, read_query


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """The way of rows from one chain to another.

    Args:
        source: the chain that writes it.
        target: the chain that reads it.
        name: what its rows are called in the job, which is the table's name in the SQL of the chain that reads it.
        uid: the uid of the operator or source of that name.
        reason: why it is there, for people.
        feedback: it closes a cycle.
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
    """A run of operators fused into one Spark query.

    Args:
        uid: the chain's identity: the uid of the operator or source whose rows leave it.
        sources: what it reads from outside of the job.
        operators: what it computes, each after its inputs.
        sinks: what it writes; they all read `output`.
        output: name of the operator or source whose rows leave the chain: to its sinks, and to the chains that read it.
        output_mode: Spark's output mode of the query.
        channels: what it reads from other chains.
        bounded: everything that it reads, directly and through channels, will end.
        loop: the operators of the loop that it is a part of; none if it is in no loop.
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
        """Return the uids of all that runs in the chain: sources, operators, sinks."""
        nodes: tuple[Node, ...] = (*self.sources, *self.operators, *self.sinks)
        return tuple(each.uid for each in nodes)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a job runs.

    Args:
        chains: its chains, each after those that it reads, feedback aside.
        channels: the channels between them, by the chain that reads, in the order of the chains.
    """

    chains: tuple[ChainPlan, ...]
    channels: tuple[ChannelPlan, ...] = ()

    def chain(self, uid: ChainUid) -> ChainPlan:
        """Return the chain of that uid; KeyError if there is none."""
        for chain in self.chains:
            if chain.uid == uid:
                return chain
        raise KeyError(uid)

    def readers(self, uid: ChainUid) -> tuple[ChainUid, ...]:
        """Return the chains that read what the chain `uid` writes into its channels; none if it has none."""
        return tuple(each.target for each in self.channels if each.source == uid)

    def feeds_back(self, uid: ChainUid) -> bool:
        """Return whether a feedback channel leads away from a chain."""
        return any(each.feedback for each in self.channels if each.source == uid)


def plan(spec: JobSpec) -> Plan:
    """Return how a valid job runs, in as few chains as possible."""
    ordered = in_order(spec)
    edges = channel_edges(spec, ordered, _is_the_same_in)
    fused = {name for each in ordered for name in inputs_of(each) if (name, each.name) not in edges}
    loops = loops_of(spec)
    chains: dict[str, ChainPlan] = {}
    parts: tuple[SourceSpec | OperatorSpec, ...] = (*spec.sources, *ordered)
    for part in parts:
        if part.name not in fused:
            chains[part.name] = _chain(spec, ordered, part, edges, chains, loops)
    return Plan(tuple(chains.values()), tuple(channel for chain in chains.values() for channel in chain.channels))


def in_order(spec: JobSpec) -> tuple[OperatorSpec, ...]:
    """Return the operators, each after its inputs but for feedback, otherwise in the order of the file.

    Those of a cycle that no feedback input closes are left out.
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


def consumers(spec: JobSpec, name: str) -> list[str]:
    """Return what reads the source or operator `name`: `operator 'a'`, `sink 'b'`."""
    operators = [each.name for each in spec.operators if any(edge.name == name for edge in each.inputs)]
    return [f"operator {each!r}" for each in operators] + [f"sink {s.name!r}" for s in spec.sinks if s.input == name]


def _chain(
    spec: JobSpec,
    ordered: tuple[OperatorSpec, ...],
    last: SourceSpec | OperatorSpec,
    edges: dict[Edge, tuple[Reason, ...]],
    earlier: dict[str, ChainPlan],
    loops: Mapping[str, tuple[str, ...]],
) -> ChainPlan:
    """Return the chain whose rows are those of `last`: all that is fused with it."""
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
                # A chain has the uid of what leaves it, also one that comes later.
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


def _is_the_same_in(operator: OperatorSpec, mode: OutputMode) -> bool:
    """Return whether an operator surely gives the rows of append mode in a query of another output mode."""
    if operator.sql is None:
        return False
    try:
        return mode in read_query(operator.sql).modes
    except NotAQuery:
        return False
