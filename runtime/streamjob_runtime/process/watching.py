"""Observes a running job about once a second, for the view and the metrics."""

from __future__ import annotations

import logging
import threading
import time

from streamjob.client.models import JobView
from streamjob.clock import Clock
from streamjob.protocol.coordination import messages as m
from streamjob.snapshot.manifest import Manifest
from streamjob_runtime.control.running_job import RunningJob
from streamjob_runtime.control.terminal import View
from streamjob_runtime.lineage.exporting import LineageExport
from streamjob_runtime.monitoring.metrics import Metrics

_LOOK_SECONDS = 1.0

log = logging.getLogger("streamjob")


class Watcher:
    """Reads the queries' progress and updates the view, from `start` to `stop`.

    Args:
        lineage: says what the job reads and writes; None if nobody asks for it.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        control: RunningJob,
        view: View,
        metrics: Metrics,
        lineage: LineageExport | None = None,
        clock: Clock = time.time,
    ) -> None:
        self._lineage = lineage
        self._clock = clock
        self._control = control
        self._view = view
        self._metrics = metrics
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Start to observe."""
        self._thread.start()

    def stop(self) -> None:
        """Observe once more, and leave the last state on the screen."""
        self._stopped.set()
        self._thread.join()
        self._look()
        try:
            self._view.close()
        except OSError as error:
            # A lost terminal must not hide how the job ended.
            log.debug("Nobody sees the view any more: %s", error)

    def note_completion(self, action: m.CompleteCheckpoint, manifest: Manifest) -> None:
        """Record a completed checkpoint in the metrics."""
        written = sum(each.metrics.checkpointed_size for each in action.acknowledgements.values())
        self._metrics.observe_checkpoint(action.properties.kind, manifest.completed - manifest.triggered, written)

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            self._control.observe(self._metrics)
        except Exception as error:
            # Spark may be stopping or gone. Keep the last state; the job's own thread reports the cause.
            log.debug("Progress could not be read: %s", error)
        try:
            # In this order: the job knows the kind of the history's last snapshot.
            checkpoints = self._control.checkpoints()
            job = self._control.job()
            self._control.record(job, checkpoints)
            self._note_lineage(job)
            self._view.update(job, checkpoints)
        except OSError as error:
            log.debug("Nobody sees the view any more: %s", error)

    def _note_lineage(self, job: JobView) -> None:
        if self._lineage is None:
            return
        try:
            self._lineage.note(job, self._clock())
        except Exception as error:
            # Lineage is for others: the job goes on without.
            log.warning("An event of lineage could not be made: %s", error)
            self._lineage = None
