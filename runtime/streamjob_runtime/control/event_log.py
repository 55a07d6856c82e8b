"""The events of a job, in bounded memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping

from streamjob.client.page_models import EventKind, EventsView, EventView, EventWeight

_EVENTS = 500


class EventLog:
    """Remembers the last events; any thread may use it.

    Args:
        most: the number of events to remember.
    """

    def __init__(self, most: int = _EVENTS) -> None:
        self._events: deque[EventView] = deque(maxlen=most)
        self._lock = threading.Lock()
        self._last = 0

    def add(
        self,
        at: float,
        kind: EventKind,
        sentence: str,
        *,
        weight: EventWeight = "notable",
        details: Mapping[str, str | int | float | None] | None = None,
    ) -> None:
        """Remember an event; `at` is in seconds since 1970."""
        with self._lock:
            self._last += 1
            event = EventView(
                id=self._last, at=at, kind=kind, weight=weight, sentence=sentence, details=dict(details or {})
            )
            self._events.append(event)

    @property
    def last_id(self) -> int:
        """The id of the newest event; 0 before the first."""
        return self._last

    def after(self, event: int) -> list[EventView]:
        """Return the events with higher ids, oldest first."""
        with self._lock:
            return [each for each in self._events if each.id > event]

    def view(self) -> EventsView:
        """Return all events, newest first."""
        with self._lock:
            return EventsView(events=tuple(reversed(self._events)))
