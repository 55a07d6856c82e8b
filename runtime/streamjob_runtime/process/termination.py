"""Records how a process ended, for a supervisor that cannot read its log.

In a pod this is the termination message, which Kubernetes keeps in the pod's status.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from streamjob.errors import ExitCode, StreamJobError
from streamjob.protocol.lifecycle import JobState
from streamjob.telemetry.logs import write_line

if TYPE_CHECKING:
    # Its import is slow, and a start must not wait for it.
    from streamjob.client.models import LastCheckpointView

VARIABLE = "STREAMJOB_TERMINATION_LOG"
"""The variable with the file's path."""

LONGEST = 4096
"""Maximum size in bytes that Kubernetes keeps."""

_NOT_BEGUN = "Stopped before the job ran."

log = logging.getLogger("streamjob")


class TerminationLog:
    """A file that records how the job ended.

    Its content is `{"state", "message", "exitCode"}`; if an error of our own ended the job, its class as `"error"`; and
    if a snapshot was completed, `"lastCheckpoint": {"id", "kind", "path", "time"}`.

    Args:
        path: the file; None to write nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> TerminationLog:
        """Return the log for the file in STREAMJOB_TERMINATION_LOG, if it is set."""
        path = environment.get(VARIABLE)
        return cls(Path(path) if path else None)

    def write(
        self,
        state: JobState,
        message: str | None,
        code: ExitCode,
        last: LastCheckpointView | None = None,
        error: str | None = None,
    ) -> None:
        """Record how the job ended. If this fails, the process ends as it would have anyway."""
        if self._path is None:
            return
        try:
            self._path.write_text(termination_message(state, message or "", code, last, error), encoding="utf-8")
        except OSError as error:
            log.warning("How the job ended cannot be written to %s: %s", self._path, error.strerror)

    def write_check(self, refusals: Sequence[StreamJobError], told: str) -> None:
        """Record the result of a check that ran no job: why it could not start, if there is anything.

        Args:
            told: what a start would do that its user should know.
        """
        if refusals:
            self.write(JobState.FAILED, "\n".join(str(each) for each in refusals), refusals[0].exit_code)
        else:
            self.write(JobState.FINISHED, told, ExitCode.OK)

    def write_error(self, error: Exception) -> None:
        """Record that the job ended with an error."""
        # Its import is slow, and a start must not wait for it.
        from streamjob_runtime.spark.text.error_text import describe

        match error:
            case StreamJobError(exit_code=ExitCode.SUPERSEDED):
                self.write(JobState.SUPERSEDED, str(error), ExitCode.SUPERSEDED)
            case StreamJobError():
                self.write(JobState.FAILED, str(error), error.exit_code, error=type(error).__name__)
            case _:
                self.write(JobState.FAILED, describe(error), ExitCode.FAILED)


def leave_on_sigterm(termination: TerminationLog, code: ExitCode = ExitCode.OK) -> None:
    """End the process at once on SIGTERM, as long as there is nothing to save. `Stopper` replaces this handler later.

    Call it from the main thread.
    """

    def leave(_number: int, _frame: FrameType | None) -> None:
        try:
            termination.write(JobState.STOPPED, _NOT_BEGUN, code)
            write_line(_NOT_BEGUN)
        finally:
            # Spark may be starting; it ends with the process, so there is no need to wait.
            os._exit(int(code))

    signal.signal(signal.SIGTERM, leave)


def termination_message(
    state: JobState,
    message: str,
    code: ExitCode,
    last: LastCheckpointView | None = None,
    error: str | None = None,
) -> str:
    """Return the file's content; a message that is too long for Kubernetes is cut."""
    more: dict[str, object] = {} if error is None else {"error": error}
    if last is not None:
        told = {"id": last.id, "kind": last.kind, "path": last.path, "time": last.completed}
        more["lastCheckpoint"] = told
    while True:
        said = json.dumps({"state": state, "message": message, "exitCode": int(code), **more}, ensure_ascii=False)
        excess = len(said.encode()) - LONGEST
        if excess <= 0:
            return said
        # A character has at least one byte.
        message = message[: max(0, len(message) - max(1, excess // 4))]
