"""A process that evaluates specs: it reads calls from standard input, and answers on standard output.

It forks a worker, which answers. A call that takes more processor time or memory than it may ends the worker, and the
next one is there in milliseconds: to import everything again would take seconds.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import struct
import sys
from contextlib import suppress
from enum import IntEnum
from typing import BinaryIO

HEADER = struct.Struct(">IB")
"""The length of a message's content in bytes, and the message's kind."""
_MEMORY = 384 * 1024**2


class Kind(IntEnum):
    """The kind of a message."""

    CALL = 0
    RESULT = 1
    ERROR = 2
    ENDED = 3
    """The worker has ended in the middle of a call."""
    READY = 4


def send(stream: BinaryIO, kind: Kind, content: bytes = b"") -> None:
    """Write a message."""
    stream.write(HEADER.pack(len(content), kind) + content)
    stream.flush()


def serve(calls: BinaryIO, answers: BinaryIO) -> None:
    """Answer calls, each a pickle of its processor seconds, its function and its arguments, until there are no more."""
    while header := calls.read(HEADER.size):
        seconds, function, arguments = pickle.loads(calls.read(HEADER.unpack(header)[0]))
        # The signal ends the process also where it is busy in a single call of C.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            kind, answer = Kind.RESULT, pickle.dumps(function(*arguments))
        except Exception as error:
            kind, answer = Kind.ERROR, f"{type(error).__name__}: {error}".encode(errors="replace")
        signal.setitimer(signal.ITIMER_PROF, 0)
        send(answers, kind, answer)


def supervise(calls: BinaryIO, answers: BinaryIO) -> None:
    """Have calls answered by one worker after the other, until there are no more."""
    send(answers, Kind.READY)
    while True:
        worker = os.fork()
        if worker == 0:
            _limit()
            serve(calls, answers)
            os._exit(0)
        _, status = os.waitpid(worker, 0)
        if status == 0:
            return
        send(answers, Kind.ENDED)


def _limit() -> None:
    """Let this process be the one that goes if memory is short."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    with suppress(OSError):
        os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"1000")


def main() -> None:
    """Serve the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Output of libraries must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Workers have it at hand.

    import streamjob_operator.evaluation.state_fit
    import streamjob_operator.evaluation.validation  # noqa: F401

    supervise(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
