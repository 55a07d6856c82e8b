"""Draws a job: a pure function from its views to something that rich can print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streamjob.client import formatting
from streamjob.client.inputs import behind, idle_note, running_batch, unread_records
from streamjob.client.models import (
    ChainView,
    CheckpointDetail,
    InputView,
    JobState,
    JobView,
    LastCheckpointView,
    SnapshotKind,
)
from streamjob_runtime.control.terminal.chains import chain_rows, rows_of_chains
from streamjob_runtime.control.terminal.events import Look
from streamjob_runtime.control.terminal.executors import executor_rows, lines_of_executors

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
_NARROW, _ONE_COLUMN, _WIDEST = 76, 110, 220
"""Widths of panels, in columns: below the first, less is shown; the second is the most for one column of sections."""
_TWO_COLUMNS = 172
_TIME, _KIND, _TOOK, _BAR = 8, 10, 7, 12
_MOST_CHECKPOINTS = 5
_LONG_CHECKPOINT = 2.0
"""Seconds after which a running checkpoint has a line."""
_FRAME_LINES = 4
_GAP = 4
_OTHER_LINES = 8


@dataclass(frozen=True, slots=True)
class Canvas:
    """The available space, in columns and lines."""

    width: int
    height: int

    @property
    def narrow(self) -> bool:
        """Whether the less important columns are omitted."""
        return self.width < _NARROW

    @property
    def panel_width(self) -> int:
        """Width of the panel in columns, including its frame."""
        return min(self.width, _WIDEST if self.two_columns else _ONE_COLUMN)

    @property
    def two_columns(self) -> bool:
        """Whether there is room for the sections side by side."""
        return self.width >= _TWO_COLUMNS

    @property
    def column(self) -> Canvas:
        """The space of a column of sections; its width includes a frame."""
        return Canvas((self.panel_width - 4 - _GAP) // 2 + 4, self.height) if self.two_columns else self


def draw(look: Look, *, now: float, rates: Sequence[float], canvas: Canvas) -> RenderableType:
    """Return the panel of a job.

    Args:
        look: the job and its checkpoints.
        now: seconds since 1970.
        rates: records read per second, oldest first, for the sparkline.
        canvas: the available space; a low panel shows fewer checkpoints.
    """
    job = look.job
    style = _STATE_STYLES[job.state]
    several, sources = len(job.chains) > 1, _sources(job)
    others = _OTHER_LINES + bool(_dropped_late(job)) + (lines_of_executors(job.executors) + 1 if job.executors else 0)
    most = max(2, canvas.height - _FRAME_LINES - others - len(sources) - len(job.sinks) - 2)
    lines = rows_of_chains(job, most) + 3 if several else len(job.chains) * 2
    used = _FRAME_LINES + lines + len(sources) + len(job.sinks) + others
    column = canvas.column
    work = [
        _records(job, rates, column),
        *([chain_rows(job, most=most, narrow=column.narrow)] if several else []),
        *([executor_rows(job.executors, narrow=column.narrow)] if job.executors else []),
    ]
    results = [
        *([_inputs(job, sources)] if sources else []),
        _checkpoints(look, now, column, max(1, min(_MOST_CHECKPOINTS, canvas.height - used))),
        *([_outputs(job, column)] if job.sinks else []),
    ]
    sections = [_side_by_side(work, results)] if canvas.two_columns else [*work, *results]
    return Panel(
        Group(*_spaced([_header(job, now), *sections])),
        title=Text.assemble((job.name, "bold"), " ", ("●", style), " ", (job.state.value, style)),
        title_align="left",
        border_style=style if job.state.terminal else "bright_black",
        box=box.ROUNDED,
        padding=(0, 1),
        width=canvas.panel_width,
    )


def _side_by_side(left: Sequence[RenderableType], right: Sequence[RenderableType]) -> Table:
    table = Table.grid(padding=(0, _GAP, 0, 0), expand=True, pad_edge=False)
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    table.add_row(Group(*_spaced(left)), Group(*_spaced(right)))
    return table


def _spaced(sections: Sequence[RenderableType]) -> Iterator[RenderableType]:
    for index, section in enumerate(sections):
        if index:
            yield Text("")
        yield section


def _header(job: JobView, now: float) -> Text:
    if job.state.terminal:
        facts = [f"ran {formatting.duration(job.uptime)}"]
    else:
        facts = [f"up {formatting.duration(max(1.0, job.uptime, now - job.start_time))}"]
    if job.epoch is not None:
        facts.append(f"epoch {job.epoch}")
    if job.restarts:
        facts.append("1 restart" if job.restarts == 1 else f"{job.restarts} restarts")
    if job.starts is not None and job.starts > job.restarts + 1:
        facts.append(f"{job.starts} starts in the last hour")
    if job.restored_from is not None:
        facts.append(f"restored from {job.restored_from.kind} {job.restored_from.id}")
    text = Text("  ·  ".join(facts), style="dim", no_wrap=True, overflow="ellipsis")
    if job.failure and job.state in (JobState.RESTARTING, JobState.RESTORING, JobState.FAILED, JobState.SUPERSEDED):
        text = Text.assemble(text, "\n", (formatting.first_line(job.failure), "red"), no_wrap=True, overflow="ellipsis")
    return text


def _grid() -> Table:
    table = Table.grid(padding=(0, 2), expand=False)
    table.add_column(style="dim", no_wrap=True, overflow="ellipsis", max_width=24)
    return table


def _records(job: JobView, rates: Sequence[float], canvas: Canvas) -> RenderableType:
    if not job.chains:
        return Text("no chain has started yet", style="dim")
    table = _grid()
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, overflow="crop")
    spark = Text(formatting.sparkline(rates), style="cyan") if rates and not canvas.narrow else Text("")
    rate_in, rate_out = job.records_in_per_second, job.records_out_per_second
    if job.state.terminal and job.uptime > 0:
        rate_in, rate_out, spark = (
            job.records_in / job.uptime,
            (job.records_out or 0) / job.uptime,
            Text("on average", "dim"),
        )
    batch = _batch(job.chains[0]) if len(job.chains) == 1 else Text("")
    table.add_row("records in", formatting.count(job.records_in), _rate(rate_in), spark)
    table.add_row("records out", formatting.count(job.records_out), _rate(rate_out), batch)
    if late := _dropped_late(job):
        table.add_row("dropped as late", Text(formatting.count(late), style="yellow"))
    return table


def _dropped_late(job: JobView) -> int:
    return sum(records for chain in job.chains for records in chain.records_dropped_late.values())


def _rate(per_second: float) -> Text:
    return Text(f"{formatting.count(per_second)}/s", style="bold cyan" if per_second >= 0.5 else "dim")


def _batch(chain: ChainView) -> Text:
    if running := running_batch(chain):
        return Text(running, style="yellow")
    if chain.batch < 0:
        return Text("no batch yet", style="dim")
    took = "" if chain.last_batch_ms is None else f" took {formatting.duration(chain.last_batch_ms / 1000)}"
    return Text(f"batch {chain.batch}{took}", style="dim")


def _sources(job: JobView) -> list[InputView]:
    """Return the job's external inputs, each once even if several chains read it."""
    sources = {source.uid: source for chain in job.chains for source in chain.inputs if source.chain is None}
    return list(sources.values())


