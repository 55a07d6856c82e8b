"""Runs in a process that evaluates specs: limits its memory, and calls functions for a limited time."""

from __future__ import annotations

import os
import pickle
import resource
import signal
from contextlib import suppress

_MEMORY = 384 * 1024**2


def limit() -> None:
    """Limit the memory of this process, and let it be the one that goes if memory is short."""
    # A handler in Python would wait for the end of a single call of C.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    with suppress(OSError):
        os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"1000")


def call(seconds: float, content: bytes) -> tuple[bool, bytes]:
    """Call a function, and end this process if that takes too long.

    Args:
        seconds: processor seconds that the call may take.
        content: a pickle of the function and its arguments.

    Returns:
        True and a pickle of the result, or False and the text of the error.
    """
    function, arguments = pickle.loads(content)
    # The signal ends the process also where it is busy in a single call of C.
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return True, pickle.dumps(function(*arguments))
    except BaseException as error:
        return False, f"{type(error).__name__}: {error}".encode(errors="replace")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
