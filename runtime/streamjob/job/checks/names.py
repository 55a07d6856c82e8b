"""Checks the graph itself: names and uids, edges, cycles, unused parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from streamjob.job.checks.subject import Subject, where
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import Node, TableSpec
from streamjob.job.model.suggest import did_you_mean, nearest
from streamjob.job.planning.plan import in_order

_Part = TypeVar("_Part", bound=Node | TableSpec)


def unique_names(subject: Subject) -> Iterator[Problem]:
    """No two parts share a name or uid. Names become tables, and Spark ignores their case."""
    nodes = subject.spec.nodes()
    named: tuple[Node | TableSpec, ...] = (*subject.spec.tables, *nodes)
    for twin, first in _twins(named, lambda node: node.name.lower()):
        yield Problem(where(twin), f"has the name of the {where(first)}", "give each part a name of its own")
    for twin, first in _twins(nodes, lambda node: node.uid):
        if twin.name.lower() != first.name.lower():
            what = f"has the uid {twin.uid!r} of the {where(first)}"
            yield Problem(where(twin), what, "give each part a uid of its own: state is matched by it")


def _twins(nodes: Iterable[_Part], key: Callable[[_Part], str]) -> Iterator[tuple[_Part, _Part]]:
    firsts: dict[str, _Part] = {}
    for node in nodes:
        first = firsts.setdefault(key(node), node)
        if first is not node:
            yield node, first


def known_inputs(subject: Subject) -> Iterator[Problem]:
    """Every input is a source or an operator, and is named once."""
    readable = list(subject.spec.inputs())
    sinks = {each.name for each in subject.spec.sinks}
    edges = [(where(each), [edge.name for edge in each.inputs]) for each in subject.spec.operators]
    edges += [(where(each), [each.input]) for each in subject.spec.sinks]
    for reader, names in edges:
        if not names:
            yield Problem(reader, "has no inputs", f"name at least one: {', '.join(readable) or 'declare a source'}")
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                yield Problem(
                    reader, f"has the input {name!r} twice", "name it once; SQL can read it as often as needed"
                )
            if name in readable or name in subject.unread:
                continue
            if name.lower() in subject.spec.table_names():
                what = f"reads the table {name!r} as an input"
                yield Problem(reader, what, "name it in the query, or under `tables` of an operator with a function")
            elif name in sinks:
                yield Problem(reader, f"reads the sink {name!r}", "read the input of the sink instead")
            else:
                yield Problem(reader, f"has the unknown input {name!r}", did_you_mean(name, readable, "inputs"))


def no_cycle(subject: Subject) -> Iterator[Problem]:
    """Every cycle has an edge marked as feedback."""
    known = subject.spec.inputs()
    ordered = {each.name for each in in_order(subject.spec)}
    edges = {
        each.name: [edge.name for edge in each.inputs if not edge.feedback and edge.name in known]
        for each in subject.spec.operators
        if each.name not in ordered
    }
    reported: set[str] = set()
    for start in edges:
        cycle = [] if start in reported else _cycle(start, edges)
        if cycle and not reported.intersection(cycle):
            reported.update(cycle)
            first = known[cycle[0]]
            path = " → ".join([cycle[0], *reversed(cycle[1:]), cycle[0]])
            fix = "mark the input that closes it as feedback, or take one of them out"
            yield Problem(where(first), f"is part of a cycle: {path}", fix)


def _cycle(start: str, edges: dict[str, list[str]]) -> list[str]:
    """Return the operators on a path from `start` back to it against the data flow, or nothing."""
    waiting = [start]
    readers: dict[str, str] = {}
    while waiting:
        current = waiting.pop()
        for name in edges.get(current, []):
            if name == start:
                way = [current]
                while way[-1] != start:
                    way.append(readers[way[-1]])
                return way[::-1]
            if name not in readers:
                readers[name] = current
                waiting.append(name)
    return []


def all_used(subject: Subject) -> Iterator[Problem]:
    """There are a source and a sink, and every other part leads to a sink."""
    if not subject.complete:
        return
    spec = subject.spec
    if not spec.sources:
        yield Problem("job", "has no source", "add one under `sources`")
    if not spec.sinks:
        yield Problem("job", "has no sink", "add one under `sinks`: a job without one computes nothing")
        return
    read = {edge.name for each in spec.operators for edge in each.inputs} | {each.input for each in spec.sinks}
    meant = {nearest(name, spec.inputs()) for name in subject.unknown_inputs}
    for part in spec.inputs().values():
        if part.name not in read and part.name not in meant:
            yield Problem(where(part), "nothing reads it", "name it as an input, or remove it")
    joined = [subject.tables_of(each) for each in spec.operators]
    for table in spec.tables:
        if all(names is not None and table.name.lower() not in names for names in joined):
            yield Problem(where(table), "nothing reads it", "join it in an operator, or remove it")