def _inputs(job: JobView, sources: Sequence[InputView]) -> Table:
    table = _grid()
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    chains = {source.uid: chain for chain in job.chains for source in chain.inputs if source.chain is None}
    lag = {source.uid: behind(chains[source.uid], source) for source in sources}
    lags = any(each != formatting.ABSENT for each in lag.values())
    left = {source.uid: unread_records(job, source) for source in sources}
    counted = any(left.values())
    unread = [Text("unread", style="dim")] if counted else []
    table.add_row(Text("input"), Text("watermark", style="dim"), Text("lag" if lags else "", style="dim"), *unread)
    for source in sources:
        table.add_row(
            Text(source.uid, style="not dim"),
            formatting.event_time(source.watermark_ms),
            Text("ended", style="green") if source.ended else Text(lag[source.uid] if lags else ""),
            *([left[source.uid]] if counted else []),
            *([Text(note, style="yellow")] if (note := idle_note(source)) else []),
        )
    return table


def _checkpoints(look: Look, now: float, canvas: Canvas, rows: int) -> RenderableType:
    counts, last = look.checkpoints.counts, look.job.last_checkpoint
    several = len(look.job.chains) > 1
    completed = Text(f"{counts.completed} completed", style="green" if counts.completed else "dim")
    failed = Text(f"{counts.failed} failed", style="bold red" if counts.failed else "dim")
    heading = Text.assemble(("checkpoints", "dim"), "  ", completed, ("  ·  ", "dim"), failed, overflow="ellipsis")
    heading.no_wrap = True
    if last is not None:
        heading.append("  ·  ", style="dim").append(f"last {formatting.ago(now - last.completed)}")
        if not canvas.narrow:
            heading.append(f", {_alignment(last)}" if several else f", {formatting.size(last.state_size)} in all")
        if canvas.panel_width >= _ONE_COLUMN:
            heading.append(f", took {formatting.duration(last.duration_ms / 1000)}")
    history = look.checkpoints.history
    if (
        not canvas.narrow
        and not several
        and len(sizes := [float(e.checkpointed_size) for e in reversed(history) if _done(e)]) > 1
    ):
        heading.append("  ·  written ", style="dim").append(formatting.sparkline(sizes), style="magenta")
    shown = [entry for entry in history if _matters(entry, look.job, now)][:rows]
    if not shown:
        return heading
    table = Table.grid(padding=(0, 2))
    widths = (len(f"#{history[0].id}"), _TIME, _KIND, _TOOK if canvas.narrow else _TOOK + 1 + _BAR)
    for index, width in enumerate(widths):
        table.add_column(no_wrap=True, min_width=width, justify="right" if index == 0 else "left")
    table.add_column(no_wrap=True)
    room = canvas.panel_width - 4 - sum(width + 2 for width in widths)
    longest = max((entry.end_to_end_duration for entry in history), default=0)
    for entry in shown:
        table.add_row(*_checkpoint_row(entry, look, now, longest, canvas, room))
    return Group(heading, table)


