"""An hour of a job's figures, in bounded memory."""

from __future__ import annotations

import math
import threading
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from streamjob.client.diagnosing import event_lag_seconds, lag_records, lag_seconds
from streamjob.client.models import JobView
from streamjob.client.page_models import ChainPoint, HistoryPoint, HistoryView
from streamjob.ids import ChainUid

INTERVAL = 5.0
_POINTS = 720
_CHANGE_OVER = 120.0
"""Seconds over which the change of the lag is taken."""
_OF_JOB = ("at", "lag_records", "lag_seconds", "rows_per_second", "batch_seconds", "checkpoint_age_seconds")
_OF_CHAIN = ("busy", "backpressured", "rows_per_second", "batch_seconds")
_LAG_SECONDS = _OF_JOB.index("lag_seconds")


class History:
    """Remembers a point every five seconds for an hour; any thread may read it, one notes.

    A point takes 8 bytes per figure: 250 kB an hour for ten chains.
    """

    def __init__(self, chains: Sequence[ChainUid]) -> None:
        self._chains = tuple(chains)
        self._points: deque[array[float]] = deque(maxlen=_POINTS)
        self._event_lags: deque[tuple[float, float]] = deque(maxlen=round(_CHANGE_OVER / INTERVAL) + 1)
        self._lock = threading.Lock()

    def note(self, job: JobView, now: float) -> None:
        """Remember the job's figures if a point is due.

        Args:
            now: seconds since 1970.
        """
        with self._lock:
            if not self._points or now - self._points[-1][0] >= INTERVAL:
                self._points.append(_packed(point_of(job, now), self._chains))
                event_lag = event_lag_seconds(job)
                self._event_lags.append((now, math.nan if event_lag is None else event_lag))

    def since(self, time: float | None = None) -> HistoryView:
        """Return the points later than a time, in seconds since 1970; all for None."""
        with self._lock:
            first = 0 if time is None else bisect_right(self._points, time, key=lambda point: point[0])
            packed = [self._points[index] for index in range(first, len(self._points))]
        return HistoryView(interval_seconds=INTERVAL, points=tuple(_unpacked(each, self._chains) for each in packed))

    def lag_change(self) -> float | None:
        """Return by how many seconds the lag has grown per second in the last two minutes; None if not known."""
        with self._lock:
            return _change([(each[0], each[_LAG_SECONDS]) for each in self._points])

    def event_lag_change(self) -> float | None:
        """Return the same of the lag of event time."""
        with self._lock:
            return _change(self._event_lags)


def _change(lags: Sequence[tuple[float, float]]) -> float | None:
    """Return by how much lags, with their times, have grown per second in the last two minutes."""
    if not lags:
        return None
    at, last = lags[-1]
    since, first = next(
        (each for each in lags if each[0] >= at - _CHANGE_OVER and not math.isnan(each[1])), (at, math.nan)
    )
    # A few seconds tell nothing: a source catches up batch by batch.
    if at - since < _CHANGE_OVER / 4 or math.isnan(last):
        return None
    return (last - first) / (at - since)


def point_of(job: JobView, now: float) -> HistoryPoint:
    """Return a job's figures at a time, in seconds since 1970."""
    last = job.last_checkpoint
    batches = [chain.last_batch_ms for chain in job.chains if chain.last_batch_ms is not None]
    return HistoryPoint(
        at=now,
        lag_records=lag_records(job),
        lag_seconds=lag_seconds(job),
        rows_per_second=job.records_in_per_second,
        batch_seconds=max(batches) / 1000 if batches else None,
        checkpoint_age_seconds=None if last is None else max(0.0, now - last.completed),
        chains={
            chain.uid: ChainPoint(
                busy=chain.busy,
                backpressured=chain.backpressured,
                rows_per_second=chain.records_in_per_second,
                batch_seconds=None if chain.last_batch_ms is None else chain.last_batch_ms / 1000,
            )
            for chain in job.chains
        },
    )


def _packed(point: HistoryPoint, chains: Sequence[ChainUid]) -> array[float]:
    nothing = ChainPoint()
    figures = [getattr(point, name) for name in _OF_JOB]
    for uid in chains:
        chain = point.chains.get(uid, nothing)
        figures += [getattr(chain, name) for name in _OF_CHAIN]
    return array("d", (math.nan if each is None else each for each in figures))


def _unpacked(packed: array[float], chains: Sequence[ChainUid]) -> HistoryPoint:
    figures = iter(None if math.isnan(each) else round(each, 3) for each in packed)
    of_job = _named(_OF_JOB, figures)
    of_chains = {uid: ChainPoint.model_construct(**_named(_OF_CHAIN, figures)) for uid in chains}
    return HistoryPoint.model_construct(**of_job, chains=of_chains)


def _named(names: Iterable[str], figures: Iterable[float | None]) -> dict[str, Any]:
    return dict(zip(names, figures, strict=False))
