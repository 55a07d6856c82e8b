"""Profiles of an executor: of its Java, which the agent asks for one, and of the agent's own Python."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from streamjob_runtime.executors.agent.line_socket import LineSocket
from streamjob_runtime.executors.messages import COUNTING_SECONDS, Profiled
from streamjob_runtime.profiling.python import sample
from streamjob_runtime.profiling.stacks import written

VERBS = frozenset({"profiled", "unprofiled"})


class ExecutorProfiler:
    """Records profiles, one at a time.

    Args:
        directory: where Java writes its stacks.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / "profile"
        self._lock = threading.Lock()
        self._java: Future[str] | None = None

    def beside(self, answer: Callable[[str, str], None]) -> Callable[[str, str], None]:
        """Return a function that takes what Java says about profiles, and leaves all other questions to `answer`."""

        def both(verb: str, rest: str) -> None:
            if verb in VERBS:
                self._answer(verb, rest)
            else:
                answer(verb, rest)

        return both

    def _answer(self, verb: str, rest: str) -> None:
        java = self._java
        if java is None or java.done():
            return
        if verb == "profiled":
            java.set_result(self._file.read_text(encoding="utf-8"))
        else:
            java.set_exception(RuntimeError(rest))

    def record(self, seconds: float, java: LineSocket) -> Profiled:
        """Return the stacks of Java and of this process.

        Args:
            seconds: how long to sample.
            java: the way to Java.

        Raises:
            RuntimeError: Java cannot record a profile, or records one already.
            TimeoutError: it does not answer.
            OSError: it is not there.
        """
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("a profile is being recorded already")
        try:
            self._java = Future()
            with ThreadPoolExecutor(1, thread_name_prefix="profile") as pool:
                python = pool.submit(sample, seconds, threading.Event())
                java.tell(f"* profile {round(seconds * 1000)} {self._file}")
                stacks = self._java.result(seconds + COUNTING_SECONDS)
                return Profiled(java=stacks, python=written(python.result()))
        finally:
            self._java = None
            self._file.unlink(missing_ok=True)
            self._lock.release()
