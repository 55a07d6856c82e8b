"""Lets a job on executors take one checkpoint in a process without executors, which has all state on its own disk.

Some starts rewrite or rearrange state: for another number of partitions, or for a changed graph. The other process does
this as it does for a job without executors, takes a checkpoint as soon as all chains run, and ends. The job on
executors then starts from that checkpoint.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from streamjob.errors import CannotRestore, ExitCode, StreamJobError
from streamjob.ids import Owner
from streamjob.protocol.lifecycle import JobState
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.executors.credentials import SECRET_VARIABLE
from streamjob_runtime.process.run import ProcessOptions, run_process
from streamjob_runtime.process.termination import VARIABLE, TerminationLog, leave_on_sigterm

_COMMAND = "from streamjob_runtime.process.on_one_disk import main; main()"
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
            restore_from: the snapshot.
            owner: the process in the log.
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
        )
        shutil.rmtree(self._workdir, ignore_errors=True)
        self._workdir.mkdir(mode=0o700, parents=True)
        try:
            return self._run(options, self._workdir / "ended", stopped)
        finally:
            shutil.rmtree(self._workdir, ignore_errors=True)

    def _run(self, options: ProcessOptions, ended: Path, stopped: Callable[[], bool]) -> bool:
        environment = {key: value for key, value in os.environ.items() if key not in _OWN}
        process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND],
            # By a pipe, because the values of variables may be secret; the process ends when the pipe does.
            stdin=subprocess.PIPE,
            stdout=sys.stderr,
            env={**environment, VARIABLE: str(ended)},
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin as pipe:
            pipe.write(pickle.dumps(options))
            pipe.flush()
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
        code: its exit code.
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


def main() -> None:
    """Run the other process, with the options that its starter has written to its standard input."""
    leave_on_sigterm(TerminationLog.from_environment(os.environ))
    options: ProcessOptions = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    try:
        code = run_process(options)
    except StreamJobError as error:
        code = error.exit_code
    sys.exit(int(code))


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(int(ExitCode.FAILED))
