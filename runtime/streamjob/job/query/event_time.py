"""Finds the parts of a job whose rows have event time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streamjob.job.model.spec import JobSpec, OperatorSpec
from streamjob.job.query.sql import stateful_parts


def have_event_time(spec: JobSpec, names: Iterable[str], loops: Collection[str]) -> bool:
    """Return whether a watermark is declared at some parts, or before them.

    Args:
        names: the names of the parts.
        loops: the operators in loops: their rows have no event time.
    """
    return _finds_watermark(spec, names, loops, _inputs(spec))


def retimed(spec: JobSpec, loops: Collection[str]) -> frozenset[str]:
    """Return the operators that declare event time for their rows, and whose inputs have an event time, too."""
    inputs = _inputs(spec)
    return frozenset(
        each.name
        for each in spec.operators
        if each.watermark is not None and _finds_watermark(spec, inputs[each.name], loops, inputs)
    )


def keeps_event_time(spec: JobSpec, operator: OperatorSpec, loops: Collection[str]) -> str | None:
    """Return the input whose event time the rows of an operator certainly still have; None if there is none.

    Only queries without state are certain to keep it.
    """
    stateless = {
        each.name
        for each in spec.operators
        if each.sql is not None and stateful_parts(each.sql, spec.table_names()) == ()
    }
    certain = {name: read for name, read in _inputs(spec).items() if name in stateless}
    if operator.name not in stateless:
        return None
    return next((each for each in certain[operator.name] if _finds_watermark(spec, [each], loops, certain)), None)


def may_be_idle(spec: JobSpec) -> bool:
    """Return whether a job has an input that may become idle."""
    return any(
        each.watermark is not None and each.watermark.idle_timeout is not None for each in spec.inputs().values()
    )


def _inputs(spec: JobSpec) -> dict[str, frozenset[str]]:
    return {each.name: frozenset(edge.name for edge in each.inputs) for each in spec.operators}


def _finds_watermark(
    spec: JobSpec, names: Iterable[str], loops: Collection[str], inputs: Mapping[str, Iterable[str]]
) -> bool:
    waiting, seen = list(names), set[str]()
    parts = spec.inputs()
    while waiting:
        name = waiting.pop()
        if name in seen or name in loops or name not in parts:
            continue
        seen.add(name)
        if parts[name].watermark is not None:
            return True
        waiting.extend(inputs.get(name, ()))
    return False
