"""Which operators are in loops: each reads, directly or through others, what comes of its own rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamjob.job.spec import JobSpec


def loops_of(spec: JobSpec) -> dict[str, tuple[str, ...]]:
    """Return the operators that are in loops by name, each with the names of all operators of its loop."""
    readers = _on_cycles(_readers(spec, feedback=True))
    reached = {name: _reached(name, readers) for name in readers}
    return {
        name: tuple(each for each in readers if each in reached[name] and name in reached[each])
        for name in readers
        if name in reached[name]
    }


def closes_a_cycle(spec: JobSpec, name: str, reader: str) -> bool:
    """Return whether what the operator `reader` hands on comes to the operator `name`, or is the same one's."""
    return name == reader or name in _reached(reader, _readers(spec, feedback=False))


def _readers(spec: JobSpec, *, feedback: bool) -> dict[str, list[str]]:
    readers: dict[str, list[str]] = {each.name: [] for each in spec.operators}
    for operator in spec.operators:
        for edge in operator.inputs:
            if edge.name in readers and (feedback or not edge.feedback):
                readers[edge.name].append(operator.name)
    return readers


def _on_cycles(readers: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return the graph without all that no cycle can go through: a plan asks often, and most jobs have no loop."""
    left = {name: list(each) for name, each in readers.items()}
    while ends := [name for name, each in left.items() if not each]:
        for name in ends:
            del left[name]
        left = {name: [reader for reader in each if reader in left] for name, each in left.items()}
    return left


def _reached(name: str, readers: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(readers.get(name, ()))
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting.extend(readers[current])
    return found
