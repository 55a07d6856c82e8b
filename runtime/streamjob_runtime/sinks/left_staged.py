"""Finds batches that a snapshot's file sinks staged in directories to which the starting job no longer writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from streamjob.errors import StreamJobError
from streamjob.ids import OperatorUid
from streamjob_runtime.sinks.factory import SinkSurroundings, make_sink_from_graph
from streamjob_runtime.sinks.files import FileSink

_NAMED = 5


def left_staged(
    former: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]], surroundings: SinkSurroundings
) -> Iterator[tuple[OperatorUid, str]]:
    """Yield a sentence for each sink of a snapshot with staged batches at a former place. Changes nothing there.

    Args:
        former: the sinks of the snapshot's graph.
        now: the sinks of the job's graph.
        surroundings: the job's surroundings.
    """
    places = {Path(sink.label).resolve() for _, sink in _file_sinks(now, surroundings)}
    for uid, sink in _file_sinks(former, surroundings):
        if Path(sink.label).resolve() in places:
            continue
        try:
            staged = sink.staged()
        except OSError as error:
            yield uid, f"whether it has staged batches at its former path {sink.label} is not known: {error.strerror}"
            continue
        if staged:
            more = f" and {len(staged) - _NAMED} more" if len(staged) > _NAMED else ""
            told = (
                f"batches that it has staged stay at its former path {sink.label}: {', '.join(staged[:_NAMED])}{more}"
            )
            yield (
                uid,
                f"{told}. Only the job that staged them publishes or discards them: delete them if it is gone for good",
            )


def _file_sinks(
    sinks: Iterable[Mapping[str, Any]], surroundings: SinkSurroundings
) -> Iterator[tuple[OperatorUid, FileSink]]:
    for each in sinks:
        try:
            sink, context = make_sink_from_graph(each, surroundings)
        except StreamJobError:
            # The code or the variables of a former sink are gone, so its place is unknown.
            continue
        if isinstance(sink, FileSink):
            yield context.uid, sink
