"""Asks sinks for damage to what they keep outside of the snapshot store, for checks without side effects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streamjob.errors import StreamJobError
from streamjob.ids import Epoch, OperatorUid
from streamjob.protocol.log.records import JobId
from streamjob.sink import Verifies
from streamjob.snapshot.manifest import Manifest
from streamjob_runtime.sinks.factory import SinkSurroundings, make_sink_from_graph


def verify_sinks(newest: Manifest, surroundings: SinkSurroundings) -> Iterator[tuple[OperatorUid, StreamJobError]]:
    """Yield an error for each problem of what sinks keep, and of the rows that they would publish at the next start.

    Sinks that cannot be made from the snapshot alone, or without Spark, are left out.

    Args:
        newest: the newest completion of the sinks' job.
    """
    committables = {sink.uid: sink.committables for sink in newest.sinks}
    for each in newest.graph.get("sinks", []):
        try:
            sink, context = make_sink_from_graph(each, surroundings)
        except StreamJobError:
            continue
        if isinstance(sink, Verifies):
            for error in sink.verify(context, newest.id, committables.get(context.uid, ())):
                yield context.uid, error


def problems_of_sinks(newest: Manifest, job: JobId) -> Iterator[str]:
    """Yield a sentence for each problem that the sinks of a job find, see `verify_sinks`."""
    surroundings = SinkSurroundings(job.name, job.namespace, Epoch(0), Path.cwd())
    yield from dict.fromkeys(f"sink {uid}: {error.what}" for uid, error in verify_sinks(newest, surroundings))
