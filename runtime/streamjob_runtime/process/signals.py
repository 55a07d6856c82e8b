"""Stops a job on a signal: with a last checkpoint, within a grace period."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from streamjob.errors import ExitCode
from streamjob.ids import TriggerId
from streamjob.protocol.lifecycle import JobState
from streamjob.telemetry.logs import write_line
from streamjob_runtime.control.terminal import View
from streamjob_runtime.job.coordination import Coordination
from streamjob_runtime.process.termination import TerminationLog

_LEFT = "Stopped without a last checkpoint; the job continues from the previous one."


class Stopper:
    """Stops the job on SIGTERM or SIGINT: first with a last checkpoint, then, or after the grace period, at once.

    Args:
        view: closed before the process exits.
        grace: seconds for the last checkpoint.
        termination: receives an end without a last checkpoint.
    """

    def __init__(
        self,
        job: Coordination,
        view: View,
        grace: float,
        termination: TerminationLog | None = None,
        code: ExitCode = ExitCode.OK,
    ) -> None:
        self._job = job
        self._view = view
        self._grace = grace
        self._termination = termination or TerminationLog(None)
        self._code = code
        self._asked = False
        self._timer: threading.Timer | None = None

    def listen(self) -> None:
        """Install the handlers; call it from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def done(self) -> None:
        """Stop watching the grace period: the job has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            self._leave()
        self._asked = True
        # Not in the handler itself: the interrupted thread may hold the lock that a stop needs.
        threading.Thread(target=self._ask, args=(signal.Signals(number).name,), daemon=True).start()
        self._timer = threading.Timer(self._grace, self._leave)
        self._timer.daemon = True
        self._timer.start()

    def _ask(self, name: str) -> None:
        self._job.stop_now(TriggerId(f"signal-{os.getpid()}"))
        self._view.message(f"{name}: stopping with a last checkpoint, within {self._grace:g} s")

    def _leave(self) -> None:
        try:
            self._termination.write(JobState.STOPPED, _LEFT, self._code)
            self._view.close()
            write_line(_LEFT)
        finally:
            # The reader of our output may have left: one Ctrl-C ends a whole pipeline.
            os._exit(int(self._code))
