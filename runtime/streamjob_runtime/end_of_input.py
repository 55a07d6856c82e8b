"""Whether a chain has come to the end of its input when its query has ended."""

from __future__ import annotations

from pathlib import Path

from streamjob.errors import StreamJobError
from streamjob.ids import ChainUid
from streamjob_runtime.bounded import BoundedEnd
from streamjob_runtime.dataflow import Dataflow
from streamjob_runtime.spark_checkpoint.files_read import files_read
from streamjob_runtime.spark_checkpoint.logs import last_committed


class QueryEndedEarly(StreamJobError):
    """A query ended by itself before its input did."""


def check_that_all_is_read(
    chain: ChainUid, dataflow: Dataflow, checkpoint: Path, *, bounded: bool, channels_ended: bool
) -> None:
    """Check what Spark does not: a query may end without an error before its end, such as when its thread dies.

    Args:
        chain: the chain.
        dataflow: its query.
        checkpoint: Spark's checkpoint directory.
        bounded: whether all its input ends.
        channels_ended: whether it has read all that ever comes through its channels.

    Raises:
        QueryEndedEarly: there is more to read.
    """
    if not bounded:
        raise QueryEndedEarly(f"The query of chain {chain!r} ended, though its input has no end")
    if dataflow.channels and not channels_ended:
        raise QueryEndedEarly(f"The query of chain {chain!r} ended before its channels did")
    last = last_committed(checkpoint)
    for index, uid in enumerate(dataflow.sources):
        if uid in dataflow.channels:
            continue
        expected = BoundedEnd.from_json(dataflow.ends[uid]).paths
        directory = dataflow.directories[index]
        read = files_read(checkpoint, index, last, directory) if last is not None else frozenset()
        if unread := sorted(expected - read):
            raise QueryEndedEarly(f"The query ended before source {uid!r} had read {unread[0]}")
