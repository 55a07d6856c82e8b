"""The results of evaluating specs: each version of a question is asked once, and no reconcile waits for it.

The number of simultaneous reconciliations is limited. If they waited for specs that take long, twenty such specs would
delay all jobs.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from streamjob.errors import StreamJobError

_Result = TypeVar("_Result")
_SOON = 0.25


class Evaluate(Protocol):
    """Calls a function and returns its result. Raises NotEvaluated and EvaluationUnavailable."""

    async def __call__(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call it."""
        ...


class NotEvaluated(StreamJobError):
    """A spec takes more time or memory than it may, or its evaluation has failed."""


class StillEvaluating(StreamJobError):
    """A spec is being evaluated; its resource is woken when that is done."""


@dataclass(frozen=True, slots=True)
class Question(Generic[_Result]):
    """A question about a StreamJob.

    Args:
        version: the version of the input besides the function; answers for other versions are forgotten.
        function: returns the answer; a function of a module.
    """

    namespace: str
    name: str
    uid: str
    version: object
    function: Callable[..., _Result]
    arguments: tuple[object, ...]


class Evaluations:
    """Asks, and remembers the newest answers."""

    def __init__(self, evaluate: Evaluate, most: int = 10_000) -> None:
        self._evaluate = evaluate
        self._most = most
        self._known: OrderedDict[tuple[str, str], tuple[object, Any]] = OrderedDict()
        self._under_way: dict[tuple[str, str, object], asyncio.Task[Any]] = {}
        self.wake: Callable[[str, str], None] = lambda _namespace, _name: None
        """Reconciles a StreamJob, by namespace and name, when an answer arrives that no reconciliation waits for."""

    async def answer(self, question: Question[_Result]) -> _Result:
        """Return the answer to a question.

        Raises:
            StillEvaluating: it takes longer than a moment.
            NotEvaluated: there is none; the message says why.
            EvaluationUnavailable: no process can be started for it.
        """
        about = question.uid, question.function.__name__
        version, known = self._known.get(about, (None, None))
        if version is None or version != question.version:
            known = await self._ask(about, question)
        if isinstance(known, NotEvaluated):
            raise known
        found: _Result = known
        return found

    async def _ask(self, about: tuple[str, str], question: Question[Any]) -> Any:
        key = (*about, question.version)
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._asked(about, question), name=f"evaluate {question.name}")
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        done, _ = await asyncio.wait({task}, timeout=_SOON)
        if not done:
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            task.add_done_callback(lambda _: self.wake(question.namespace, question.name))
            raise StillEvaluating(f"{question.namespace}/{question.name}: its spec is being evaluated")
        return task.result()

    async def _asked(self, about: tuple[str, str], question: Question[Any]) -> Any:
        try:
            found = await self._evaluate(question.function, *question.arguments)
        except NotEvaluated as error:
            found = error
        self._known.pop(about, None)
        self._known[about] = question.version, found
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return found
