"""The requests that callers make of a job: each is passed on once, and is kept until a caller has seen its outcome."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from streamjob.client.models import TriggerView
from streamjob.ids import TriggerId
from streamjob.protocol.coordination.triggers import TriggerState, TriggerStatus
from streamjob_runtime.control.api.admission import LIMITS
from streamjob_runtime.control.api.refusals import TooManyRequests, TriggerIdReused

RequestKind = Literal["checkpoint", "savepoint", "stop"]

MOST_AWAITED = 100
"""The most requests whose outcome waits for a caller."""
_REMEMBERED = 1000


@dataclass(slots=True)
class _Request:
    """A request; those that the process makes itself are never open or awaited."""

    kind: RequestKind
    open: bool = False
    awaited: bool = False
    """Whether a caller has still to see its outcome."""


class Requests:
    """Remembers the requests of a process by trigger id; the coordinator knows the outcomes. Thread-safe.

    Args:
        status: returns the status of a request in the coordinator; None if the coordinator does not know it yet.
    """

    def __init__(self, status: Callable[[TriggerId], TriggerStatus | None]) -> None:
        self._status = status
        self._known: OrderedDict[TriggerId, _Request] = OrderedDict()
        # A request that is passed on is noted.
        self._seen = threading.Condition(threading.RLock())

    def ask(self, kind: RequestKind, requested: TriggerId | None, call: Callable[[TriggerId], None]) -> TriggerId:
        """Make the request, unless it was made before, and return its id.

        Args:
            requested: its id; None for a new one.
            call: passes the request on, which notes it.

        Raises:
            TriggerIdReused: the id belongs to a different kind of request.
            TooManyRequests: too many requests are open; a stop is accepted anyway.
        """
        trigger_id = requested or TriggerId(str(uuid.uuid4()))
        with self._seen:
            known = self._known.get(trigger_id)
            if known is None:
                if kind != "stop":
                    self._refuse_too_many(kind)
                call(trigger_id)
                request = self._known[trigger_id]
                request.open = request.awaited = True
            elif known.kind != kind:
                raise TriggerIdReused(
                    f"the trigger id {trigger_id} belongs to a request for a {known.kind}",
                    f"Choose another id for the {kind}.",
                )
        return trigger_id

    def _refuse_too_many(self, kind: RequestKind) -> None:
        for trigger_id, request in self._known.items():
            if request.open and (status := self._status(trigger_id)) is not None:
                request.open = not status.state.resolved
        number = sum(request.open for request in self._known.values())
        if number >= LIMITS.waiting_triggers:
            raise TooManyRequests(
                f"{number} requests have no outcome yet", f"Ask for the {kind} when some of them have."
            )

    def note(self, trigger_id: TriggerId, kind: RequestKind) -> None:
        """Record a request before it is passed to the coordinator."""
        with self._seen:
            self._known.setdefault(trigger_id, _Request(kind))
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def forget(self, trigger_id: TriggerId) -> None:
        """Forget a request that was refused."""
        with self._seen:
            self._known.pop(trigger_id, None)

    def view(self, trigger_id: TriggerId, status: TriggerStatus | None) -> TriggerView | None:
        """Return the state of a request, or None if the id is unknown; the caller has then seen its outcome.

        Args:
            status: its status in the coordinator; None if the coordinator does not know it yet.
        """
        with self._seen:
            request = self._known.get(trigger_id)
            if request is None:
                return None
            if status is None:
                return TriggerView(trigger_id=trigger_id, kind=request.kind, state=TriggerState.QUEUED)
            if status.state.resolved:
                request.open = request.awaited = False
                self._seen.notify_all()
        return TriggerView(
            trigger_id=trigger_id,
            kind=request.kind,
            state=status.state,
            checkpoint=status.checkpoint,
            result=status.uri,
            failure=status.failure,
        )

    def wait_until_seen(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until callers have seen the latest outcomes; return whether they have."""
        with self._seen:
            return self._seen.wait_for(lambda: not any(each.awaited for each in self._latest()), timeout)

    def _latest(self) -> list[_Request]:
        return list(self._known.values())[-MOST_AWAITED:]
