"""Draws the chains of a job with several: one row per chain."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from streamjob.client import formatting
from streamjob.client.models import ChainView, ChannelView, JobView

_LOW, _HIGH = 0.1, 0.5
_BAR = 6
_LONGEST_NAME = 24


def chain_rows(job: JobView, *, most: int, narrow: bool) -> RenderableType:
    """Return a table with a row per chain: rates, watermark, backpressure, and in-flight input.

    Args:
        job: a job with several chains.
        most: maximum number of rows; a last one gives the number of omitted chains.
        narrow: omit the less important columns.
    """
    table = Table.grid(padding=(0, 2), expand=False)
    # The only column that shrinks if there is little room; a name without spaces is cut, not wrapped.
    table.add_column(overflow="ellipsis", max_width=_LONGEST_NAME)
    headings = (
        ["in", "backpressure", "in flight"] if narrow else ["in", "out", "watermark", "backpressure", "in flight"]
    )
    for heading in headings:
        table.add_column(no_wrap=True, justify="right" if heading in ("in", "out") else "left")
    table.add_row(*(Text(heading, style="dim") for heading in ("chain", *headings)))
    shown = job.chains if len(job.chains) <= most else job.chains[: max(0, most - 1)]
    for chain in shown:
        cells = {
            "in": _rate(chain.records_in_per_second),
            "out": _rate(chain.records_out_per_second),
            "watermark": Text(formatting.event_time(chain.watermark_ms)),
            "backpressure": _backpressure(chain, narrow=narrow),
            "in flight": _in_flight(job, chain, narrow=narrow),
        }
        table.add_row(Text(chain.uid), *(cells[heading] for heading in headings))
    if left := len(job.chains) - len(shown):
        table.add_row(Text(f"and {left} more", style="dim"))
    return table


def rows_of_chains(job: JobView, most: int) -> int:
    """Return the number of lines of `chain_rows`."""
    return 1 + min(len(job.chains), max(1, most))


def _rate(per_second: float) -> Text:
    return Text(f"{formatting.count(per_second)}/s", style="cyan" if per_second >= 0.5 else "dim")


def _backpressure(chain: ChainView, *, narrow: bool) -> Text:
    if chain.finished:
        return Text("finished", style="green")
    share = chain.backpressured
    style = "dim" if share < _LOW else "yellow" if share < _HIGH else "red"
    text = Text(formatting.percent(share).rjust(5), style=style)
    if not narrow:
        text.append(" ").append(formatting.bar(share, _BAR), style=style)
    return text


def _in_flight(job: JobView, chain: ChainView, *, narrow: bool) -> Text:
    channels = inputs_of(job, chain)
    if not channels:
        return Text("")
    records, fill = sum(channel.records for channel in channels), max(channel.fill for channel in channels)
    if not records:
        return Text("0", style="dim")
    text = Text(formatting.count(records))
    if not narrow:
        text.append(f"  {formatting.percent(fill)} full", style="dim")
    return text


def inputs_of(job: JobView, chain: ChainView) -> list[ChannelView]:
    """Return the channels that a chain reads."""
    return [channel for channel in job.channels if channel.target == chain.uid]
