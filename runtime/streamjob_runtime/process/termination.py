"""What a process leaves behind about its end, for whoever started it and cannot read its log.

In a pod that is the termination message, which Kubernetes keeps in the pod's status.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from streamjob.errors import ExitCode, StreamJobError
from streamjob.protocol.lifecycle import JobState

if TYPE_CHECKING:
    # It takes a while to be imported, for which a start must not wait.
    from streamjob.client.models import LastCheckpointView

VARIABLE = "STREAMJOB_TERMINATION_LOG"
"""Names the file."""

LONGEST = 4096
"""Bytes that Kubernetes keeps."""

_NOT_BEGUN = "Stopped before the job ran."

log = logging.getLogger("streamjob")


class TerminationLog:
    """A file with how the job ended: `{"state", "message", "exitCode"}`, and what it completed last, if anything:
    `"lastCheckpoint": {"id", "kind", "path", "time"}`.

    Args:
        path: the file; None to leave nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> TerminationLog:
        """Return the one that STREAMJOB_TERMINATION_LOG names, if it is set."""
        path = environment.get(VARIABLE)
        return cls(Path(path) if path else None)

    def write(
        self, state: JobState, message: str | None, code: ExitCode, last: LastCheckpointView | None = None
    ) -> None:
        """Say how the job ended; if that cannot be written, the process ends as it would have."""
        if self._path is None:
            return
        try:
            self._path.write_text(termination_message(state, message or "", code, last), encoding="utf-8")
        except OSError as error:
            log.warning("How the job ended cannot be written to %s: %s", self._path, error.strerror)

    def write_error(self, error: Exception) -> None:
        """Say that the job ended with an error."""
        # Importing it takes a while, for which a start must not wait.
        from streamjob_runtime.spark.error_text import describe

        match error:
            case StreamJobError(exit_code=ExitCode.SUPERSEDED):
                self.write(JobState.SUPERSEDED, str(error), ExitCode.SUPERSEDED)
            case StreamJobError():
                self.write(JobState.FAILED, str(error), error.exit_code)
            case _:
                self.write(JobState.FAILED, describe(error), ExitCode.FAILED)


def leave_on_sigterm(termination: TerminationLog) -> None:
    """End the process at once on SIGTERM: until the job runs there is nothing to be saved. `Stopper` takes this over.

    Call it from the main thread.
    """

    def leave(_number: int, _frame: FrameType | None) -> None:
        try:
            termination.write(JobState.STOPPED, _NOT_BEGUN, ExitCode.OK)
            sys.stderr.write(f"{_NOT_BEGUN}\n")
        finally:
            # Spark may be starting; it ends with the process, and need not be waited for.
            os._exit(int(ExitCode.OK))

    signal.signal(signal.SIGTERM, leave)


def termination_message(state: JobState, message: str, code: ExitCode, last: LastCheckpointView | None = None) -> str:
    """Return the file's content; a message that is too long for Kubernetes loses its end."""
    completed = {}
    if last is not None:
        told = {"id": last.id, "kind": last.kind, "path": last.path, "time": last.completed}
        completed = {"lastCheckpoint": told}
    while True:
        said = json.dumps({"state": state, "message": message, "exitCode": int(code), **completed}, ensure_ascii=False)
        excess = len(said.encode()) - LONGEST
        if excess <= 0:
            return said
        # A character has at least one byte.
        message = message[: max(0, len(message) - max(1, excess // 4))]
