"""Finds what a snapshot's file sinks staged in directories and buckets to which the starting job no longer writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from streamjob.errors import StreamJobError
from streamjob.ids import OperatorUid
from streamjob.store.base import StoreError
from streamjob_runtime.sinks.factory import SinkSurroundings, make_sink_from_graph

_NAMED = 5


@runtime_checkable
class _StagesAtItsPlace(Protocol):
    """A sink that stages where it writes; it need not be open."""

    @property
    def label(self) -> str:
        """Its place: a path or a URI."""
        ...

    def staged(self) -> tuple[str, ...]:
        """Return the names of what is staged there. Raises OSError or StoreError."""
        ...

    def close(self) -> None:
        """Release what `staged` has opened."""
        ...


def left_staged(
    former: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]], surroundings: SinkSurroundings
) -> Iterator[tuple[OperatorUid, str]]:
    """Yield a sentence for each sink of a snapshot with staged batches at a former place. Changes nothing there.

    Args:
        former: the sinks of the snapshot's graph.
        now: the sinks of the job's graph.
    """
    places = {_place(sink.label) for _, sink in _file_sinks(now, surroundings)}
    for uid, sink in _file_sinks(former, surroundings):
        if _place(sink.label) in places:
            continue
        try:
            staged = sink.staged()
        except (OSError, StoreError) as error:
            why = error.what if isinstance(error, StoreError) else error.strerror
            yield uid, f"whether it has staged batches at its former path {sink.label} is not known: {why}"
            continue
        finally:
            sink.close()
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
) -> Iterator[tuple[OperatorUid, _StagesAtItsPlace]]:
    for each in sinks:
        try:
            sink, context = make_sink_from_graph(each, surroundings)
        except StreamJobError:
            # The code or the variables of a former sink are gone, so its place is unknown.
            continue
        if isinstance(sink, _StagesAtItsPlace):
            yield context.uid, sink


def _place(label: str) -> str:
    return label if "://" in label else str(Path(label).resolve())
