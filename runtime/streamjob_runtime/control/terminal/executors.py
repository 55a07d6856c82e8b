"""Draws the executors of a job that computes in processes of their own: a heading, and one row per executor."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streamjob.client import formatting
from streamjob.client.models import ExecutorsView

_MOST = 6
_BAR = 6
_HIGH = 0.9
_UNEVEN = 1.5
"""Skew from which it has a colour."""


def executor_rows(view: ExecutorsView, *, narrow: bool) -> RenderableType:
    """Return the executors, the busiest ones if there are many.

    Args:
        narrow: omit the less important columns.
    """
    heading = _heading(view, narrow=narrow)
    if not view.executors:
        return heading
    table = Table.grid(padding=(0, 2), expand=False)
    table.add_column(overflow="ellipsis", max_width=24)
    rows = ["rows"] if any(each.state_rows is not None for each in view.executors) else []
    headings = ["in", "busy", *([] if narrow else ["partitions"]), *rows, "state"]
    for each in headings:
        table.add_column(no_wrap=True, justify="left" if each == "busy" else "right")
    table.add_row(*(Text(each, style="dim") for each in ("executor", *headings)))
    shown = view.executors
    if len(shown) > _MOST:
        shown = tuple(sorted(shown, key=lambda each: -each.busy))[: _MOST - 1]
    for executor in shown:
        cells = {
            "in": Text(f"{formatting.count(executor.records_in_per_second)}/s"),
            "busy": _busy(executor.busy, narrow=narrow),
            "partitions": Text(formatting.count(executor.state_partitions)),
            "rows": Text(formatting.count(executor.state_rows)),
            "state": Text(formatting.size(executor.state_bytes)),
        }
        table.add_row(Text(executor.name), *(cells[each] for each in headings))
    if left := len(view.executors) - len(shown):
        table.add_row(Text(f"and {left} more", style="dim"))
    return Group(heading, table)


def lines_of_executors(view: ExecutorsView) -> int:
    """Return the number of lines of `executor_rows`."""
    return 1 if not view.executors else 2 + min(len(view.executors), _MOST)


def _heading(view: ExecutorsView, *, narrow: bool) -> Text:
    text = Text.assemble(("executors", "dim"), "  ", no_wrap=True, overflow="ellipsis")
    text.append(here_of(view), style="" if len(view.executors) >= view.wanted else "yellow")
    if view.lost:
        text.append("  ·  ", style="dim").append(f"{view.lost} lost", style="yellow")
    for name, skew in (("state", view.byte_skew), ("work", view.work_skew)):
        if skew is not None and len(view.executors) > 1 and not narrow:
            text.append(f"  ·  skew of {name} ", style="dim")
            text.append(f"{skew:.1f}", style="yellow" if skew >= _UNEVEN else "")
    return text


def here_of(view: ExecutorsView) -> str:
    """Return how many executors there are, of those that the job asks for."""
    return f"{len(view.executors)} of {view.wanted}"


def _busy(share: float, *, narrow: bool) -> Text:
    text = Text(formatting.percent(share).rjust(5), style="yellow" if share >= _HIGH else "")
    if not narrow:
        text.append(" ").append(formatting.bar(share, _BAR))
    return text
