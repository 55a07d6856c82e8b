"""Runs a job in a child process, which gets its options by a pipe, and ends when its parent does."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from streamjob.errors import ExitCode, StreamJobError
from streamjob.telemetry.logs import LogFormat, log_format, log_to, write_line
from streamjob_runtime.process.run import ProcessOptions, run_process
from streamjob_runtime.process.termination import VARIABLE, TerminationLog, leave_on_sigterm

_COMMAND = "from streamjob_runtime.process.child import main; main()"


def start(
    options: ProcessOptions, ended: Path, environment: Mapping[str, str], stdout: IO[str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that runs a job; it ends when its standard input is closed.

    Args:
        ended: the file in which it records how it ended.
        stdout: where its output goes; None for this process's.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND],
        # By a pipe, because the values of variables may be secret.
        stdin=subprocess.PIPE,
        stdout=stdout,
        env={**environment, VARIABLE: str(ended)},
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(options))
    process.stdin.flush()
    return process


def main() -> None:
    """Run the child, with the options that its parent has written to its standard input."""
    leave_on_sigterm(TerminationLog.from_environment(os.environ))
    if log_format() is LogFormat.JSON:
        log_to(logging.StreamHandler(), LogFormat.JSON)
    options: ProcessOptions = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    try:
        code = run_process(options)
    except StreamJobError as error:
        write_line(f"error: {error}", logging.ERROR)
        code = error.exit_code
    sys.exit(int(code))


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(int(ExitCode.FAILED))
