"""Says what a running job reads and writes, as OpenLineage events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from streamjob.client.models import JobView
from streamjob_runtime.lineage.content import Moment, Schema
from streamjob_runtime.lineage.following import Followed, Look, follow

log = logging.getLogger("streamjob")


class LineageExport:
    """Follows a job; one thread uses it.

    Args:
        interval: seconds between two RUNNING events.
        send: sends the event of a moment.
        schemas: returns the columns that each sink gets, by name, as far as they are known.
    """

    def __init__(
        self,
        interval: float,
        send: Callable[[Moment], None],
        schemas: Callable[[], Mapping[str, Schema]] = dict,
    ) -> None:
        self._interval = interval
        self._send = send
        self._schemas = schemas
        self._followed = Followed()

    def note(self, job: JobView, now: float) -> None:
        """Send the events that are due.

        Args:
            now: seconds since 1970.
        """
        try:
            schemas = {} if job.state.terminal else self._schemas()
        except Exception as error:
            # Spark may be stopping or gone.
            log.debug("The columns of the sinks could not be read: %s", error)
            schemas = {}
        look = Look(now, job.epoch, job.state, job.restarts, job.failure, schemas)
        self._followed, due = follow(self._followed, look, self._interval)
        for moment in due:
            self._send(moment)
