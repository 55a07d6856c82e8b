"""The lock that the process holds that runs a job in a work directory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_FILE = "running.lock"
_ENDED = b"ended\n"


class RunningLock:
    """The system releases it when its holder dies. The holder marks the lock before it ends the job for good.

    It only says when a process that stands by begins. Whoever takes it too early, or runs without it, is still fenced
    by the claim in the log.
    """

    def __init__(self, workdir: Path) -> None:
        workdir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(workdir / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self) -> bool:
        """Take the lock if it is free; return whether this process has it. The note of its last holder stays."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def has_ended(self) -> bool:
        """Return whether the last process that ran the job came to an end that no other process should continue."""
        return os.pread(self._file, len(_ENDED), 0) == _ENDED

    def begin(self) -> None:
        """Remove the note: the job runs."""
        os.ftruncate(self._file, 0)

    def end(self) -> None:
        """Leave the note, and release the lock."""
        os.pwrite(self._file, _ENDED, 0)
        self.release()

    def release(self) -> None:
        """Release the lock, as the system would at the end of the process."""
        os.close(self._file)
