"""Lets a job on executors take one checkpoint in a process without executors, which has all state on its own disk.

Some starts rewrite or rearrange state: for another number of partitions, or for a changed graph. The other process does
this as it does for a job without executors, takes a checkpoint as soon as all chains run, and ends. The job on
executors then starts from that checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from streamjob.errors import CannotRestore, ExitCode, StreamJobError
from streamjob.ids import Owner
from streamjob.protocol.lifecycle import JobState
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.executors.credentials import SECRET_VARIABLE
from streamjob_runtime.process import child
from streamjob_runtime.process.run import ProcessOptions

_OWN = ("STREAMJOB_PORT", "STREAMJOB_METRICS_PORT", "STREAMJOB_HOST", SECRET_VARIABLE)
"""Variables that are for the driver alone."""
_LOOK_SECONDS = 0.2
_END_SECONDS = 30.0


class NotRearranged(StreamJobError):
    """The other process failed, and may succeed next time."""


class CannotRearrange(CannotRestore):
    """The other process found that the job cannot start from the snapshot."""


class OnOneDisk:
    """Starts the other process; see the module.

    Args:
        options: the options of the job on executors.
        workdir: its work directory; the other process gets a directory below it for the time that it runs.
    """

    def __init__(self, options: ProcessOptions, workdir: Path) -> None:
        self._options = options
        self._workdir = workdir / "one-disk"

    def __call__(self, restore_from: RestoreFrom, owner: Owner, stopped: Callable[[], bool]) -> bool:
        """Take a checkpoint from a snapshot; return whether there is one.

        Args:
            stopped: whether the job has been stopped, so that the checkpoint is not needed any more.

        Raises:
            CannotRearrange: the job cannot start from the snapshot.
            NotRearranged: the process failed.
        """
        options = replace(
            self._options,
            restore_from=restore_from.snapshot,
            workdir=self._workdir,
            quiet=True,
            executors=None,
            owner=owner,
            once=True,
            available_now=False,
        )
        shutil.rmtree(self._workdir, ignore_errors=True)
        self._workdir.mkdir(mode=0o700, parents=True)
        try:
            return self._run(options, self._workdir / "ended", stopped)
        finally:
            shutil.rmtree(self._workdir, ignore_errors=True)

    def _run(self, options: ProcessOptions, ended: Path, stopped: Callable[[], bool]) -> bool:
        environment = {key: value for key, value in os.environ.items() if key not in _OWN}
        process = child.start(options, ended, environment, sys.stderr)
        assert process.stdin is not None
        with process.stdin:
            while (code := _wait(process, _LOOK_SECONDS)) is None:
                if stopped():
                    process.terminate()
                    if _wait(process, _END_SECONDS) is None:
                        process.kill()
                    return False
        succeeded(code, ended)
        return True


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def succeeded(code: int, ended: Path) -> None:
    """Check that the other process has taken a checkpoint.

    Args:
        ended: its termination log.

    Raises:
        CannotRearrange: the job cannot start from the snapshot.
        NotRearranged: the process failed.
    """
    try:
        told = json.loads(ended.read_text("utf-8"))
    except (OSError, ValueError):
        told = {}
    if code == ExitCode.OK and ("lastCheckpoint" in told or told.get("state") == JobState.FINISHED):
        return
    message = str(told.get("message") or f"the process ended with {code}")
    if code in (ExitCode.CANNOT_RESTORE, ExitCode.INVALID_INPUT):
        raise CannotRearrange(message)
    raise NotRearranged(f"The state could not be rearranged: {message}")
