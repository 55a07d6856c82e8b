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
import multiprocessing
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessPool

from streamjob.errors import StreamJobError
from streamjob_operator.evaluation import process, state_fit, validation
from streamjob_operator.evaluation.cache import NotEvaluated
from streamjob_operator.evaluation.limits import excess

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_WALL = 10
"""A machine that is busy gives a process less than all of its time."""
_START = 60.0
# Processes are forked from one that has imported everything: the next is there in milliseconds instead of seconds.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([process.__name__, state_fit.__name__, validation.__name__])


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
            NotEvaluated: it raises, takes too much time or memory, or is given too much; the message says which.
            EvaluationUnavailable: no process can be started.
        """
        if (refusal := excess(arguments)) is not None:
            raise NotEvaluated(refusal)
        content = pickle.dumps((function, arguments))
        try:
            return await self._quick.call(content)  # type: ignore[no-any-return]
        except _TooMuch:
            _log.info("%s takes long, and is called again with more time", function.__name__)
        try:
            return await self._patient.call(content)  # type: ignore[no-any-return]
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
        self._pool: ProcessPool | None = None
        self._turn = _Turn()

    async def call(self, content: bytes) -> Any:
        async with self._turn.of(len(content)):
            pool = self._pool = self._pool or ProcessPool(1, initializer=process.limit, context=_PROCESSES)
            wall = self._seconds * _WALL
            try:
                async with asyncio.timeout(_START + wall):
                    # It starts the process where there is none.
                    called = await asyncio.to_thread(
                        pool.schedule, process.call, (self._seconds, content), timeout=wall
                    )
                    try:
                        succeeded, answer = await asyncio.wrap_future(called)
                    except (ProcessExpired, TimeoutError):
                        raise _TooMuch from None
            except (OSError, RuntimeError) as error:
                await self._end()
                raise EvaluationUnavailable(
                    f"no process for the evaluation of specs can be started: {error or type(error).__name__}",
                    "check the limits of the controller's pod for memory and processes",
                ) from None
        if not succeeded:
            raise NotEvaluated(answer.decode())
        return pickle.loads(answer)

    async def end(self) -> None:
        async with self._turn.of(0):
            await self._end()

    async def _end(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(_stop, pool)


def _stop(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()
