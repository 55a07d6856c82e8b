"""Reports a failing reconciliation on its object: a condition with the error's text, an event, and a way to delete it.

The API server's own silence leaves no trace: it cannot be written anywhere, and ends by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError

from streamjob.errors import StreamJobError
from streamjob_operator.cluster.api import Cluster, ClusterError, Conflict, Unavailable
from streamjob_operator.cluster.events import EventRecorder
from streamjob_operator.cluster.kinds import Kind, Object
from streamjob_operator.reconciling.acting import set_finalizer
from streamjob_operator.reconciling.observing import FINALIZER
from streamjob_operator.resources.conditions import Condition, ConditionStatus, find_condition, with_condition

_log = logging.getLogger(__name__)

REASON = "ReconcileFailed"
_LONGEST = 1000
_PATIENCE = 5
"""Unexpected errors in a row after which an object that is being deleted skips the failing step."""
_SAME_TEXT = timedelta(seconds=30)
_VERDICTS: tuple[tuple[str, ConditionStatus], ...] = (("Ready", "False"), ("Reconciling", "True"))
_TO_LET_GO = "; to let it go without, take its finalizer off: its files are then left in the store"


@dataclass(frozen=True, slots=True)
class _Failure:
    uid: str
    text: str
    since: datetime
    unexpected: int


@dataclass(slots=True)
class Failures:
    """Knows the failing objects of a kind, and reports the failure on them.

    Args:
        leave: stops the processes of an object to be released; returns whether none is left.
    """

    kind: Kind
    cluster: Cluster
    events: EventRecorder
    leave: Callable[[Object], Awaitable[bool]]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _known: dict[tuple[str, str], _Failure] = field(default_factory=dict)

    def text(self, thing: Object) -> str | None:
        """Return why the last reconcile of an object failed; None if it did not."""
        known = self._known.get(_key(thing))
        return known.text if known is not None and known.uid == thing["metadata"].get("uid", "") else None

    def forget(self, namespace: str, name: str) -> None:
        """Note that an object is gone, or was reconciled as a whole."""
        self._known.pop((namespace, name), None)

    def shown(self, conditions: tuple[Condition, ...], thing: Object) -> tuple[Condition, ...]:
        """Return an object's conditions as they are to be stored while its last reconcile has failed."""
        text = self.text(thing)
        stalled = find_condition(conditions, "Stalled")
        if text is None or (stalled is not None and stalled.status == "True"):
            return conditions
        for kind, status in _VERDICTS:
            conditions = with_condition(
                conditions, kind, status, REASON, text, generation=_generation(thing), now=self.now()
            )
        return conditions

    async def note(self, thing: Object, error: Exception) -> None:
        """Report on an object that its reconciliation has failed; release it if it cannot be deleted otherwise.

        Raises:
            ClusterError: it is to be released, and was not.
        """
        if isinstance(error, Conflict | Unavailable):
            return
        failure = self._known[_key(thing)] = self._failure(thing, error)
        try:
            thing = await self.cluster.get(self.kind, *_key(thing))
            await self._write(thing)
        except ClusterError as missed:
            _log.warning("the failure of %s/%s was not noted: %s", *_key(thing), missed)
        await self.events.record(thing, "Warning", REASON, failure.text)
        if failure.unexpected >= _PATIENCE:
            await self._release(thing)

    def _failure(self, thing: Object, error: Exception) -> _Failure:
        text = told(error) + (_TO_LET_GO if thing["metadata"].get("deletionTimestamp") else "")
        uid, now = thing["metadata"].get("uid", ""), self.now()
        known, unexpected = self._known.get(_key(thing)), not isinstance(error, StreamJobError)
        if known is None or known.uid != uid:
            return _Failure(uid, text, now, int(unexpected))
        number = known.unexpected + 1 if unexpected else 0
        # Each write wakes the object, so a text that differs each time must not be written each time.
        if now - known.since < _SAME_TEXT:
            return replace(known, unexpected=number)
        return _Failure(uid, text, now, number)

    async def _write(self, thing: Object) -> None:
        stored = thing.get("status") or {}
        wanted = stored | {"conditions": self._beside(stored.get("conditions"), thing)}
        if wanted != stored:
            await self.cluster.replace(self.kind, thing | {"status": wanted}, subresource="status")

    def _beside(self, stored: Any, thing: Object) -> list[Object]:
        """Return the stored conditions with this failure; a status that cannot be read keeps all the rest."""
        try:
            known = tuple(Condition.model_validate(each) for each in stored or ())
        except (ValidationError, TypeError):
            known = ()
        if find_condition(known, "Stalled") is not None:
            known = with_condition(known, "Stalled", "False", REASON, generation=_generation(thing), now=self.now())
        return [each.to_dict() for each in self.shown(known, thing)]

    async def _release(self, thing: Object) -> None:
        deleted, finalizers = thing["metadata"].get("deletionTimestamp"), thing["metadata"].get("finalizers") or ()
        if not deleted or FINALIZER not in finalizers or not await self.leave(thing):
            return
        message = f"the failed step is skipped, and its files are left in the store: {self.text(thing)}"
        await self.events.record(thing, "Warning", "CleanupFailed", message)
        await set_finalizer(self.cluster, await self.cluster.get(self.kind, *_key(thing)), present=False)


def told(error: Exception) -> str:
    """Return an error's text for a condition: short, and without the values that a model refused."""
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_input=False, include_context=False)
        parts = [f"{'.'.join(str(each) for each in one['loc'])}: {one['msg']}" for one in found]
        text = f"{error.title} cannot be read: {'; '.join(parts)}"
    elif isinstance(error, StreamJobError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _key(thing: Object) -> tuple[str, str]:
    return thing["metadata"]["namespace"], thing["metadata"]["name"]


def _generation(thing: Object) -> int:
    return int(thing["metadata"].get("generation") or 0)
