"""The requests that callers make of a job: each is passed on once, and is kept until a caller has seen its outcome."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection

from streamjob.client.models import JobPart, JobReport, TriggerState, TriggerView
from streamjob.ids import TriggerId
from streamjob_runtime.control.api.admission import LIMITS
from streamjob_runtime.control.api.job_control import JobControl, TooManyRequests, TriggerIdReused

REMEMBERED = 100
"""The most requests whose outcome waits for a caller; older ones are forgotten."""

_ENDED = frozenset({TriggerState.COMPLETED, TriggerState.FAILED})


class Triggering:
    """Passes each request on once, even if callers repeat it, and tracks the outcomes that no caller has seen yet.

    Args:
        control: receives the requests.
        expect: receives the W3C `traceparent` that comes with a request, before the request itself.
    """

    def __init__(
        self, control: JobControl, expect: Callable[[TriggerId, str], None] = lambda _trigger, _parent: None
    ) -> None:
        self._control = control
        self._expect = expect
        self._lock = threading.Lock()
        self._unseen: OrderedDict[TriggerId, None] = OrderedDict()
        self._seen = threading.Condition(self._lock)
        self._waiting: list[TriggerId] = []

    def ask(
        self, kind: str, requested: TriggerId | None, call: Callable[[TriggerId], None], traceparent: str = ""
    ) -> TriggerId:
        """Make the request, unless it was made before, and return its id.

        Raises:
            TriggerIdReused: the id belongs to a different kind of request.
            TooManyRequests: too many requests are open; a stop is accepted anyway.
        """
        trigger_id = requested or TriggerId(str(uuid.uuid4()))
        with self._lock:
            known = self._control.trigger(trigger_id)
            if known is None:
                if kind != "stop":
                    self._refuse_too_many(kind)
                if traceparent:
                    self._expect(trigger_id, traceparent)
                call(trigger_id)
                self._waiting.append(trigger_id)
                self._unseen[trigger_id] = None
                while len(self._unseen) > REMEMBERED:
                    self._unseen.popitem(last=False)
            elif known.kind != kind:
                raise TriggerIdReused(
                    f"the trigger id {trigger_id} belongs to a request for a {known.kind}",
                    f"Choose another id for the {kind}.",
                )
        return trigger_id

    def _refuse_too_many(self, kind: str) -> None:
        views = ((each, self._control.trigger(each)) for each in self._waiting)
        self._waiting = [each for each, view in views if view is not None and view.state not in _ENDED]
        if len(self._waiting) >= LIMITS.waiting_triggers:
            raise TooManyRequests(
                f"{len(self._waiting)} requests have no outcome yet", f"Ask for the {kind} when some of them have."
            )

    def look_up(self, trigger_id: TriggerId) -> TriggerView | None:
        """Return the state of a request."""
        view = self._control.trigger(trigger_id)
        self._note_seen(() if view is None else (view,))
        return view

    def report(self, include: Collection[JobPart], triggers: Collection[TriggerId]) -> JobReport:
        """Return the job, the requested parts, and the state of requests."""
        report = self._control.report(include, triggers)
        self._note_seen((report.triggers or {}).values())
        return report

    def _note_seen(self, views: Collection[TriggerView]) -> None:
        ended = [view.trigger_id for view in views if view.state in _ENDED]
        if ended:
            with self._seen:
                for trigger_id in ended:
                    self._unseen.pop(trigger_id, None)
                self._seen.notify_all()

    def wait_until_seen(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until callers have seen all outcomes; return whether they have."""
        with self._seen:
            return self._seen.wait_for(lambda: not self._unseen, timeout)
