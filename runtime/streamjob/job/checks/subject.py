"""What the checks look at: a job, and what they need to ask about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamjob.ids import OperatorUid
from streamjob.job.loops import loops_of
from streamjob.job.spec import JobSpec, Node, OperatorSpec, SinkSpec, SourceSpec


@dataclass(frozen=True, slots=True)
class Subject:
    """A job under examination.

    Args:
        spec: the job.
        directory: the job file's directory.
        functions: functions of operators that were written in Python, by uid.
        spark_parser: Spark's opinion on a query: why it does not parse, or None.
        unread: names of parts that exist, but could not be read into `spec`.
        complete: nothing was left out of `spec`, named or not.
    """

    spec: JobSpec
    directory: Path
    functions: Mapping[OperatorUid, Callable[..., Any]]
    spark_parser: Callable[[str], str | None] | None = None
    unread: frozenset[str] = frozenset()
    complete: bool = True

    def unknown_inputs(self) -> set[str]:
        """Return the names that are read and do not exist; they are a problem of their own."""
        named = {edge.name for operator in self.spec.operators for edge in operator.inputs}
        named |= {sink.input for sink in self.spec.sinks}
        return named - self.spec.inputs().keys() - self.unread

    def sources_of(self, name: str) -> list[SourceSpec]:
        """Return the sources whose rows reach the source or operator `name`; without event time through loops."""
        known = self.spec.inputs()
        loops = loops_of(self.spec)
        found: dict[str, SourceSpec] = {}
        seen: set[tuple[str, bool]] = set()
        waiting = [(name, False)]
        while waiting:
            current, looped = waiting.pop()
            part = known.get(current)
            if part is None or (current, looped) in seen:
                continue
            seen.add((current, looped))
            if isinstance(part, SourceSpec):
                timeless = part.model_copy(update={"watermark": None})
                found[part.name] = timeless if looped and part.name not in found else part
            else:
                waiting.extend((edge.name, looped or current in loops) for edge in part.inputs)
        return list(found.values())


def where(node: Node) -> str:
    """Return what a problem calls a part of the graph: `operator 'delays'`."""
    kind = {SourceSpec: "source", OperatorSpec: "operator", SinkSpec: "sink"}[type(node)]
    return f"{kind} {node.name!r}"
