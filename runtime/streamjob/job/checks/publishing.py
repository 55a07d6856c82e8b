"""Checks sinks that publish each batch: whether their batches can run again with the same rows."""

from __future__ import annotations

from collections.abc import Iterator

from streamjob.job.checks.subject import Subject, where
from streamjob.job.connectors.kafka_source import FORMAT as KAFKA
from streamjob.job.connectors.registry import CONNECTORS, sink_of
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import BATCH, SinkSpec
from streamjob.job.planning.plan import ChainPlan, plan

_FIX = "leave publish out: rows are visible with the checkpoint that covers them"


def batches(subject: Subject) -> Iterator[Problem]:
    """A sink publishes each batch only if its target has transactions, and if the batch can run again."""
    publishing = [each for each in subject.spec.sinks if each.publish == BATCH]
    if not publishing or subject.unknown_inputs or not subject.complete:
        return
    chains = {sink.name: chain for chain in plan(subject.spec).chains for sink in chain.sinks}
    for sink in publishing:
        if found := [*_target(sink)]:
            yield from found
        elif sink.name in chains:
            yield from _chain(subject, sink, chains[sink.name])


def _target(sink: SinkSpec) -> Iterator[Problem]:
    if sink.delivery != "exactly-once":
        what = "has publish: batch, and delivery: at-least-once, which publishes each batch anyway"
        yield Problem(where(sink), what, "leave publish out")
    elif not sink_of(sink.format).batches:
        able = ", ".join(sorted(name for name in CONNECTORS if sink_of(name).batches))
        what = (
            f"cannot publish each batch: the format {sink.format!r} does not write rows and their record in one "
            "transaction"
        )
        yield Problem(where(sink), what, f"{_FIX}; or write to {able}")


def _chain(subject: Subject, sink: SinkSpec, chain: ChainPlan) -> Iterator[Problem]:
    for channel in chain.channels:
        what = (
            f"cannot publish each batch: its rows come through a channel from {channel.name!r} ({channel.reason}), "
            "and which of them a batch reads is not repeated after a failure"
        )
        yield Problem(where(sink), what, f"let one query compute them, see `streamjob plan`; or {_FIX}")
    for source in chain.sources:
        if source.format != KAFKA or not source.replayable:
            what = (
                f"cannot publish each batch: the positions of source {source.name!r} do not tell alone which rows a "
                "batch has read"
            )
            yield Problem(where(sink), what, f"read the rows from Kafka; or {_FIX}")
    for operator in chain.operators:
        if tables := subject.tables_of(operator):
            what = (
                f"cannot publish each batch: operator {operator.name!r} reads {', '.join(sorted(tables))}, which may "
                "have other rows when a batch runs again"
            )
            yield Problem(where(sink), what, _FIX)
