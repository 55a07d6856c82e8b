"""The profile of this process's Python."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from streamjob_runtime.profiling.python import sample


def burn(ended: threading.Event) -> None:
    """Use the processor until told to end."""
    while not ended.is_set():
        sum(range(1000))


@contextmanager
def thread(name: str, target: object) -> Iterator[None]:
    """Run a function in a thread until the block ends."""
    ended = threading.Event()
    running = threading.Thread(target=target, args=(ended,), name=name, daemon=True)  # type: ignore[arg-type]
    running.start()
    try:
        yield
    finally:
        ended.set()
        running.join()


def test_threads_that_work_are_seen_with_their_functions_and_threads_that_wait_are_not() -> None:
    with thread("worker-7", burn), thread("worker-8", burn), thread("idle", threading.Event.wait):
        stacks = sample(1.0, threading.Event())

    burning = {stack: millis for stack, millis in stacks.items() if stack[-1] == f"{__name__}.burn"}
    assert {stack[0] for stack in burning} == {"worker"}
    assert sum(burning.values()) > 0.8 * sum(stacks.values())
    assert sum(millis for stack, millis in stacks.items() if stack[0] == "idle") < 10


def test_threads_that_end_meanwhile_do_no_harm() -> None:
    def short(ended: threading.Event) -> None:
        while not ended.is_set():
            one = threading.Thread(target=sum, args=(range(1000),))
            one.start()
            one.join()

    with thread("starter", short):
        stacks = sample(0.5, threading.Event())

    assert sum(stacks.values()) > 0


def test_a_profile_can_be_ended_early() -> None:
    ended = threading.Event()
    ended.set()

    assert sum(sample(3600.0, ended).values()) < 1000
