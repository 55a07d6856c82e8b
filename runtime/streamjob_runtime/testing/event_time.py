"""Finds the inputs whose watermarks a test raises: those of sources, and of operators that give rows event time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamjob.ids import OperatorUid
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.loops import loops_of
from streamjob.job.query.event_time import have_event_time, retimed
from streamjob_runtime.chain.chain import Chain


@dataclass(frozen=True, slots=True)
class Timed:
    """The error that a test raises.

    Args:
        inputs: the parts with whose rows chains keep the watermarks, by uid.
        sources: the sources, by name, of which a batch raises them.
        of_operator: whether an operator gives the rows event time.
    """

    inputs: frozenset[OperatorUid]
    sources: frozenset[str]
    of_operator: bool = False


def timed_parts(spec: JobSpec) -> dict[str, Timed]:
    """Return all sources and operators of a job that declare a watermark which moves by itself, by name."""
    found = {
        each.name: Timed(frozenset({each.uid}), frozenset({each.name}))
        for each in spec.sources
        if each.watermark is not None
    }
    loops = loops_of(spec)
    follow = retimed(spec, loops)
    parts = spec.inputs()
    sources = {each.name for each in spec.sources}
    for operator in spec.operators:
        if operator.watermark is None or operator.name in follow:
            continue
        before = _before(spec, operator.name)
        # A chain keeps such a watermark with the input that the rows come from: one without event time.
        inputs = {parts[name].uid for name in before if not have_event_time(spec, [name], loops)}
        found[operator.name] = Timed(frozenset(inputs), frozenset(before & sources), of_operator=True)
    return found


def raise_event_time(chains: Iterable[Chain], timed: Iterable[Timed], milliseconds: int) -> bool:
    """Raise watermarks with the next batch of each chain; return whether some wait for a barrier.

    Args:
        milliseconds: the watermark, in ms since 1970.
    """
    parts = list(timed)
    inputs = frozenset[OperatorUid]().union(*(each.inputs for each in parts))
    of_operators = frozenset[OperatorUid]().union(*(each.inputs for each in parts if each.of_operator))
    waits = False
    for chain in chains:
        raised = inputs & chain.dataflow.watermark_nodes.keys()
        chain.advance_event_time(dict.fromkeys(raised, milliseconds))
        # A channel passes on a source's watermark, but no batch without rows.
        waits |= bool(raised & of_operators & chain.dataflow.channels.keys())
    return waits


def _before(spec: JobSpec, name: str) -> set[str]:
    reads = {each.name: [edge.name for edge in each.inputs] for each in spec.operators}
    found: set[str] = set()
    waiting = list(reads[name])
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += reads.get(each, ())
    return found
