"""Decides which operators are fused, that is, which edges of a job's graph become channels, and why.

The result has as few channels as possible. Some edges must be channels in any case (several readers, `chain: false`).
Without them, every source and operator has at most one reader that it may be fused with, so the graph consists of
trees. In each tree, edges are examined from the sources on, and an edge becomes a channel at the first operator that
requires it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import NewType

from streamjob.job.model.spec import JobSpec, OperatorSpec, OutputMode, SourceSpec
from streamjob.job.planning.loops import loops_of
from streamjob.job.query.event_time import retimed

Edge = tuple[str, str]
"""The name of the part that is read, and of the operator that reads it."""

Reason = NewType("Reason", str)
"""Why an edge is a channel, in words."""


def channel_edges(
    spec: JobSpec, ordered: tuple[OperatorSpec, ...], fits: Callable[[OperatorSpec, OutputMode], bool]
) -> dict[Edge, tuple[Reason, ...]]:
    """Return the edges between operators that cannot be fused, with the reasons.

    Args:
        spec: the job; apart from feedback, its graph has no cycle.
        ordered: its operators, each after its inputs.
        fits: whether an operator of append mode can be part of a query with another output mode; called only if there
            is such a query.
    """
    channels: dict[Edge, tuple[Reason, ...]] = {}
    loops = loops_of(spec)
    readers = _readers(spec)
    parts = spec.inputs()
    new_times = retimed(spec, loops)
    for operator in ordered:
        for name in inputs_of(operator):
            others = [*_several_readers(name, readers[name]), *_not_chained(parts[name], operator)]
            if name in new_times:
                others.append(Reason(f"operator {name!r} gives its rows an event time of their own"))
            if reasons := _fed_back(name, operator) or [*_into_loop(name, operator, loops), *others]:
                channels[name, operator.name] = tuple(reasons)
    unending = {each.name for each in spec.sources if not each.bounded}
    # The operators fused into a chain whose inputs are all bounded sources that the chain itself reads.
    ending = {each.name for each in spec.sources if each.bounded}
    for operator in ordered:
        names = inputs_of(operator)
        if operator.output_mode != "append":
            for name in names:
                if (name, operator.name) in channels:
                    continue
                fused = _operators_above(name, parts, channels)
                if (unfit := next((each for each in fused if not fits(each, operator.output_mode)), None)) is not None:
                    channels[name, operator.name] = (_two_modes(unfit, operator),)
        ends = [name for name in names if name in ending and (name, operator.name) not in channels]
        if unending.intersection(names):
            unending.add(operator.name)
        if len(ends) == len(names):
            ending.add(operator.name)
            continue
        other = next(name for name in names if name not in ends)
        for name in ends:
            channels[name, operator.name] = (_two_ends(name, other, endless=other in unending),)
    return channels


def inputs_of(operator: OperatorSpec) -> tuple[str, ...]:
    """Return an operator's inputs, each once."""
    return tuple(dict.fromkeys(edge.name for edge in operator.inputs))


def _fed_back(name: str, reader: OperatorSpec) -> list[Reason]:
    return [Reason("it is fed back")] if any(each.name == name and each.feedback for each in reader.inputs) else []


def _into_loop(name: str, reader: OperatorSpec, loops: Mapping[str, tuple[str, ...]]) -> list[Reason]:
    if name not in loops.get(reader.name, (name,)):
        return [Reason(f"operator {reader.name!r} is in a loop, which has an end of its own")]
    return []


def _readers(spec: JobSpec) -> Mapping[str, list[str]]:
    """Return the readers of each source and operator, operators first."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for operator in spec.operators:
        for name in inputs_of(operator):
            found[name].append(f"operator {operator.name!r}")
    for sink in spec.sinks:
        found[sink.input].append(f"sink {sink.name!r}")
    return found


def _several_readers(name: str, readers: list[str]) -> list[Reason]:
    if len(readers) < 2:
        return []
    return [Reason(f"{', '.join(readers[:-1])} and {readers[-1]} read {name!r}")]


def _not_chained(read: SourceSpec | OperatorSpec, reader: OperatorSpec) -> list[Reason]:
    ends = [each for each in (read, reader) if isinstance(each, OperatorSpec) and not each.chain]
    return [Reason(f"operator {each.name!r} has chain: false") for each in ends]


def _two_modes(unfit: OperatorSpec, reader: OperatorSpec) -> Reason:
    needs = "needs" if unfit.sql is not None else "may need"
    return Reason(
        f"operator {reader.name!r} has outputMode {reader.output_mode} and operator {unfit.name!r} {needs} "
        f"{unfit.output_mode}: a Spark query has one"
    )


def _two_ends(name: str, other: str, *, endless: bool) -> Reason:
    if endless:
        return Reason(f"{name!r} will end and {other!r} will not")
    return Reason(f"{name!r} and {other!r} end at different times")


def _operators_above(
    name: str, parts: Mapping[str, SourceSpec | OperatorSpec], channels: Mapping[Edge, tuple[Reason, ...]]
) -> Iterator[OperatorSpec]:
    """Yield the operators that are fused into the source or operator `name`, nearest first."""
    waiting = deque([name])
    while waiting:
        part = parts[waiting.popleft()]
        if isinstance(part, OperatorSpec):
            yield part
            waiting.extend(each for each in inputs_of(part) if (each, part.name) not in channels)
