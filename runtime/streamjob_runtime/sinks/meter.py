"""Counts the work of a job's sinks, through all its epochs in a process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal, TypeVar

from pydantic import JsonValue

from streamjob.ids import CheckpointId, OperatorUid
from streamjob.sink import Staged

Call = Literal["stage", "commit", "abort"]
OnCall = Callable[[OperatorUid, Call, float], None]

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The last checkpoint that a sink has committed; `time` is in seconds since 1970, `seconds` the duration."""

    checkpoint: CheckpointId
    time: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFigures:
    """The work of a sink in this process.

    Args:
        staged_rows: rows of the batches that it has staged; None once the number was unknown.
        committed_rows: rows visible to its readers; None once the number was unknown.
        committed: committables of this process that it has committed.
        waiting: committables that wait for the completion of a checkpoint.
        last: the last checkpoint that it has committed.
        failures: calls that raised an error.
        stage_seconds: time of the calls that staged a batch.
    """

    staged_rows: int | None = 0
    committed_rows: int | None = 0
    committed: int = 0
    waiting: int = 0
    last: LastCommit | None = None
    failures: int = 0
    stage_seconds: float = 0.0


class SinkMeter:
    """Counts for one sink; `stage` is called on its chain's thread, everything else on others.

    Args:
        on_call: receives each successful call, with its duration in seconds.
        clock: seconds since 1970.
        timer: monotonic time in seconds.
    """

    def __init__(
        self, on_call: Callable[[Call, float], None], clock: Callable[[], float], timer: Callable[[], float]
    ) -> None:
        self._on_call = on_call
        self._clock = clock
        self._timer = timer
        self._lock = threading.Lock()
        self._figures = SinkFigures()
        self._waiting: dict[str, int | None] = {}

    @property
    def figures(self) -> SinkFigures:
        """The figures so far."""
        with self._lock:
            return replace(self._figures, waiting=len(self._waiting))

    def stage(self, stage: Callable[[], Staged]) -> Staged:
        """Stage a batch, and count its rows."""
        staged, seconds = self._timed("stage", stage)
        with self._lock:
            figures = self._figures
            committed = figures.committed_rows
            if staged.committable is None or staged.published:
                committed = _sum(committed, staged.rows)
            else:
                self._waiting[_identity(staged.committable)] = staged.rows
            staged_rows = _sum(figures.staged_rows, staged.rows)
            self._figures = replace(
                figures,
                staged_rows=staged_rows,
                committed_rows=committed,
                stage_seconds=figures.stage_seconds + seconds,
            )
        return staged

    def commit(self, commit: Callable[[], None], checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Commit a checkpoint; committables of other processes may have been committed before, and are not counted."""
        _, seconds = self._timed("commit", commit)
        with self._lock:
            figures = self._figures
            mine = [identity for each in committables if (identity := _identity(each)) in self._waiting]
            rows = [self._waiting.pop(identity) for identity in dict.fromkeys(mine)]
            self._figures = replace(
                figures,
                committed_rows=reduce(_sum, rows, figures.committed_rows),
                committed=figures.committed + len(rows),
                last=LastCommit(checkpoint, self._clock(), seconds),
            )

    def abort(self, abort: Callable[[], None]) -> None:
        """Discard batches that earlier epochs staged; no committable waits after this."""
        self._timed("abort", abort)
        with self._lock:
            self._waiting.clear()

    def _timed(self, name: Call, call: Callable[[], _Result]) -> tuple[_Result, float]:
        started = self._timer()
        try:
            result = call()
        except BaseException:
            with self._lock:
                self._figures = replace(self._figures, failures=self._figures.failures + 1)
            raise
        seconds = self._timer() - started
        self._on_call(name, seconds)
        return result, seconds


class SinkMeters:
    """A meter for each sink of a job; may be used from any thread.

    Args:
        clock: seconds since 1970.
        timer: monotonic time in seconds.

    `on_call` may be set before the job runs; it receives each successful call, with its duration in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time, timer: Callable[[], float] = time.monotonic) -> None:
        self.on_call: OnCall = lambda sink, call, seconds: None
        self._clock = clock
        self._timer = timer
        self._lock = threading.Lock()
        self._meters: dict[OperatorUid, SinkMeter] = {}

    def of(self, sink: OperatorUid) -> SinkMeter:
        """Return the meter of a sink; it stays the same through all epochs."""
        with self._lock:
            if sink not in self._meters:
                self._meters[sink] = SinkMeter(
                    lambda call, seconds: self.on_call(sink, call, seconds), self._clock, self._timer
                )
            return self._meters[sink]


def _identity(committable: JsonValue) -> str:
    """Return the identity of a committable, which comes back from the manifest as another object."""
    return json.dumps(committable, sort_keys=True, default=str)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
