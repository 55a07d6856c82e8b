"""The output of `streamjob status` for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from streamjob.client import formatting
from streamjob.client.console import console_for
from streamjob.client.inputs import behind, idle_note, since, time_notes, unread_records
from streamjob.client.models import ChainView, CheckpointsView, ExecutorsView, InputView, JobView, SnapshotKind
from streamjob.client.page_models import Diagnosis, Severity
from streamjob.ids import OperatorUid

_SHOWN = 5
_PARTITIONS_SHOWN = 12
_MARKS: Mapping[Severity, str] = {"ok": "✓", "attention": "!", "critical": "✗"}
_STYLES: Mapping[Severity, str] = {"ok": "green", "attention": "yellow", "critical": "red"}


def print_status(
    job: JobView, checkpoints: CheckpointsView, diagnosis: Diagnosis, *, now: float, console: Console | None = None
) -> None:
    """Print a job and its latest checkpoints.

    Args:
        job: the job.
        diagnosis: its condition.
        now: seconds since 1970.
        console: the output; None for standard output.
    """
    target = console or console_for()
    parts: list[RenderableType] = [_findings(diagnosis), _facts(job, checkpoints, now)]
    if job.chains:
        parts.append(_chains(job))
    if any(chain.inputs for chain in job.chains):
        parts.append(_inputs(job))
    if any(chain.records_dropped_late for chain in job.chains):
        parts.append(_by_part(job, "dropped as late", lambda chain: chain.records_dropped_late))
    if any(any(chain.rows_without_event_time.values()) for chain in job.chains):
        parts.append(_by_part(job, "without event time", lambda chain: chain.rows_without_event_time))
    if any(any(chain.rows_failed.values()) for chain in job.chains):
        parts.append(_by_part(job, "rows failed", lambda chain: chain.rows_failed))
    if any(source.partitions for chain in job.chains for source in chain.inputs):
        parts.append(_partitions(job))
    if job.channels:
        parts.append(_channels(job))
    if job.executors is not None and job.executors.executors:
        parts.append(_executors(job.executors))
    if job.sinks and job.chains:
        parts.append(_sinks(job, now))
    if job.tables:
        parts.append(_joined(job, now))
    if job.lookups:
        parts.append(_lookups(job))
    if checkpoints.history:
        parts.append(_history(job, checkpoints))
    for index, part in enumerate(parts):
        if index:
            target.print()
        target.print(part)


def _findings(diagnosis: Diagnosis) -> Text:
    """Return one line per finding, the most severe first."""
    lines = [Text(f"{_MARKS[each.severity]} {each.sentence}", _STYLES[each.severity]) for each in diagnosis.reasons]
    return Text("\n").join(lines)


def _facts(job: JobView, checkpoints: CheckpointsView, now: float) -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    facts.add_row("job", f"{job.name} (namespace {job.namespace})")
    style = "red" if job.state.value in ("FAILED", "SUPERSEDED") else "green" if job.state == "RUNNING" else "yellow"
    facts.add_row("state", Text(job.state.value, style=style))
    if job.rewriting is not None:
        rewriting = job.rewriting
        facts.add_row("rewriting", f"the state, from {rewriting.partitions} partitions to {rewriting.max_parallelism}")
    if job.failure:
        facts.add_row("failure", Text(job.failure))
    restarts = "1 restart" if job.restarts == 1 else f"{job.restarts} restarts"
    epoch = formatting.ABSENT if job.epoch is None else str(job.epoch)
    starts = f", {job.starts} starts in the last hour" if job.starts is not None and job.starts > 1 else ""
    facts.add_row("up", f"{formatting.duration(job.uptime)}, {restarts}, epoch {epoch}, attempt {job.attempt}{starts}")
    if job.chains:
        facts.add_row("sums", f"{since(job, now)} UTC, the start of this process")
    if job.restored_from is not None:
        facts.add_row("restored", f"from {job.restored_from.kind} {job.restored_from.id}, {job.restored_from.path}")
    if job.executors is not None:
        facts.add_row("executors", _summary(job.executors))
    counts = checkpoints.counts
    facts.add_row(
        "snapshots", f"{counts.completed} completed, {counts.failed} failed, {counts.in_progress} in progress"
    )
    last = job.last_checkpoint
    if last is not None:
        facts.add_row(
            "last",
            f"{'unaligned ' if last.unaligned else ''}{last.kind} {last.id}, {formatting.ago(now - last.completed)},"
            f" {formatting.size(last.state_size)},"
            f" {last.path}",
        )
    for sink in job.sinks:
        facts.add_row("output", f"{sink.uid}: {sink.target or sink.format} ({sink.delivery})")
    return facts


def _summary(view: ExecutorsView) -> str:
    parts = [f"{len(view.executors)} of {view.wanted}", f"{view.lost} lost"]
    skews = (
        ("rows of state", view.row_skew),
        ("bytes of state", view.byte_skew),
        ("records", view.record_skew),
        ("work", view.work_skew),
    )
    known = [f"{name} {skew:.1f}" for name, skew in skews if skew is not None]
    return ", ".join(parts) + (f"; the most to the average: {', '.join(known)}" if known else "")


def _executors(view: ExecutorsView) -> Table:
    rows = any(each.state_rows is not None for each in view.executors)
    table = _table(
        ("executor", False),
        ("host", False),
        ("cores", True),
        ("partitions", True),
        *((("rows", True),) if rows else ()),
        ("state", True),
        ("records in", True),
        ("/s", True),
        ("read", True),
        ("busy", True),
    )
    for each in view.executors:
        table.add_row(
            each.name,
            each.host,
            str(each.cores),
            formatting.count(each.state_partitions),
            *((formatting.count(each.state_rows),) if rows else ()),
            formatting.size(each.state_bytes),
            formatting.count(each.records_in),
            formatting.count(each.records_in_per_second),
            formatting.size(each.bytes_in),
            formatting.percent(each.busy),
        )
    return table


def _table(*columns: tuple[str, bool]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="dim")
    for name, numeric in columns:
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    return table


def _chains(job: JobView) -> Table:
    several = len(job.chains) > 1
    table = _table(
        ("chain", False),
        ("records in", True),
        ("/s", True),
        ("out", True),
        ("/s", True),
        ("batch", True),
        ("took", True),
        *((("backpressure", True), ("", False)) if several else ()),
    )
    for chain in job.chains:
        more = (formatting.percent(chain.backpressured), "finished" if chain.finished else "") if several else ()
        table.add_row(
            chain.uid,
            formatting.count(chain.records_in),
            formatting.count(chain.records_in_per_second),
            formatting.count(chain.records_out),
            formatting.count(chain.records_out_per_second),
            formatting.ABSENT if chain.batch < 0 else str(chain.batch),
            formatting.ABSENT if chain.last_batch_ms is None else formatting.duration(chain.last_batch_ms / 1000),
            *more,
        )
    return table


def _inputs(job: JobView) -> Table:
    unread = {uid: unread_records(job, source) for chain, source, uid in _each_input(job)}
    counted = any(unread.values())
    notes = {uid: "; ".join(filter(None, [idle_note(each), *time_notes(each)])) for _, each, uid in _each_input(job)}
    noted = any(notes.values())
    dropped = any(source.records_not_decoded for _, source, _ in _each_input(job))
    table = _table(
        ("chain", False),
        ("input", False),
        ("watermark", False),
        ("lag", True),
        *((("unread", True),) if counted else ()),
        *((("not decoded", True),) if dropped else ()),
        *((("", False),) if noted else ()),
    )
    for chain, source, uid in _each_input(job):
        table.add_row(
            chain.uid,
            source.uid,
            formatting.event_time(source.watermark_ms),
            "ended" if source.ended else behind(chain, source),
            *((unread[uid],) if counted else ()),
            *((formatting.count(source.records_not_decoded or 0),) if dropped else ()),
            *((notes[uid],) if noted else ()),
        )
    return table


def _each_input(job: JobView) -> list[tuple[ChainView, InputView, tuple[str, str]]]:
    return [(chain, source, (chain.uid, source.uid)) for chain in job.chains for source in chain.inputs]


def _by_part(job: JobView, what: str, counts: Callable[[ChainView], Mapping[OperatorUid, int]]) -> Table:
    """Return numbers of rows by operator."""
    table = _table(("chain", False), ("operator", False), (what, True))
    for chain in job.chains:
        for operator, rows in counts(chain).items():
            table.add_row(chain.uid, operator, formatting.count(rows))
    return table


def _partitions(job: JobView) -> Table:
    """Return the partitions of Kafka topics, those with the most unread records first."""
    table = _table(("source", False), ("partition", False), ("position", True), ("unread", True))
    sources = [source for chain in job.chains for source in chain.inputs if source.chain is None]
    found = [(source, each) for source in sources for each in source.partitions]
    found.sort(key=lambda pair: -(pair[1].lag or 0))
    for source, each in found[:_PARTITIONS_SHOWN]:
        unread = formatting.UNKNOWN if each.lag is None else formatting.count(each.lag)
        table.add_row(source.uid, f"{each.topic} {each.partition}", str(each.position), unread)
    if len(found) > _PARTITIONS_SHOWN:
        rest = formatting.count(sum(each.lag or 0 for _, each in found[_PARTITIONS_SHOWN:]))
        table.add_row("", f"and {len(found) - _PARTITIONS_SHOWN} more", "", rest)
    return table


def _channels(job: JobView) -> Table:
    table = _table(
        ("channel", False), ("in flight", True), ("size", True), ("full", True), ("lag", True), ("work", True)
    )
    for channel in job.channels:
        table.add_row(
            f"{channel.source} → {channel.target}",
            formatting.count(channel.records),
            formatting.size(channel.bytes),
            formatting.percent(channel.fill),
            formatting.ABSENT if channel.lag_ms is None else formatting.duration(channel.lag_ms / 1000),
            formatting.ABSENT if channel.work_seconds is None else formatting.duration(channel.work_seconds),
        )
    return table


def _sinks(job: JobView, now: float) -> Table:
    """Return the progress of the sinks; the column of errors appears only if there were any."""
    failed = any(sink.failures for sink in job.sinks)
    table = _table(
        ("sink", False),
        ("written", True),
        ("published", True),
        ("batches waiting", True),
        ("last published", False),
        ("took", True),
        *((("errors", True),) if failed else ()),
    )
    for sink in job.sinks:
        last = sink.last_published
        table.add_row(
            sink.uid,
            formatting.count(sink.records),
            formatting.count(sink.records_published),
            formatting.count(sink.batches_waiting) if sink.delivery == "exactly-once" else formatting.ABSENT,
            f"checkpoint {last.id}, {formatting.ago(now - last.time)}" if last else formatting.ABSENT,
            formatting.duration(last.duration_ms / 1000) if last else formatting.ABSENT,
            *((formatting.count(sink.failures),) if failed else ()),
        )
    return table


def _joined(job: JobView, now: float) -> Table:
    """Return the tables that operators join; the column of problems appears only if there are any."""
    failed = any(each.problem for each in job.tables)
    table = _table(
        ("table", False),
        ("rows", True),
        ("size", True),
        ("read", False),
        ("reloads", True),
        *((("problem", False),) if failed else ()),
    )
    for each in job.tables:
        table.add_row(
            each.name,
            formatting.count(each.rows),
            formatting.size(each.size),
            formatting.ago(now - each.loaded),
            formatting.count(each.reloads),
            *((each.problem or "",) if failed else ()),
        )
    return table


def _lookups(job: JobView) -> Table:
    """Return the operators that ask tables for keys."""
    table = _table(
        ("lookup", False), ("table", False), ("hit rate", True), ("queries", True), ("took", True), ("retries", True)
    )
    for each in job.lookups:
        table.add_row(
            each.uid,
            each.table,
            formatting.ABSENT if each.hit_rate is None else formatting.percent(each.hit_rate),
            formatting.count(each.queries),
            formatting.duration(each.query_seconds / each.queries) if each.queries else formatting.ABSENT,
            formatting.count(each.retries),
        )
    return table


def _history(job: JobView, checkpoints: CheckpointsView) -> Table:
    table = _table(
        ("id", True),
        ("kind", False),
        ("state", False),
        ("triggered (UTC)", False),
        ("took", True),
        ("written", True),
        ("size", True),
    )
    for entry in checkpoints.history[:_SHOWN]:
        done = entry.class_name == "completed"
        is_final = job.kind_of(entry) is SnapshotKind.FINAL
        table.add_row(
            str(entry.id),
            "final" if is_final else entry.checkpoint_type.lower().replace("_", " "),
            Text(entry.class_name.replace("_", " "), style="red" if entry.class_name == "failed" else ""),
            formatting.date_time(entry.trigger_timestamp / 1000),
            formatting.duration(entry.end_to_end_duration / 1000) if done else formatting.ABSENT,
            formatting.size(entry.checkpointed_size) if done else formatting.ABSENT,
            formatting.size(entry.state_size) if done else formatting.ABSENT,
        )
    return table
