"""Describes for people what a chain reads, waits for and loses."""

from __future__ import annotations

from streamjob.client import formatting
from streamjob.client.models import ChainView, ChannelView, ExecutorsView, InputView, JobView, RestoredFromView
from streamjob.figures import figures_of
from streamjob.ids import ChainUid

_DAY = 86_400.0
_LONG_BATCH = 10.0
"""Seconds after which a running batch is mentioned."""


def behind(chain: ChainView, source: InputView) -> str:
    """Return an input's watermark lag; unknown until the chain has run a batch."""
    if source.lag_ms is None and chain.last_batch_ms is None:
        return formatting.UNKNOWN
    return formatting.lag(source.lag_ms, source.watermark_ms)


def unread_records(job: JobView, source: InputView) -> str:
    """Return the number of unread records of a Kafka source, or files of one in a bucket; empty for other inputs.

    A chain that reads the source through a channel has an input of its uid, too, and knows no positions.
    """
    if source.chain is not None:
        return ""
    if source.lag_records is not None:
        return formatting.count(source.lag_records)
    if source.files_unread is not None:
        files = "1 file" if source.files_unread == 1 else f"{formatting.count(source.files_unread)} files"
        return f"{files} ({formatting.size(source.bytes_unread or 0)})" if source.files_unread else files
    of_kafka = {each["uid"] for each in job.graph.get("sources", ()) if each.get("format") == "kafka"}
    return formatting.UNKNOWN if source.partitions or source.uid in of_kafka else ""


def running_batch(chain: ChainView) -> str:
    """Return what a batch that takes long does: `batch of 20,000 records runs for 12 s`; empty for any other batch."""
    if chain.running_seconds is None or chain.running_seconds < _LONG_BATCH:
        return ""
    known = chain.running_records is not None
    what = f"batch of {formatting.count(chain.running_records)} records" if known else f"batch {chain.batch + 1}"
    return f"{what} runs for {formatting.duration(chain.running_seconds)}"


def since(job: JobView, now: float) -> str:
    """Return since when sums of records count, which is since the start of the process: `since 12:03:05`, in UTC."""
    long_ago = now - job.start_time >= _DAY
    return f"since {(formatting.date_time if long_ago else formatting.clock_time)(job.start_time)}"


def restored_note(source: RestoredFromView, now: float) -> str:
    """Return the snapshot that a job without a checkpoint of its own would continue from, and its age."""
    name = f"restored from {source.kind} {source.id}"
    return name if source.completed is None else f"{name}, completed {formatting.ago(now - source.completed)}"


def idle_note(source: InputView) -> str:
    """Return whether an idle input holds the watermark back or is left out of it; empty if it is neither."""
    idle = f"idle for {formatting.duration(source.idle_seconds or 0.0)}"
    if source.holds_watermark_back:
        return f"{idle}, holds the watermark back"
    return f"{idle}, left out of the watermark" if source.idle else ""


def time_notes(source: InputView) -> list[str]:
    """Return how many records of an input came late or far ahead of the clock; empty without any."""
    notes = []
    if source.records_late:
        by = formatting.duration((source.late_by_ms or 0) / 1000)
        notes.append(f"late {formatting.count(source.records_late)} (up to {by})")
    if source.records_ahead:
        farthest = formatting.event_time(source.farthest_ms)
        notes.append(f"ahead of the clock {formatting.count(source.records_ahead)} (up to {farthest})")
    return notes


def inputs_of(job: JobView, chain: ChainView) -> list[ChannelView]:
    """Return the channels that a chain reads."""
    return [channel for channel in job.channels if channel.target == chain.uid]


def here_of(view: ExecutorsView) -> str:
    """Return how many executors there are, of those that the job asks for."""
    return f"{len(view.executors)} of {view.wanted}"


def losses(job: JobView) -> dict[str, int]:
    """Return the numbers of records that the job has lost on the way, by what has become of them; empty without any."""
    found: dict[str, int] = {}
    for view in (*job.chains, *(source for chain in job.chains for source in chain.inputs)):
        for name, figure in figures_of(type(view)):
            if figure.rare and (value := getattr(view, name)):
                lost = sum(value.values()) if figure.by else value
                found[figure.heading] = found.get(figure.heading, 0) + lost
    return {heading: lost for heading, lost in found.items() if lost}


def first_behind(job: JobView, source: InputView) -> InputView:
    """Return the source of the job that the watermark of an input comes from, through channels."""
    chains = {chain.uid: chain for chain in job.chains}
    passed = set[ChainUid]()
    while source.chain in chains and source.chain not in passed and chains[source.chain].inputs:
        passed.add(source.chain)
        inputs = [each for each in chains[source.chain].inputs if not each.ended and not each.idle]
        source = min(
            inputs or chains[source.chain].inputs,
            key=lambda each: (each.watermark_ms is not None, each.watermark_ms or 0),
        )
    return source
