"""Finds the operators in loops: those that read, directly or through others, results of their own rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamjob.job.model.spec import JobSpec


def loops_of(spec: JobSpec) -> dict[str, tuple[str, ...]]:
    """Return the operators that are in loops by name, each with the names of all operators of its loop."""
    readers = _on_cycles(_readers(spec, feedback=True))
    read = _reversed(readers)
    found: dict[str, tuple[str, ...]] = {}
    for name in readers:
        if name not in found:
            # An operator that is on a path both from and to another one is on a cycle with it.
            members = _reached(name, readers) & _reached(name, read)
            loop = tuple(each for each in readers if each in members)
            found |= dict.fromkeys(loop, loop)
    return {name: found[name] for name in readers if name in found}


def closes_a_cycle(spec: JobSpec, name: str, reader: str) -> bool:
    """Return whether the rows of `reader` reach the operator `name`, or both are the same operator."""
    return name == reader or name in _reached(reader, _readers(spec, feedback=False))


def _readers(spec: JobSpec, *, feedback: bool) -> dict[str, list[str]]:
    readers: dict[str, list[str]] = {each.name: [] for each in spec.operators}
    for operator in spec.operators:
        for edge in operator.inputs:
            if edge.name in readers and (feedback or not edge.feedback):
                readers[edge.name].append(operator.name)
    return readers


def _on_cycles(readers: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return the graph without the parts that lead into no cycle; most jobs have no loop."""
    read = _reversed(readers)
    number = {name: len(list(each)) for name, each in readers.items()}
    ends = [name for name, each in number.items() if each == 0]
    while ends:
        end = ends.pop()
        del number[end]
        for name in read[end]:
            number[name] -= 1
            if number[name] == 0:
                ends.append(name)
    return {name: [reader for reader in readers[name] if reader in number] for name in readers if name in number}


def _reversed(readers: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    read: dict[str, list[str]] = {name: [] for name in readers}
    for name, each in readers.items():
        for reader in each:
            read[reader].append(name)
    return read


def _reached(name: str, readers: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(readers.get(name, ()))
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting.extend(readers[current])
    return found
