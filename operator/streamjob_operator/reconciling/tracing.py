"""Follows the moves of all jobs, and hands their spans on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from streamjob.telemetry.spans import Span
from streamjob_operator.decisions.status.traces import Move, follow, move_spans
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.resources.status import StreamJobStatus

_log = logging.getLogger(__name__)


class Moves:
    """The moves under way. What began before this process is known from its next decision on.

    Args:
        put: takes spans; returns at once.
    """

    def __init__(self, put: Callable[[Sequence[Span]], None]) -> None:
        self._put = put
        self._failed = False
        self._moves: dict[tuple[str, str], tuple[str, Move]] = {}

    def note(self, resource: Resource, after: StreamJobStatus, now: datetime) -> None:
        """Follow a job by one decision.

        Args:
            resource: the StreamJob, with its status before the decision.
            after: the status after it.
            now: the time of the decision.
        """
        try:
            self._note(resource, after, now)
        except Exception:
            # A defect here must not keep a job from being reconciled.
            if not self._failed:
                self._failed = True
                _log.exception("Traces of moves have gaps")

    def _note(self, resource: Resource, after: StreamJobStatus, now: datetime) -> None:
        key = resource.namespace, resource.name
        uid, move = self._moves.pop(key, (resource.uid, None))
        move, ended = follow(move if uid == resource.uid else None, resource.status, after, now)
        if move is not None:
            self._moves[key] = resource.uid, move
        if ended is not None:
            about = {"streamjob.job": resource.name, "streamjob.namespace": resource.namespace}
            self._put(move_spans(ended, resource.uid, after, now, about))

    def forget(self, namespace: str, name: str) -> None:
        """Forget a job that is gone."""
        self._moves.pop((namespace, name), None)
