"""Checks joins with versions: two different inputs, both with event time, and rows that are appended."""

from __future__ import annotations

from collections.abc import Iterator

from streamjob.job.checks.subject import Subject, where
from streamjob.job.problem import Problem
from streamjob.job.spec import OperatorSpec


def joins(subject: Subject) -> Iterator[Problem]:
    """A temporal join has rows and versions as inputs, and both have event time."""
    for operator in subject.spec.operators:
        if operator.temporal_join is not None:
            yield from _join(subject, operator)


def _join(subject: Subject, operator: OperatorSpec) -> Iterator[Problem]:
    names = [edge.name for edge in operator.inputs]
    if len(names) != 2 or names[0] == names[1]:
        what = f"has a temporalJoin and the inputs {', '.join(names)}"
        yield Problem(where(operator), what, "name two inputs: the rows, and then the versions")
        return
    if operator.name in subject.loops:
        fix = "join before the loop, or behind it"
        yield Problem(where(operator), "joins versions, and the rows of a loop have no event time", fix)
        return
    if operator.output_mode != "append":
        what = f"has a temporalJoin and outputMode {operator.output_mode}: it joins each row once"
        yield Problem(where(operator), what, "leave outputMode out")
    if operator.watermark is not None:
        what = "has a watermark, and its rows keep the event time of its first input"
        yield Problem(where(operator), what, "leave it out")
    for name in names:
        if subject.sources_of([name]) and not subject.have_event_time([name]):
            what = f"joins versions by event time, and its input {name!r} has no watermark"
            yield Problem(where(operator), what, "give the input `watermark: {column: …, delay: …}`")
