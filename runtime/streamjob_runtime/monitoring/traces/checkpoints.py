"""Spans of checkpoints, from the events and actions of the coordinator. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from streamjob.ids import ChainUid, CheckpointId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import CheckpointProperties
from streamjob.telemetry.spans import Attribute, Span, SpanContext


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """A checkpoint from its trigger to its end; times are in seconds since 1970, None before the event.

    Args:
        chains: the chains that must acknowledge.
        triggered: the time of its trigger.
        acknowledged: time and figures of each acknowledgement.
        completing: the time of the last acknowledgement.
        completed: when the log named it.
        ended: when its output was committed, or when it failed.
        failure: the reason of its failure; None if it did not fail.
    """

    id: CheckpointId
    properties: CheckpointProperties
    chains: tuple[ChainUid, ...]
    triggered: float
    acknowledged: Mapping[ChainUid, tuple[float, m.AcknowledgementMetrics]] = field(default_factory=dict)
    completing: float | None = None
    completed: float | None = None
    ended: float | None = None
    failure: str | None = None


def follow(
    record: CheckpointRecord | None, event: m.Event, actions: Sequence[m.Action]
) -> tuple[CheckpointRecord | None, CheckpointRecord | None]:
    """Follow the coordinator by one event, and return the checkpoint in progress and the one that has ended, if any.

    Args:
        record: the checkpoint in progress; the coordinator has at most one.
        event: the event that the coordinator has handled.
        actions: the actions that it has returned.
    """
    ended: CheckpointRecord | None = None
    if record is not None:
        record = _noted(record, event)
        ended = record if record.ended is not None else None
        record = None if ended is not None else record
    for action in actions:
        match action:
            case m.AbortCheckpoint() if record is not None and record.id == action.id:
                why = f"{action.reason.value}: {action.message}" if action.message else action.reason.value
                ended, record = replace(record, ended=event.now, failure=why), None
            case m.CompleteCheckpoint() if record is not None and record.id == action.id:
                record = replace(record, completing=event.now)
            case m.StartCheckpoint():
                record = CheckpointRecord(
                    id=action.id, properties=action.properties, chains=action.chains, triggered=action.triggered
                )
            case _:
                pass
    return record, ended


def _noted(record: CheckpointRecord, event: m.Event) -> CheckpointRecord:
    match event:
        case m.ChainAcknowledged(acknowledgement=part) if event.id == record.id:
            if part.chain not in record.chains or part.chain in record.acknowledged:
                return record
            return replace(record, acknowledged={**record.acknowledged, part.chain: (event.now, part.metrics)})
        case m.CompletionSucceeded() if event.id == record.id:
            return replace(record, completed=event.now)
        case m.OutputCommitted() if event.id == record.id:
            return replace(record, ended=event.now)
        case m.CommitFailed() if event.id == record.id:
            return replace(record, ended=event.now, failure=f"its output was not committed: {event.message}")
        case m.EpochEnded() if record.completing is None or record.completed is not None:
            # While the log is written, the coordinator itself reports the outcome.
            return replace(record, ended=event.now, failure="the epoch ended before its output was published")
        case _:
            return record


def checkpoint_spans(
    record: CheckpointRecord, context: SpanContext, parent: SpanContext | None, about: Mapping[str, Attribute]
) -> list[Span]:
    """Return the spans of a checkpoint that has ended, its parent span first.

    Args:
        context: the identity of its span.
        parent: the request for it in another process; None for the first span of a trace.
        about: attributes of the job.
    """
    assert record.ended is not None, "only a checkpoint that has ended has spans"
    metrics = [metrics for _, metrics in record.acknowledged.values()]
    common = {**about, "streamjob.checkpoint": record.id}
    whole: dict[str, Attribute] = {
        **common,
        "streamjob.kind": record.properties.kind.value,
        "streamjob.periodic": record.properties.periodic,
        "streamjob.unaligned": record.properties.unaligned or any(each.unaligned for each in metrics),
        "streamjob.chains": len(record.chains),
        "streamjob.acknowledged": len(metrics),
        "streamjob.checkpointed_bytes": sum(each.checkpointed_size for each in metrics),
        "streamjob.state_bytes": sum(each.state_size for each in metrics),
        "streamjob.objects": sum(each.objects for each in metrics),
    }
    if record.completing is not None:
        whole["streamjob.end_to_end_ms"] = round((record.completing - record.triggered) * 1000)
    name = "savepoint" if record.properties.is_savepoint else "checkpoint"
    spans = [Span(name, context, parent, record.triggered, record.ended, whole, record.failure)]
    for chain, (at, figures) in record.acknowledged.items():
        spans += _chain_spans(record, chain, at, figures, context, common)
    if record.completing is not None:
        end = record.ended if record.completed is None else record.completed
        failure = record.failure if record.completed is None else None
        spans.append(Span("complete", context.child("complete"), context, record.completing, end, common, failure))
    if record.completed is not None:
        spans.append(
            Span("publish", context.child("publish"), context, record.completed, record.ended, common, record.failure)
        )
    return spans


def _chain_spans(
    record: CheckpointRecord,
    chain: ChainUid,
    at: float,
    figures: m.AcknowledgementMetrics,
    parent: SpanContext,
    common: Mapping[str, Attribute],
) -> Iterator[Span]:
    context = parent.child("chain", chain)
    known = {**common, "streamjob.chain": chain}
    yield Span(
        f"chain {chain}",
        context,
        parent,
        record.triggered,
        at,
        {
            **known,
            "streamjob.unaligned": figures.unaligned,
            "streamjob.start_delay_ms": round(figures.start_delay * 1000),
            "streamjob.checkpointed_bytes": figures.checkpointed_size,
            "streamjob.state_bytes": figures.state_size,
            "streamjob.in_flight_bytes": figures.persisted_data,
            "streamjob.objects": figures.objects,
        },
    )
    # The figures are durations. The last two end with the acknowledgement, the first begins after the start delay.
    upload = max(record.triggered, at - figures.async_duration)
    hold = max(record.triggered, upload - figures.sync_duration)
    barrier = min(hold, record.triggered + figures.start_delay)
    cut = min(hold, barrier + figures.alignment_duration)
    parts: tuple[tuple[str, float, float, dict[str, Attribute]], ...] = (
        ("alignment", barrier, cut, {"streamjob.processed_bytes": figures.processed_data}),
        ("commit wait", cut, hold, {}),
        ("hold", hold, upload, {}),
        ("upload", upload, at, {"streamjob.bytes": figures.checkpointed_size, "streamjob.objects": figures.objects}),
    )
    for name, start, end, own in parts:
        if end > start:
            yield Span(name, context.child(name), context, start, end, {**known, **own})
