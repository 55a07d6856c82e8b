"""The view without a terminal: a line for each event but routine checkpoints, and one every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import IO

from streamjob.client import formatting
from streamjob.client.inputs import (
    here_of,
    idle_note,
    inputs_of,
    losses,
    restored_note,
    running_batch,
    since,
    time_notes,
    unread_records,
)
from streamjob.client.models import ChainView, CheckpointsView, JobState, JobView
from streamjob_runtime.control.terminal.events import Look, events

_PROGRESS = frozenset({JobState.RUNNING, JobState.FINISHING, JobState.STOPPING})


class PlainView:
    """Writes lines that begin with the time of day.

    Args:
        every: seconds between two lines of progress.
        clock: seconds since 1970.
    """

    def __init__(self, file: IO[str], *, every: float = 5.0, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._every = every
        self._clock = clock
        self._lock = threading.Lock()
        self._last: Look | None = None
        self._progress_at = float("-inf")

    def update(self, job: JobView, checkpoints: CheckpointsView) -> None:
        """Write the events since the last update, and a line of progress if one is due."""
        look = Look(job, checkpoints)
        now = self._clock()
        with self._lock:
            for event in events(self._last, look):
                # The line of progress has the last checkpoint.
                if event.kind != "checkpoint" or event.weight != "routine":
                    self._write(event.text, now)
            self._last = look
            if job.state in _PROGRESS and now - self._progress_at >= self._every:
                self._progress_at = now
                self._write(progress_line(job, now), now)

    def message(self, text: str) -> None:
        """Write a line."""
        with self._lock:
            self._write(text, self._clock())

    def close(self) -> None:
        """Do nothing."""

    def _write(self, text: str, now: float) -> None:
        try:
            print(f"{formatting.clock_time(now)}  {text}", file=self._file, flush=True)
        except (OSError, ValueError):
            # A reader that has left (`streamjob run … | head`) must not fail the job.
            self._write = _write_nothing  # type: ignore[method-assign]


def progress_line(job: JobView, now: float) -> str:
    """Return the job's progress in one line: records and rates, watermarks, the last checkpoint."""
    records_in, rate = formatting.count(job.records_in), formatting.count(job.records_in_per_second)
    parts = [job.state.value, f"in {records_in} ({rate}/s), out {formatting.count(job.records_out)} {since(job, now)}"]
    if len(job.chains) > 1:
        parts += [_chain(job, chain) for chain in job.chains if not chain.finished]
    else:
        parts += [running for chain in job.chains if (running := running_batch(chain))]
    watermarks = {
        source.uid: f"{source.uid} {formatting.event_time(source.watermark_ms)}"
        for chain in job.chains
        for source in chain.inputs
        if source.watermark_ms is not None and source.chain is None
    }
    if watermarks:
        parts.append(f"watermark {', '.join(watermarks.values())}")
    unread = {
        source.uid: f"{source.uid} {left}"
        for chain in job.chains
        for source in chain.inputs
        if (left := unread_records(job, source))
    }
    if unread:
        parts.append(f"unread {', '.join(unread.values())}")
    idle = {
        source.uid: f"{source.uid} {note}"
        for chain in job.chains
        for source in chain.inputs
        if (note := idle_note(source))
    }
    parts += idle.values()
    parts += [f"{source.uid} {note}" for chain in job.chains for source in chain.inputs for note in time_notes(source)]
    parts += [f"{heading} {formatting.count(lost)}" for heading, lost in losses(job).items()]
    if job.executors is not None:
        parts.append(f"executors {here_of(job.executors)}")
    last = job.last_checkpoint
    if last is None:
        restored = job.restored_from
        parts.append("no checkpoint yet" if restored is None else restored_note(restored, now))
    else:
        unaligned = "unaligned " if last.unaligned and len(job.chains) > 1 else ""
        name = f"{unaligned}{last.kind} {last.id}"
        parts.append(f"{name} {formatting.ago(now - last.completed)}, {formatting.size(last.state_size)}")
    return "  ".join(parts)


def _chain(job: JobView, chain: ChainView) -> str:
    facts = [f"{chain.uid}: {formatting.count(chain.records_in_per_second)}/s"]
    if records := sum(channel.records for channel in inputs_of(job, chain)):
        facts.append(f"{formatting.count(records)} in flight")
    if chain.backpressured > 0:
        facts.append(f"backpressure {formatting.percent(chain.backpressured)}")
    if running := running_batch(chain):
        facts.append(running)
    return ", ".join(facts)


def _write_nothing(text: str, now: float) -> None:
    """Discard output once its reader has left."""
