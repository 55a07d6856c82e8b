"""Evaluates specs in separate processes with a deadline, so that no spec blocks the event loop.

A thread would not do: it cannot be ended, and holds the interpreter's lock. Most specs take milliseconds, one after the
other in one process. One that takes longer is given up there, and begins again in a second process, where it is waited
for only by others of its kind.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import os
import pickle
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from streamjob.errors import StreamJobError
from streamjob_operator.evaluation.process import HEADER, Kind

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_WALL = 10
"""A machine that is busy gives a process less than all of its time."""
_START = 60.0


class Evaluate(Protocol):
    """Calls a function and returns its result. Raises NotEvaluated and EvaluationUnavailable."""

    async def __call__(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call it."""
        ...


class NotEvaluated(StreamJobError):
    """A spec takes more time or memory than it may, or its evaluation has failed."""


class EvaluationUnavailable(StreamJobError):
    """No process could be started for an evaluation."""


class _TooMuch(Exception):
    """The process has ended, or was ended, in the middle of a call."""


class Evaluator:
    """Calls functions in processes of its own. Functions, arguments and results are those that pickle takes.

    Args:
        quick: processor seconds after which a call is given up in the first process.
        patient: processor seconds that it may take in the second one.
    """

    def __init__(self, *, quick: float = 1.0, patient: float = 4.0) -> None:
        self._patience = patient
        self._quick, self._patient = _Lane(quick), _Lane(patient)

    async def __call__(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call a function, and return its result.

        Raises:
            NotEvaluated: it raises, or takes too much time or memory; the message says which.
            EvaluationUnavailable: no process can be started.
        """
        try:
            return await self._quick.call(function, arguments)  # type: ignore[no-any-return]
        except _TooMuch:
            _log.info("%s takes long, and is called again with more time", function.__name__)
        try:
            return await self._patient.call(function, arguments)  # type: ignore[no-any-return]
        except _TooMuch:
            raise NotEvaluated(
                f"it takes more than {self._patience:g} s of processor time, or more memory than there is",
                "make it smaller, or give the job as mainApplicationFile",
            ) from None

    async def aclose(self) -> None:
        """End the processes."""
        await self._quick.end()
        await self._patient.end()


class _Turn:
    """Admits one call at a time, the smallest first: it ends soonest, and most honest specs are small."""

    def __init__(self) -> None:
        self._taken = False
        self._number = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        if self._taken:
            place = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (size, next(self._number), place))
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._pass_on()
                raise
        self._taken = True
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            _, _, place = heapq.heappop(self._waiting)
            if not place.done():
                place.set_result(None)
                return
        self._taken = False


class _Lane:
    """One process, which is replaced where it ends; calls go one after the other."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: Process | None = None
        self._turn = _Turn()

    async def call(self, function: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
        try:
            content = pickle.dumps((self._seconds, function, arguments))
        except RecursionError:
            raise NotEvaluated("it is nested too deeply") from None
        async with self._turn.of(len(content)):
            process = self._process or await self._start()
            try:
                assert process.stdin is not None
                process.stdin.write(HEADER.pack(len(content), Kind.CALL) + content)
                kind, answer = await asyncio.wait_for(_answer(process), self._seconds * _WALL)
            except (OSError, EOFError, TimeoutError):
                await self._end()
                raise _TooMuch from None
            except BaseException:
                # The caller no longer waits, and the next call must not receive this answer.
                await asyncio.shield(self._end())
                raise
        if kind is Kind.ENDED:
            raise _TooMuch
        if kind is Kind.ERROR:
            raise NotEvaluated(answer.decode())
        return pickle.loads(answer)

    async def end(self) -> None:
        async with self._turn.of(0):
            await self._end()

    async def _start(self) -> Process:
        command = (sys.executable, "-m", "streamjob_operator.evaluation.process")
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
            await asyncio.wait_for(_answer(self._process), _START)
        except (OSError, EOFError, TimeoutError) as error:
            await self._end()
            raise EvaluationUnavailable(
                f"no process for the evaluation of specs can be started: {error or type(error).__name__}",
                "check the limits of the controller's pod for memory and processes",
            ) from None
        except BaseException:
            await asyncio.shield(self._end())
            raise
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                # The worker is in the same process group.
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _answer(process: Process) -> tuple[Kind, bytes]:
    assert process.stdout is not None
    size, kind = HEADER.unpack(await process.stdout.readexactly(HEADER.size))
    return Kind(kind), await process.stdout.readexactly(size)
