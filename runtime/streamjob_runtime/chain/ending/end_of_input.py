"""Checks whether a chain's input had ended when its query ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamjob.errors import StreamJobError
from streamjob.ids import BatchId, ChainUid
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.sources.bounded_files import BoundedEnd
from streamjob_runtime.kafka.bounded import KafkaEnd
from streamjob_runtime.spark.checkpoint_dir.logs import last_committed


class QueryEndedEarly(StreamJobError):
    """A query ended by itself before its input did."""


def read_end(value: Any) -> KafkaEnd | BoundedEnd:
    """Parse the manifest's form of an end."""
    return KafkaEnd.from_json(value) if "offsets" in value else BoundedEnd.from_json(value)


def check_that_all_is_read(
    chain: ChainUid, dataflow: Dataflow, checkpoint: Path, *, bounded: bool, channels_ended: bool
) -> None:
    """Check what Spark does not: a query may end before its input without an error, for example if its thread dies.

    Args:
        bounded: whether all its input is bounded.
        channels_ended: whether it has consumed all future content of its channels.

    Raises:
        QueryEndedEarly: there is unread input.
    """
    if not bounded:
        raise QueryEndedEarly(f"The query of chain {chain!r} ended, though its input has no end")
    if dataflow.channels and not channels_ended:
        raise QueryEndedEarly(f"The query of chain {chain!r} ended before its channels did")
    unread = first_unread(dataflow, checkpoint, last_committed(checkpoint))
    if unread is not None:
        raise QueryEndedEarly(f"The query ended before {unread}")


def first_unread(dataflow: Dataflow, checkpoint: Path, batch: BatchId | None) -> str | None:
    """Return what a query has not read up to a batch, such as `source 'rows' had read a.json`; None if it has read all.

    Args:
        dataflow: the query; its channels do not count.
        batch: the batch, which is planned or committed; None before the first.
    """
    for index, uid in enumerate(dataflow.sources):
        if uid in dataflow.channels:
            continue
        unread = read_end(dataflow.ends[uid]).unread(checkpoint, batch, index, dataflow.directories[index])
        if unread is not None:
            return f"source {uid!r} had read {unread}"
    return None
