"""Creates a private directory for the Unix sockets between Spark and its Python processes.

Any user of the machine can reach a port on loopback, and the server through which `transformWithState` accesses its
state has no login.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

LONGEST_DIRECTORY = 60
"""In characters. The path of a Unix socket has at most 103, and Spark's socket names have 42."""

_NAME = "sockets"


def socket_directory(workdir: Path) -> Path:
    """Return an empty directory for Spark's sockets that only this user can enter.

    It is in the work directory. If that path is too long for sockets, it is a temporary directory of the machine, which
    this process removes when it exits. The work directory then has a link to it, for the case that it is killed.

    Args:
        workdir: the job's work directory, which no other process uses.
    """
    inside = workdir.absolute() / _NAME
    remove_sockets(workdir)
    if len(str(inside)) <= LONGEST_DIRECTORY:
        inside.mkdir(mode=0o700, parents=True, exist_ok=True)
        inside.chmod(0o700)
        return inside
    beside = Path(tempfile.mkdtemp(prefix="streamjob-", dir=None if len(tempfile.gettempdir()) < 40 else "/tmp"))
    atexit.register(shutil.rmtree, beside, ignore_errors=True)
    inside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    inside.symlink_to(beside)
    return beside


def sockets_of(workdir: Path) -> Path:
    """Return the directory that `socket_directory` returned for a work directory."""
    return (workdir.absolute() / _NAME).resolve()


def remove_sockets(workdir: Path) -> None:
    """Remove the sockets, and other temporary files, that a killed process has left.

    Args:
        workdir: its work directory.
    """
    inside = workdir.absolute() / _NAME
    if inside.is_symlink():
        shutil.rmtree(inside.readlink(), ignore_errors=True)
        inside.unlink()
    shutil.rmtree(inside, ignore_errors=True)
