"""Spans of the start of an epoch: what passes until its first batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from streamjob.clock import Clock
from streamjob.ids import Epoch
from streamjob.telemetry.spans import Attribute, Span, SpanContext


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a start; times are in seconds since 1970."""

    name: str
    begin: float
    end: float
    error: str | None = None


class StartPhases:
    """The parts of one start, noted by any thread.

    Args:
        clock: seconds since 1970.
    """

    def __init__(self, epoch: Epoch, clock: Clock) -> None:
        self.epoch = epoch
        self.begun = clock()
        self._clock = clock
        self._lock = threading.Lock()
        self._phases: list[Phase] = []

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The parts that have ended."""
        with self._lock:
            return tuple(self._phases)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Note the time that passes in this context."""
        begin = self._clock()
        error: str | None = None
        try:
            yield
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            with self._lock:
                self._phases.append(Phase(name, begin, self._clock(), error))


def start_spans(
    start: StartPhases,
    end: float,
    context: SpanContext,
    parent: SpanContext | None,
    about: Mapping[str, Attribute],
    failure: str | None = None,
) -> list[Span]:
    """Return the spans of a start that has ended, its parent span first. Pure.

    Args:
        start: its parts.
        end: when the first batch was emitted, or when the start failed; seconds since 1970.
        context: the identity of its span.
        parent: the span of another process that waits for it; None for the first span of a trace.
        about: attributes of the job and of the restored snapshot.
        failure: why no batch was emitted; None if one was.
    """
    name = "restore" if "streamjob.restored_checkpoint" in about else "start"
    whole = Span(name, context, parent, start.begun, max(end, start.begun), about, failure)
    return [whole] + [
        Span(each.name, context.child(each.name), context, each.begin, each.end, about, each.error)
        for each in start.phases
        if each.begin <= whole.end
    ]