def _matters(entry: CheckpointDetail, job: JobView, now: float) -> bool:
    """Return whether a checkpoint has a line of its own: all that went well and soon is in the heading."""
    if entry.class_name == "in_progress":
        return now - entry.trigger_timestamp / 1000 >= _LONG_CHECKPOINT
    return entry.class_name == "failed" or job.kind_of(entry) is not SnapshotKind.CHECKPOINT


def _checkpoint_row(
    entry: CheckpointDetail, look: Look, now: float, longest: int, canvas: Canvas, room: int
) -> tuple[RenderableType, ...]:
    number = Text(f"#{entry.id}", style="bold" if _done(entry) else "")
    kind = Text(_kind(entry, look.job), style="yellow" if entry.is_savepoint else "")
    at = Text(formatting.clock_time(entry.trigger_timestamp / 1000), style="dim")
    if entry.class_name == "in_progress":
        running = formatting.duration(now - entry.trigger_timestamp / 1000)
        acknowledged = f"{entry.num_acknowledged_subtasks} of {entry.num_subtasks} acknowledged"
        return number, at, kind, Text(running.rjust(_TOOK), style="cyan"), Text(acknowledged, style="cyan")
    if entry.class_name == "failed":
        why = Text(formatting.first_line(entry.failure_message), style="red")
        # Inside the table, a long message would squeeze all columns.
        why.truncate(max(0, room), overflow="ellipsis")
        return number, at, kind, Text("failed".rjust(_TOOK), style="bold red"), why
    took = Text(formatting.duration(entry.end_to_end_duration / 1000).rjust(_TOOK))
    if not canvas.narrow:
        took.append(" ").append(_bar(entry.end_to_end_duration, longest), style="blue")
    sizes = Text.assemble(
        formatting.size(entry.checkpointed_size).rjust(7), (f" of {formatting.size(entry.state_size)}", "dim")
    )
    return number, at, kind, took, sizes


def _done(entry: CheckpointDetail) -> bool:
    return entry.class_name == "completed"


def _kind(entry: CheckpointDetail, job: JobView) -> str:
    kind = job.kind_of(entry)
    if len(job.chains) < 2 or kind is not SnapshotKind.CHECKPOINT:
        return kind.value
    return "unaligned" if entry.is_unaligned else "aligned"


def _alignment(last: LastCheckpointView) -> str:
    """Return how a checkpoint's chains were cut: aligned by barriers, or unaligned."""
    longest = formatting.duration(last.alignment_ms / 1000)
    if not last.unaligned:
        return f"aligned in {longest}"
    return f"unaligned after {longest}" if last.alignment_ms else "unaligned"


def _bar(value: int, longest: int) -> str:
    length = max(1, round(_BAR * max(0, value) / longest)) if longest > 0 else 1
    return ("━" * length).ljust(_BAR)


def _outputs(job: JobView, canvas: Canvas) -> Table:
    table = _grid()
    table.add_column(no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for index, sink in enumerate(job.sinks):
        how = sink.format if canvas.narrow else f"{sink.format}, {sink.delivery}"
        table.add_row("output" if index == 0 else "", sink.uid, how, sink.target or "")
    return table
