"""Remembers requests to the job by trigger id, for the lifetime of the process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Literal

from streamjob.client.models import TriggerView
from streamjob.ids import TriggerId
from streamjob.protocol.coordination.triggers import TriggerState, TriggerStatus

RequestKind = Literal["checkpoint", "savepoint", "stop"]
_REMEMBERED = 1000


class RequestKinds:
    """Remembers the kind of each request; the coordinator knows the outcomes. Thread-safe."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[TriggerId, RequestKind] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, trigger_id: TriggerId, kind: RequestKind) -> None:
        """Record a request before it is passed to the coordinator."""
        with self._lock:
            self._kinds[trigger_id] = kind
            while len(self._kinds) > _REMEMBERED:
                self._kinds.popitem(last=False)

    def forget(self, trigger_id: TriggerId) -> None:
        """Forget a request that was refused."""
        with self._lock:
            self._kinds.pop(trigger_id, None)

    def view(self, trigger_id: TriggerId, status: TriggerStatus | None) -> TriggerView | None:
        """Return the state of a request, or None if the id is unknown.

        Args:
            trigger_id: the id of the request.
            status: its status in the coordinator; None if the coordinator does not know it yet.
        """
        with self._lock:
            kind = self._kinds.get(trigger_id)
        if kind is None:
            return None
        if status is None:
            return TriggerView(trigger_id=trigger_id, kind=kind, state=TriggerState.QUEUED)
        outcome = status.outcome
        return TriggerView(
            trigger_id=trigger_id,
            kind=kind,
            state=status.state,
            checkpoint=outcome.checkpoint if outcome else None,
            result=outcome.uri if outcome else None,
            failure=outcome.failure if outcome else None,
        )
