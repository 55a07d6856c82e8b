"""Draws the checkpoints of a job: a heading, and a line for each that people should see."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streamjob.client import formatting
from streamjob.client.models import CheckpointDetail, CheckpointsView, JobView, LastCheckpointView, SnapshotKind
from streamjob.client.terminal.tables import Canvas

MOST = 5
_KIND, _TOOK, _BAR = 10, 7, 12
_LONG = 2.0
"""Seconds after which a running checkpoint has a line."""


def draw_checkpoints(
    job: JobView, checkpoints: CheckpointsView, now: float, canvas: Canvas, rows: int
) -> RenderableType:
    """Return the heading and at most so many lines, the youngest checkpoint first."""
    heading, history = _heading(job, checkpoints, now, canvas), checkpoints.history
    shown = [entry for entry in history if canvas.whole or _matters(entry, job, now)][:rows]
    if not shown:
        return heading
    table = Table.grid(padding=(0, 2))
    at = formatting.date_time if canvas.whole else formatting.clock_time
    bar = 0 if canvas.narrow else 1 + _BAR
    widths = (len(f"#{history[0].id}"), len(at(now)), _KIND, _TOOK + bar)
    for index, width in enumerate(widths):
        table.add_column(no_wrap=True, min_width=width, justify="right" if index == 0 else "left")
    table.add_column(no_wrap=True)
    # Inside the table, a long message would squeeze all columns.
    room = canvas.panel_width - 4 - sum(width + 2 for width in widths)
    longest = max((entry.end_to_end_duration for entry in history), default=0)
    for entry in shown:
        kind = Text(_kind(entry, job), style="yellow" if entry.is_savepoint else "")
        begun = Text(at(entry.trigger_timestamp / 1000), style="dim")
        took, result = _outcome(entry, now, longest if bar else 0)
        result.truncate(max(0, room), overflow="ellipsis")
        table.add_row(Text(f"#{entry.id}", style="bold" if _done(entry) else ""), begun, kind, took, result)
    return Group(heading, table)


def _heading(job: JobView, checkpoints: CheckpointsView, now: float, canvas: Canvas) -> Text:
    counts, last, several = checkpoints.counts, job.last_checkpoint, len(job.chains) > 1
    completed = Text(f"{counts.completed} completed", style="green" if counts.completed else "dim")
    failed = Text(f"{counts.failed} failed", style="bold red" if counts.failed else "dim")
    heading = Text.assemble(("checkpoints", "dim"), "  ", completed, ("  ·  ", "dim"), failed, overflow="ellipsis")
    heading.no_wrap = True
    if last is not None:
        heading.append("  ·  ", style="dim").append(f"last {formatting.ago(now - last.completed)}")
        if several and not canvas.narrow:
            heading.append(f", {_alignment(last)}")
        if canvas.whole or not (several or canvas.narrow):
            heading.append(f", {formatting.size(last.state_size)} in all")
        if canvas.wide:
            heading.append(f", took {formatting.duration(last.duration_ms / 1000)}")
    sizes = [float(entry.checkpointed_size) for entry in reversed(checkpoints.history) if _done(entry)]
    if not (canvas.narrow or several) and len(sizes) > 1:
        heading.append("  ·  written ", style="dim").append(formatting.sparkline(sizes), style="magenta")
    return heading


def _matters(entry: CheckpointDetail, job: JobView, now: float) -> bool:
    """Return whether a checkpoint has a line of its own: all that went well and soon is in the heading."""
    if entry.class_name == "in_progress":
        return now - entry.trigger_timestamp / 1000 >= _LONG
    return entry.class_name == "failed" or job.kind_of(entry) is not SnapshotKind.CHECKPOINT


def _outcome(entry: CheckpointDetail, now: float, longest: int) -> tuple[Text, Text]:
    """Return how long it took, with a bar unless `longest` is 0, and what came of it."""
    if entry.class_name == "in_progress":
        running = formatting.duration(now - entry.trigger_timestamp / 1000)
        acknowledged = f"{entry.num_acknowledged_subtasks} of {entry.num_subtasks} acknowledged"
        return Text(running.rjust(_TOOK), style="cyan"), Text(acknowledged, style="cyan")
    if entry.class_name == "failed":
        why = Text(formatting.first_line(entry.failure_message), style="red")
        return Text("failed".rjust(_TOOK), style="bold red"), why
    took = Text(formatting.duration(entry.end_to_end_duration / 1000).rjust(_TOOK))
    if longest:
        took.append(f" {formatting.bar(entry.end_to_end_duration / longest, _BAR)}", style="blue")
    sizes = Text.assemble(
        formatting.size(entry.checkpointed_size).rjust(7), (f" of {formatting.size(entry.state_size)}", "dim")
    )
    return took, sizes


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
