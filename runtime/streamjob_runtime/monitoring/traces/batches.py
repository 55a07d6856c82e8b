"""Spans of a batch, from Spark's report about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from streamjob.ids import ChainUid
from streamjob.telemetry.spans import Attribute, Span, SpanContext
from streamjob_runtime.monitoring.query_progress import BatchProgress


def batch_spans(
    chain: ChainUid, batch: BatchProgress, context: SpanContext, about: Mapping[str, Attribute]
) -> list[Span]:
    """Return the spans of a batch, its parent span first; none if Spark does not report when it began.

    Spark reports durations of the phases. They follow one another in this sequence, except for the logs: Spark writes a
    part of them before the execution.

    Args:
        context: the identity of its span.
        about: attributes of the job.
    """
    if batch.begun is None:
        return []
    known: dict[str, Attribute] = {**about, "streamjob.chain": chain, "streamjob.batch": batch.batch}
    end = batch.begun + batch.duration_ms / 1000
    spans = [Span("batch", context, None, batch.begun, end, {**known, "streamjob.rows": batch.rows_in})]
    phases, at = batch.phases, batch.begun
    for name, duration in (
        ("offsets", phases.offsets_ms),
        ("planning", phases.planning_ms),
        ("execution", phases.execution_ms),
        ("logs", phases.logs_ms),
    ):
        begin, at = at, min(end, at + duration / 1000)
        if at > begin:
            spans.append(Span(name, context.child(name), context, begin, at, known))
    return spans
