"""Describes a chain's inputs for people: their lag, and the input that holds the watermark back."""

from __future__ import annotations

from streamjob.client import formatting
from streamjob.client.models import ChainView, InputView, JobView


def behind(chain: ChainView, source: InputView) -> str:
    """Return an input's watermark lag; unknown until the chain has run a batch."""
    if source.lag_ms is None and chain.last_batch_ms is None:
        return formatting.UNKNOWN
    return formatting.lag(source.lag_ms, source.watermark_ms)


def unread_records(job: JobView, source: InputView) -> str:
    """Return the number of unread records of a Kafka source; empty for other inputs."""
    if source.lag_records is not None:
        return formatting.count(source.lag_records)
    of_kafka = {each["uid"] for each in job.graph.get("sources", ()) if each.get("format") == "kafka"}
    return formatting.UNKNOWN if source.partitions or source.uid in of_kafka else ""


def holding_back(source: InputView) -> str:
    """Return a note if an idle input holds the watermark back; otherwise nothing."""
    if not source.holds_watermark_back:
        return ""
    return f"idle for {formatting.duration(source.idle_seconds or 0.0)}, holds the watermark back"
