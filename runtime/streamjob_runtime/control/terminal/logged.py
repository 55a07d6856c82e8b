"""The view of a job whose log is JSON: its events are records of the log."""

from __future__ import annotations

import logging
import threading

from streamjob.client.models import CheckpointsView, JobView
from streamjob_runtime.control.terminal.events import Look, events

_log = logging.getLogger("streamjob.events")


class LoggedView:
    """Logs the events of a job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Look | None = None

    def update(self, job: JobView, checkpoints: CheckpointsView) -> None:
        """Log the events since the last update."""
        look = Look(job, checkpoints)
        with self._lock:
            for event in events(self._last, look):
                level = logging.WARNING if event.weight == "bad" else logging.INFO
                about = {name: event.details[name] for name in ("checkpoint", "chain") if name in event.details}
                _log.log(level, "%s", event.text, extra=about)
            self._last = look

    def message(self, text: str) -> None:
        """Log a message."""
        _log.info("%s", text)

    def close(self) -> None:
        """Do nothing."""
