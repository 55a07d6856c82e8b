"""Evaluations in processes of their own: which state they compare with, and that the others go on whatever one does."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.operator.edge.bench import NAME, NAMESPACE, SPEC, Bench, a_job

from streamjob_operator.cluster.kinds import STREAM_JOB
from streamjob_operator.evaluation.cache import Evaluations, NotEvaluated, Question, StillEvaluating
from streamjob_operator.evaluation.evaluator import Evaluator, _Turn


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as found:
        yield found


@pytest.fixture(scope="module")
def evaluator(runner: asyncio.Runner) -> Iterator[Evaluator]:
    found = Evaluator(quick=0.3, patient=0.6)
    yield found
    runner.run(found.aclose())


def test_a_function_is_called_in_another_process(runner: asyncio.Runner, evaluator: Evaluator) -> None:
    async def scenario() -> None:
        first = await evaluator(os.getpid)
        assert first != os.getpid()
        assert await evaluator(os.getpid) == first
        assert await evaluator(divmod, 7, 2) == (3, 1)

    runner.run(scenario())


def test_an_error_is_told_by_its_text(runner: asyncio.Runner, evaluator: Evaluator) -> None:
    async def scenario() -> None:
        with pytest.raises(NotEvaluated, match="ZeroDivisionError"):
            await evaluator(divmod, 7, 0)
        assert await evaluator(divmod, 7, 2) == (3, 1)

    runner.run(scenario())


def test_a_call_that_never_ends_is_ended_also_within_a_single_function_of_c(
    runner: asyncio.Runner, evaluator: Evaluator
) -> None:
    async def scenario() -> None:
        with pytest.raises(NotEvaluated, match="processor time"):
            await evaluator(pow, 3, 10**9)
        assert await evaluator(divmod, 7, 2) == (3, 1)

    runner.run(scenario())


def test_others_are_answered_while_one_takes_long(runner: asyncio.Runner, evaluator: Evaluator) -> None:
    async def scenario() -> None:
        async with evaluator._patient._turn.of(0):
            # It has to wait for the second process, which is busy.
            long = asyncio.create_task(evaluator(pow, 3, 10**9))
            while not evaluator._patient._turn._waiting:
                await evaluator(divmod, 7, 2)
            assert await evaluator(divmod, 7, 2) == (3, 1)
            assert not long.done()
        with pytest.raises(NotEvaluated):
            await long

    runner.run(scenario())


def test_a_call_that_waits_for_something_else_is_ended_as_well(runner: asyncio.Runner, evaluator: Evaluator) -> None:
    async def scenario() -> None:
        with pytest.raises(NotEvaluated):
            await evaluator(time.sleep, 1000)

    runner.run(scenario())


def test_a_process_that_takes_too_much_memory_or_dies_is_replaced(runner: asyncio.Runner, evaluator: Evaluator) -> None:
    async def scenario() -> None:
        with pytest.raises(NotEvaluated):
            await evaluator(bytearray, 2**30)
        with pytest.raises(NotEvaluated):
            await evaluator(os._exit, 1)
        with pytest.raises(NotEvaluated, match="SystemExit"):
            await evaluator(sys.exit, 1)
        assert await evaluator(divmod, 7, 2) == (3, 1)

    runner.run(scenario())


def test_what_a_function_prints_is_no_answer(runner: asyncio.Runner, evaluator: Evaluator) -> None:
    async def scenario() -> None:
        await evaluator(print, "ready")
        assert await evaluator(divmod, 7, 2) == (3, 1)

    runner.run(scenario())


def test_an_answer_that_nobody_waits_for_is_not_that_to_the_next_call(
    runner: asyncio.Runner, evaluator: Evaluator
) -> None:
    async def scenario() -> None:
        asked = asyncio.create_task(evaluator(time.sleep, 0.1))
        await evaluator(divmod, 1, 1)
        again = asyncio.create_task(evaluator(time.sleep, 0.2))
        await asyncio.sleep(0)
        again.cancel()
        assert await evaluator(divmod, 7, 2) == (3, 1)
        await asyncio.gather(asked, again, return_exceptions=True)

    runner.run(scenario())


def test_arguments_that_are_nested_too_deeply_are_refused(runner: asyncio.Runner, evaluator: Evaluator) -> None:
    async def scenario() -> None:
        deep: list[object] = []
        for _ in range(sys.getrecursionlimit() * 2):
            deep = [deep]
        with pytest.raises(NotEvaluated, match="it is nested"):
            await evaluator(len, deep)
        with pytest.raises(NotEvaluated, match=r"spec\.driver is nested"):
            await evaluator(len, {"spec": {"driver": deep}})

    runner.run(scenario())


@pytest.mark.parametrize(
    ("value", "reason"), [(["a" * 2**20] * 5, "characters"), ([[[0] * 1000] * 1000] * 1000, "values")]
)
def test_arguments_that_are_large_where_aliases_are_counted_are_refused(
    runner: asyncio.Runner, evaluator: Evaluator, value: Any, reason: str
) -> None:
    async def scenario() -> None:
        with pytest.raises(NotEvaluated, match=reason):
            await evaluator(len, value)

    runner.run(scenario())


def test_the_smallest_has_its_turn_first(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        turn, order = _Turn(), list[int]()

        async def take(size: int) -> None:
            async with turn.of(size):
                order.append(size)

        async with turn.of(0):
            waiting = [asyncio.create_task(take(size)) for size in (5, 9, 1, 7)]
            await asyncio.sleep(0)
            waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert order == [1, 5, 7]
        await take(3)

    runner.run(scenario())


def test_a_question_that_takes_long_is_not_waited_for_and_asked_once(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        asked, answered, woken = list[object](), asyncio.Event(), list[tuple[str, str]]()

        async def evaluate(function: Any, *arguments: object) -> Any:
            asked.append(arguments)
            await answered.wait()
            return function(*arguments)

        evaluations = Evaluations(evaluate)
        evaluations.wake = lambda namespace, name: woken.append((namespace, name))
        question = Question("a", "orders", "u", 1, divmod, (7, 2))
        for _ in range(2):
            with pytest.raises(StillEvaluating):
                await evaluations.answer(question)
        answered.set()
        while not woken:
            await asyncio.sleep(0)
        assert woken[0] == ("a", "orders")
        assert await evaluations.answer(question) == (3, 1)
        assert asked == [(7, 2)]
        assert await evaluations.answer(Question("a", "orders", "u", 2, divmod, (9, 2))) == (4, 1)

    runner.run(scenario())


def test_that_a_question_has_no_answer_is_remembered(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        asked = list[object]()

        async def evaluate(function: Any, *arguments: object) -> Any:
            asked.append(arguments)
            raise NotEvaluated("it takes too long")

        evaluations = Evaluations(evaluate)
        for _ in range(2):
            with pytest.raises(NotEvaluated):
                await evaluations.answer(Question("a", "orders", "u", 1, divmod, (7, 2)))
        assert len(asked) == 1

    runner.run(scenario())


OTHER_GRAPH = {"operators": [{"name": "numbers", "uid": "numbers"}]}
"""A source of the job is an operator there."""


async def test_a_failed_job_is_redeployed_whatever_its_last_state_is(bench: Bench) -> None:
    never = {"restartPolicy": {"type": "Never"}}

    bench.job_store.graph = OTHER_GRAPH
    await bench.cluster.create(STREAM_JOB, a_job(**never))
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")
    assert bench.driver is not None
    bench.driver.checkpoint(bench.now)
    await bench.until(lambda: bench.lifecycle == "STABLE")
    path = str(bench.job["status"]["checkpoint"]["lastCompleted"]["path"])
    bench.driver.stopped = True
    await bench.until(lambda: bench.lifecycle == "FAILED")

    changed = {**SPEC["job"], "parallelism": 3}
    elsewhere = {"job": changed, "initialSavepointPath": path, "savepointRedeployNonce": 1}
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | never | elsewhere)
    await bench.until(lambda: bench.lifecycle != "FAILED", rounds=10)
    assert bench.job["status"]["reconciliation"]["restore"]["source"].endswith("manifest.json")
