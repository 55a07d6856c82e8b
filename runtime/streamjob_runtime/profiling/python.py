"""Samples the Python threads of this process.

No other process looks: in a pod none may. A sample counts with the CPU time that its thread has used since the last
one, so a thread that waits costs nothing and counts nothing.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType

from streamjob_runtime.profiling.stacks import Stacks

PERIOD_SECONDS = 0.02
_DEPTH = 200
_NUMBER = re.compile(r"[-_ ]*\d+(?: \(.*\))?$")


def sample(seconds: float, stopped: threading.Event) -> Stacks:
    """Return where this process's Python threads spend their CPU time.

    Args:
        seconds: how long to sample.
        stopped: ends it early.
    """
    own = threading.get_ident()
    spent: dict[tuple[str, ...], float] = defaultdict(float)
    before: dict[int, int] = {}
    deadline = time.monotonic() + seconds
    process = time.process_time()
    before = _look(own, {}, None)
    while time.monotonic() < deadline and not stopped.wait(PERIOD_SECONDS):
        before = _look(own, before, spent)
    rest = (time.process_time() - process) * 1000 - sum(spent.values())
    if rest >= 1.0:
        spent[("[profiler, short threads, native threads]",)] = rest
    return dict(spent)


def _look(own: int, before: dict[int, int], spent: dict[tuple[str, ...], float] | None) -> dict[int, int]:
    """Take one sample; return the CPU time of each thread in ns."""
    threads = [each for each in threading.enumerate() if each.ident != own and each.native_id is not None]
    now: dict[int, int] = {}
    busy: list[tuple[threading.Thread, int]] = []
    for thread in threads:
        assert thread.native_id is not None
        try:
            now[thread.native_id] = cpu = time.clock_gettime_ns(_clock_of(thread.native_id))
        except OSError:
            # It has ended.
            continue
        used = cpu - before.get(thread.native_id, cpu)
        if used > 0:
            busy.append((thread, used))
    if busy and spent is not None:
        frames = sys._current_frames()
        for thread, used in busy:
            frame = frames.get(thread.ident or 0)
            if frame is not None:
                spent[(_label(thread.name), *_stack(frame))] += used / 1e6
        # A frame keeps the variables of its function alive.
        del frames
    return now


def _clock_of(thread: int) -> int:
    """Return Linux's number of the CPU clock of a thread of this process; the kernel refuses that of an ended one.

    `time.pthread_getcpuclockid` gives the same, but reads freed memory if the thread has just ended.
    """
    return (~thread << 3) | 6


def _stack(frame: FrameType | None) -> list[str]:
    found: list[str] = []
    while frame is not None and len(found) < _DEPTH:
        code = frame.f_code
        module = frame.f_globals.get("__name__")
        place = module if isinstance(module, str) else Path(code.co_filename).name
        found.append(f"{place}.{code.co_qualname}".replace(";", ","))
        frame = frame.f_back
    if frame is not None:
        found.append("[deeper]")
    return found[::-1]


def _label(name: str) -> str:
    """Return the name that threads with the same work share."""
    return (_NUMBER.sub("", name) or name).replace(";", ",").replace("\n", " ")
