"""Draws a job from its views: pure functions that return what rich can print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streamjob.client import formatting
from streamjob.client.chain_models import View
from streamjob.client.inputs import (
    behind,
    here_of,
    idle_note,
    inputs_of,
    losses,
    running_batch,
    since,
    time_notes,
    unread_records,
)
from streamjob.client.models import (
    ChainView,
    CheckpointsView,
    ExecutorsView,
    ExecutorView,
    InputView,
    JobState,
    JobView,
    PartitionView,
    SinkView,
)
from streamjob.client.page_models import Diagnosis, Severity
from streamjob.client.terminal.checkpoints import MOST as MOST_CHECKPOINTS
from streamjob.client.terminal.checkpoints import draw_checkpoints
from streamjob.client.terminal.tables import Canvas, Column, figures, grid, side_by_side, table
from streamjob.figures import Detail, figures_of
from streamjob.ids import OperatorUid

_STATE_STYLES = {
    JobState.CREATED: "cyan",
    JobState.RESTORING: "cyan",
    JobState.RUNNING: "green",
    JobState.FINISHING: "green",
    JobState.FINISHED: "bold green",
    JobState.STOPPING: "yellow",
    JobState.STOPPED: "yellow",
    JobState.RESTARTING: "bold yellow",
    JobState.FAILED: "bold red",
    JobState.SUPERSEDED: "bold red",
}
_FAILING = (JobState.RESTARTING, JobState.RESTORING, JobState.FAILED, JobState.SUPERSEDED)
_MARKS: Mapping[Severity, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "attention": ("!", "yellow"),
    "critical": ("✗", "red"),
}
_FRAME_LINES, _OTHER_LINES = 4, 8
_MOST_EXECUTORS, _MOST_PARTITIONS = 6, 13
_UNEVEN = 1.5
"""Skew from which it stands out."""
_STATUS = Detail.STATUS


def draw(
    job: JobView, checkpoints: CheckpointsView, *, now: float, rates: Sequence[float], canvas: Canvas
) -> RenderableType:
    """Return the panel of a job.

    Args:
        now: seconds since 1970.
        rates: records read per second, oldest first, for the sparkline.
        canvas: the available space; a low panel shows fewer checkpoints.
    """
    style = _STATE_STYLES[job.state]
    work, results = _sections(job, checkpoints, now, rates, canvas)
    both = [side_by_side(_spaced(work), _spaced(results))] if canvas.two_columns else [*work, *results]
    return Panel(
        _spaced([_header(job, now, canvas), *both]),
        title=_title(job),
        title_align="left",
        border_style=style if job.state.terminal else "bright_black",
        box=box.ROUNDED,
        padding=(0, 1),
        width=canvas.panel_width,
    )


def draw_status(
    job: JobView, checkpoints: CheckpointsView, diagnosis: Diagnosis, *, now: float, width: int
) -> RenderableType:
    """Return a job's condition and all that its panel has no room for.

    Args:
        now: seconds since 1970.
        width: the available space, in columns.
    """
    canvas = Canvas(width, 0, whole=True)
    findings = Text("\n").join(
        Text(f"{_MARKS[each.severity][0]} {each.sentence}", _MARKS[each.severity][1]) for each in diagnosis.reasons
    )
    title = Group(_title(job).append(f"  (namespace {job.namespace})"), _header(job, now, canvas))
    work, results = _sections(job, checkpoints, now, (), canvas)
    return _spaced([findings, title, *work, *results])


def _sections(
    job: JobView, checkpoints: CheckpointsView, now: float, rates: Sequence[float], canvas: Canvas
) -> tuple[list[RenderableType], list[RenderableType]]:
    """Return what the job does, and what comes of it."""
    several, column, inputs = len(job.chains) > 1, canvas.column, _inputs_to_show(job, canvas)
    executors = 0 if job.executors is None else 3 + min(len(job.executors.executors), _MOST_EXECUTORS)
    others = _OTHER_LINES + len(losses(job)) + executors
    most = max(2, canvas.height - _FRAME_LINES - others - len(inputs) - len(job.sinks) - 2)
    chains = 4 + min(len(job.chains), most) if several else len(job.chains) * 2
    rows = max(1, canvas.height - _FRAME_LINES - chains - len(inputs) - len(job.sinks) - others)
    work = [_records(job, rates, column, now)]
    if several or (canvas.whole and job.chains):
        work.append(_chains(job, column, now, most))
    if job.executors is not None:
        work.append(_executors(job.executors, column, now))
    results: list[RenderableType] = []
    if inputs:
        results.append(_inputs(job, inputs, column, now))
    if canvas.whole:
        results += _details(job, canvas, now)
    shown = MOST_CHECKPOINTS if canvas.whole else min(MOST_CHECKPOINTS, rows)
    results.append(draw_checkpoints(job, checkpoints, now, column, shown))
    if job.sinks:
        results.append(_outputs(job, column, now))
    return work, results


def _spaced(sections: Sequence[RenderableType]) -> Group:
    return Group(*[part for section in sections for part in (Text(""), section)][1:])


def _title(job: JobView) -> Text:
    style = _STATE_STYLES[job.state]
    return Text.assemble((job.name, "bold"), " ", ("●", style), " ", (job.state.value, style))


def _header(job: JobView, now: float, canvas: Canvas) -> RenderableType:
    if job.state.terminal:
        facts = [f"ran {formatting.duration(job.uptime)}"]
    else:
        facts = [f"up {formatting.duration(max(1.0, job.uptime, now - job.start_time))}"]
    if job.epoch is not None:
        facts.append(f"epoch {job.epoch}")
    if canvas.whole:
        facts.append(f"attempt {job.attempt}")
    if job.restarts:
        facts.append("1 restart" if job.restarts == 1 else f"{job.restarts} restarts")
    if job.starts is not None and job.starts > job.restarts + 1:
        facts.append(f"{job.starts} starts in the last hour")
    if job.restored_from is not None:
        facts.append(f"restored from {job.restored_from.kind} {job.restored_from.id}")
    if job.rewriting is not None:
        to = job.rewriting.max_parallelism
        facts.append(f"rewriting the state, from {job.rewriting.partitions} partitions to {to}")
    if (migrating := job.migrating) is not None:
        facts.append(f"migrating the state of {', '.join(migrating.operators)}: {migrating.told}")
    if job.replaying is not None:
        facts.append(f"published batches run again: {job.replaying.done} of {job.replaying.batches}")
    lines = [Text("  ·  ".join(facts), style="dim", no_wrap=True, overflow="ellipsis")]
    if job.failure and canvas.whole:
        lines.append(Text(job.failure, style="red"))
    elif job.failure and job.state in _FAILING:
        lines.append(Text(formatting.first_line(job.failure), style="red", no_wrap=True, overflow="ellipsis"))
    if canvas.whole:
        last, source = job.last_checkpoint, job.restored_from
        if source is not None:
            lines.append(Text(f"restored from {source.kind} {source.id}: {source.path}", style="dim"))
        if last is not None:
            unaligned = "unaligned " if last.unaligned else ""
            lines.append(Text(f"last {unaligned}{last.kind} {last.id}: {last.path}", style="dim"))
    return Group(*lines)


def _records(job: JobView, rates: Sequence[float], canvas: Canvas, now: float) -> RenderableType:
    if not job.chains:
        return Text("no chain has started yet", style="dim")
    records = grid()
    for _ in range(2):
        records.add_column(justify="right", no_wrap=True)
    records.add_column(no_wrap=True, overflow="crop")
    spark = Text(formatting.sparkline(rates), style="cyan") if rates and not canvas.narrow else Text("")
    rate_in, rate_out = job.records_in_per_second, job.records_out_per_second
    if job.state.terminal and job.uptime > 0:
        rate_in, rate_out = job.records_in / job.uptime, (job.records_out or 0) / job.uptime
        spark = Text("on average", "dim")
    elif canvas.whole:
        spark = Text(f"{since(job, now)} UTC, the start of this process", "dim")
    batch = _batch(job.chains[0]) if len(job.chains) == 1 else Text("")
    records.add_row("records in", formatting.count(job.records_in), _rate(rate_in), spark)
    records.add_row("records out", formatting.count(job.records_out), _rate(rate_out), batch)
    for heading, lost in losses(job).items():
        records.add_row(heading, Text(formatting.count(lost), style="yellow"))
    return records


def _rate(per_second: float) -> Text:
    return Text(f"{formatting.count(per_second)}/s", style="bold cyan" if per_second >= 0.5 else "dim")


def _batch(chain: ChainView) -> Text:
    if running := running_batch(chain):
        return Text(running, style="yellow")
    if chain.batch < 0:
        return Text("no batch yet", style="dim")
    took = "" if chain.last_batch_ms is None else f" took {formatting.duration(chain.last_batch_ms / 1000)}"
    return Text(f"batch {chain.batch}{took}", style="dim")


def _chains(job: JobView, canvas: Canvas, now: float, most: int) -> Table:
    def in_flight(chain: ChainView) -> Text:
        channels = inputs_of(job, chain)
        records = sum(channel.records for channel in channels)
        text = Text(formatting.count(records) if channels else "", style="" if records else "dim")
        if records and not canvas.narrow:
            text.append(f"  {formatting.percent(max(channel.fill for channel in channels))} full", style="dim")
        return text

    def finished(chain: ChainView) -> Text:
        return Text("finished" if chain.finished else "", style="green")

    return table(
        job.chains,
        (
            Column("chain", lambda chain: chain.uid),
            *figures(ChainView, canvas, now, without="" if len(job.chains) > 1 else "backpressured"),
            Column("in flight", in_flight),
            Column("", finished),
        ),
        canvas,
        most=None if canvas.whole else most,
    )


def _executors(view: ExecutorsView, canvas: Canvas, now: float) -> RenderableType:
    text = Text.assemble(("executors", "dim"), "  ", no_wrap=True, overflow="ellipsis")
    text.append(here_of(view), style="" if len(view.executors) >= view.wanted else "yellow")
    if view.lost:
        text.append("  ·  ", style="dim").append(f"{view.lost} lost", style="yellow")
    skews = [("state", view.byte_skew), ("work", view.work_skew)]
    if canvas.whole:
        skews += [("rows of state", view.row_skew), ("records", view.record_skew)]
    for name, skew in skews:
        if skew is not None and len(view.executors) > 1 and not canvas.narrow:
            text.append(f"  ·  skew of {name} ", style="dim")
            text.append(f"{skew:.1f}", style="yellow" if skew >= _UNEVEN else "")
    if not view.executors:
        return text
    most = len(view.executors) if canvas.whole else _MOST_EXECUTORS
    busiest = sorted(view.executors, key=lambda each: -each.busy) if len(view.executors) > most else view.executors
    columns = (Column("executor", lambda each: each.name), *figures(ExecutorView, canvas, now))
    return Group(text, table(busiest, columns, canvas, most=most))


def _inputs_to_show(job: JobView, canvas: Canvas) -> list[tuple[ChainView, InputView]]:
    """Return each input, in a panel only those from outside, each once even if several chains read it."""
    inputs = [(chain, source) for chain in job.chains for source in chain.inputs]
    external = {source.uid: (chain, source) for chain, source in inputs if source.chain is None}
    return inputs if canvas.whole else list(external.values())


def _inputs(job: JobView, inputs: Sequence[tuple[ChainView, InputView]], canvas: Canvas, now: float) -> Table:
    def lag(each: tuple[ChainView, InputView]) -> Text:
        return Text("ended", style="green") if each[1].ended else Text(behind(*each))

    def notes(each: tuple[ChainView, InputView]) -> Text:
        found = [idle_note(each[1]), *(time_notes(each[1]) if canvas.whole else ())]
        return Text("; ".join(filter(None, found)), style="yellow")

    columns = (
        Column("chain", lambda each: each[0].uid, _STATUS),
        Column("input", lambda each: each[1].uid),
        *figures(InputView, canvas, now, of=lambda each: each[1]),
        Column("lag", lag),
        Column("unread", lambda each: unread_records(job, each[1])),
        Column("", notes, wraps=True),
    )
    return table(inputs, columns, canvas)


def _details(job: JobView, canvas: Canvas, now: float) -> Iterator[Table]:
    """Yield what a panel has no room for."""
    lost = [(name, figure.heading) for name, figure in figures_of(ChainView) if figure.by and figure.heading]
    where = [
        (chain, uid)
        for chain in job.chains
        for uid in dict.fromkeys(uid for name, _ in lost for uid, rows in getattr(chain, name).items() if rows)
    ]

    def count(name: str, heading: str) -> Column:
        def rows(each: tuple[ChainView, OperatorUid]) -> str:
            return formatting.count(number) if (number := getattr(each[0], name).get(each[1])) else ""

        return Column(heading, rows, right=True)

    if where:
        chain, operator = Column("chain", lambda each: each[0].uid), Column("operator", lambda each: each[1])
        yield table(where, (chain, operator, *(count(*each) for each in lost)), canvas)
    sources = [source for chain in job.chains for source in chain.inputs if source.chain is None]
    if partitions := [(source, each) for source in sources for each in source.partitions]:
        partitions.sort(key=lambda each: -(each[1].lag or 0))
        columns = (
            Column("source", lambda each: each[0].uid),
            Column("partition", lambda each: f"{each[1].topic} {each[1].partition}"),
            *figures(PartitionView, canvas, now, of=lambda each: each[1]),
        )

        def unread(omitted: Sequence[tuple[InputView, PartitionView]]) -> str:
            return f", {formatting.count(sum(each.lag or 0 for _, each in omitted))} unread"

        yield table(partitions, columns, canvas, most=_MOST_PARTITIONS, rest=unread)
    named: tuple[tuple[Sequence[View], Column], ...] = (
        (job.channels, Column("channel", lambda each: f"{each.source} → {each.target}")),
        (job.tables, Column("table", lambda each: each.name)),
        (job.lookups, Column("lookup", lambda each: each.uid)),
    )
    for views, name in named:
        if views:
            yield table(views, (name, *figures(type(views[0]), canvas, now)), canvas)


def _outputs(job: JobView, canvas: Canvas, now: float) -> Table:
    def published(sink: SinkView) -> str:
        last = sink.last_published
        return "" if last is None else f"checkpoint {last.id}, {formatting.ago(now - last.time)}"

    def took(sink: SinkView) -> str:
        return "" if sink.last_published is None else formatting.duration(sink.last_published.duration_ms / 1000)

    columns = (
        Column("output", lambda sink: sink.uid),
        *figures(SinkView, canvas, now),
        Column("last published", published, _STATUS),
        Column("took", took, _STATUS),
    )
    return table(job.sinks, columns, canvas)
