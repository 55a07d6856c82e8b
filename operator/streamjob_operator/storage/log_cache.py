"""Caches the logs of jobs without a process for some seconds, because nothing writes to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from streamjob_operator.decisions.values.observation import DriverPod, StoredLog

_MOST = 10_000

Place = tuple[str, frozenset[str]]


class LogCache:
    """Remembers the content of a log as long as its job has the same pods, all of which have ended.

    A deployment takes several looks, and a read of a log several requests.

    Args:
        seconds: how long to cache. A process on a lost node, or in another cluster, may write to the log of a job
            without a pod; the next driver finds its claim in any case.
        clock: in seconds.
    """

    def __init__(self, seconds: float = 10.0, clock: Callable[[], float] = time.time) -> None:
        self._seconds = seconds
        self._clock = clock
        self._known: dict[str, tuple[Place, float, StoredLog]] = {}

    def find(self, uid: str, location: str, pods: Sequence[DriverPod]) -> StoredLog | None:
        """Return the log of a job, if it is remembered."""
        place, until, log = self._known.get(uid, (None, 0.0, None))
        return log if place is not None and place == _place(location, pods) and self._clock() < until else None

    def keep(self, uid: str, location: str, pods: Sequence[DriverPod], log: StoredLog) -> None:
        """Remember the log of a job, if no process can be writing to it. The pods were observed before the log was
        read."""
        self._known.pop(uid, None)
        place = _place(location, pods)
        if place is not None:
            self._known[uid] = place, self._clock() + self._seconds, log
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]


def _place(location: str, pods: Sequence[DriverPod]) -> Place | None:
    return (location, frozenset(pod.uid for pod in pods)) if all(pod.ended for pod in pods) else None
