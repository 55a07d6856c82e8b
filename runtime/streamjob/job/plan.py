"""Plans a job: which operators are fused into which chain.

A chain is a run of operators that one Spark query computes. A channel stands between two chains where one query cannot
do it; this version has none, so a job that needs one is refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamjob.errors import InvalidJob
from streamjob.ids import ChainUid, OperatorUid
from streamjob.job.problem import Problem
from streamjob.job.spec import JobSpec, Node, OperatorSpec, OutputMode, SinkSpec, SourceSpec

_ONE_CHAIN = "this version runs jobs of one chain"


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """A run of operators fused into one Spark query.

    Args:
        uid: the chain's identity: the uid of what its sinks read.
        sources: what it reads.
        operators: what it computes, each after its inputs.
        sinks: what it writes; they all read `output`.
        output: name of the operator or source whose rows go to the sinks.
        output_mode: Spark's output mode of the query.
    """

    uid: ChainUid
    sources: tuple[SourceSpec, ...]
    operators: tuple[OperatorSpec, ...]
    sinks: tuple[SinkSpec, ...]
    output: str
    output_mode: OutputMode

    def uids(self) -> tuple[OperatorUid, ...]:
        """Return the uids of all that runs in the chain: sources, operators, sinks."""
        nodes: tuple[Node, ...] = (*self.sources, *self.operators, *self.sinks)
        return tuple(each.uid for each in nodes)


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """In-flight data from one chain to another."""

    source: ChainUid
    target: ChainUid


@dataclass(frozen=True, slots=True)
class Plan:
    """How a job runs: its chains, and the channels between them."""

    chains: tuple[ChainPlan, ...]
    channels: tuple[ChannelPlan, ...] = ()


def plan(spec: JobSpec) -> Plan:
    """Return how a valid job runs.

    Raises:
        InvalidJob: the job needs more than one chain.
    """
    if problems := plan_problems(spec):
        raise InvalidJob(f"job {spec.name!r}", problems)
    output = spec.sinks[0].input
    ordered = in_order(spec)
    last = spec.inputs()[output]
    mode = last.output_mode if isinstance(last, OperatorSpec) else "append"
    return Plan((ChainPlan(ChainUid(last.uid), spec.sources, ordered, spec.sinks, output, mode),))


def plan_problems(spec: JobSpec) -> list[Problem]:
    """Return why a job cannot run as one chain; none if it can. Unknown inputs and cycles are not its business."""
    return [*_unfused(spec), *_fan_out(spec), *_scattered_sinks(spec)]


def in_order(spec: JobSpec) -> tuple[OperatorSpec, ...]:
    """Return the operators, each after its inputs, otherwise in the order of the file; a cycle's are left out."""
    done = {each.name for each in spec.sources}
    waiting = list(spec.operators)
    ordered: list[OperatorSpec] = []
    while ready := next((each for each in waiting if all(edge.name in done for edge in each.inputs)), None):
        waiting.remove(ready)
        ordered.append(ready)
        done.add(ready.name)
    return tuple(ordered)


def consumers(spec: JobSpec, name: str) -> list[str]:
    """Return what reads the source or operator `name`: `operator 'a'`, `sink 'b'`."""
    operators = [each.name for each in spec.operators if any(edge.name == name for edge in each.inputs)]
    return [f"operator {each!r}" for each in operators] + [f"sink {s.name!r}" for s in spec.sinks if s.input == name]


def _unfused(spec: JobSpec) -> list[Problem]:
    problems = []
    for operator in spec.operators:
        where = f"operator {operator.name!r}"
        if not operator.chain:
            problems.append(Problem(where, f"chain: false asks for a channel, and {_ONE_CHAIN}", "leave out `chain`"))
        for edge in operator.inputs:
            if edge.feedback:
                what = f"the feedback input {edge.name!r} needs a channel, and {_ONE_CHAIN}"
                problems.append(Problem(where, what, "write the loop as state of one operator"))
    return problems


def _fan_out(spec: JobSpec) -> list[Problem]:
    problems = []
    for kind, part in [("source", each) for each in spec.sources] + [("operator", each) for each in spec.operators]:
        readers = consumers(spec, part.name)
        if len(readers) > 1 and any(each.startswith("operator") for each in readers):
            what = f"{' and '.join(readers)} read it: that needs a channel, and {_ONE_CHAIN}"
            problems.append(Problem(f"{kind} {part.name!r}", what, "give each its own source, or run several jobs"))
    return problems


def _scattered_sinks(spec: JobSpec) -> list[Problem]:
    known = spec.inputs()
    first = next((each for each in spec.sinks if each.input in known), None)
    return [
        Problem(
            f"sink {sink.name!r}",
            f"reads {sink.input!r}, but the sink {first.name!r} reads {first.input!r}: that needs several chains, "
            f"and {_ONE_CHAIN}",
            "let all sinks read the same operator, or run several jobs",
        )
        for sink in spec.sinks
        if first is not None and sink.input in known and sink.input != first.input
    ]
