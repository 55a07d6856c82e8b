"""Means of the phases of a chain's last batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamjob.client.models import BatchTimesView
from streamjob.ids import OperatorUid
from streamjob_runtime.monitoring.query_progress import BatchProgress

_BATCHES = 20


@dataclass(frozen=True, slots=True)
class _Seen:
    batches: tuple[BatchProgress, ...]
    waited: float
    in_sinks: Mapping[OperatorUid, float]


class BatchWindow:
    """Remembers the last batches of a chain in one epoch, about twenty of them."""

    def __init__(self) -> None:
        self._seen: deque[_Seen] = deque()
        self._waited = 0.0
        self._in_sinks: dict[OperatorUid, float] = {}

    def begin(self, waited: float, in_sinks: Mapping[OperatorUid, float]) -> None:
        """Count waiting and sinks from these totals on."""
        self._waited, self._in_sinks = waited, dict(in_sinks)

    def note(
        self, batches: Sequence[BatchProgress], waited: float, in_sinks: Mapping[OperatorUid, float]
    ) -> BatchTimesView | None:
        """Add batches that have ended, and return the means; None before the first batch.

        Args:
            batches: the batches, oldest first.
            waited: total seconds of waiting for room, after them.
            in_sinks: total seconds in each sink, after them.
        """
        if batches:
            # A sink is called before Spark reports the batch, so what was added since belongs to these batches.
            spent = {uid: max(0.0, seconds - self._in_sinks.get(uid, 0.0)) for uid, seconds in in_sinks.items()}
            self._seen.append(_Seen(tuple(batches), max(0.0, waited - self._waited), spent))
            self.begin(waited, in_sinks)
            while len(self._seen) > 1 and self._count() - len(self._seen[0].batches) >= _BATCHES:
                self._seen.popleft()
        return self._means()

    def _count(self) -> int:
        return sum(len(each.batches) for each in self._seen)

    def _means(self) -> BatchTimesView | None:
        number = self._count()
        if not number:
            return None
        batches = [batch for each in self._seen for batch in each.batches]
        phases = [batch.phases for batch in batches]
        commits = [each.state_commit_ms for each in phases if each.state_commit_ms is not None]
        in_sinks: dict[OperatorUid, float] = {}
        for each in self._seen:
            for uid, seconds in each.in_sinks.items():
                in_sinks[uid] = in_sinks.get(uid, 0.0) + seconds

        def mean_ms(figures: Sequence[int]) -> float:
            return sum(figures) / number / 1000

        return BatchTimesView(
            batches=number,
            seconds=mean_ms([batch.duration_ms for batch in batches]),
            offsets=mean_ms([each.offsets_ms for each in phases]),
            planning=mean_ms([each.planning_ms for each in phases]),
            execution=mean_ms([each.execution_ms for each in phases]),
            logs=mean_ms([each.logs_ms for each in phases]),
            waiting=sum(each.waited for each in self._seen) / number,
            sinks={uid: seconds / number for uid, seconds in in_sinks.items()},
            state_commit=mean_ms(commits) if commits else None,
        )
