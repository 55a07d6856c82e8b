"""WorkLoops over objects: one reconcile at a time for each, woken by events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from streamjob_operator.machinery.work_queue import Pace, WorkLoops

PACE = Pace(interval=15, jitter=0.0, pause=0.0)


class Bench:
    """Reconciles as a test says, and waits only for events: delays are noted."""

    def __init__(self, reconcile: Callable[[str], Awaitable[float | None]], concurrency: int = 20) -> None:
        self.delays: list[float] = []
        self.waiting = asyncio.Event()
        self.failures: list[Exception] = []
        self.loops: WorkLoops[str] = WorkLoops(
            reconcile,
            pace=PACE,
            concurrency=concurrency,
            failed=lambda _key, error: self.failures.append(error),
            wait=self.wait,
        )

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        self.delays.append(seconds)
        self.waiting.set()
        await event.wait()

    async def rest(self) -> None:
        await self.waiting.wait()
        self.waiting.clear()


async def test_an_object_that_is_woken_is_reconciled_and_then_at_the_interval() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> float | None:
        seen.append(key)
        return None

    bench = Bench(reconcile)
    bench.loops.wake("a")
    await bench.rest()

    assert seen == ["a"]
    assert bench.delays == [15]
    await bench.loops.close()


async def test_an_object_that_asks_for_it_is_looked_at_sooner() -> None:
    async def reconcile(_key: str) -> float | None:
        return 2.5

    bench = Bench(reconcile)
    bench.loops.wake("a")
    await bench.rest()

    assert bench.delays == [2.5]
    await bench.loops.close()


async def test_an_object_is_never_reconciled_twice_at_a_time_and_no_event_is_lost() -> None:
    running, most, rounds = 0, 0, 0
    entered, leave = asyncio.Event(), asyncio.Event()

    async def reconcile(_key: str) -> float | None:
        nonlocal running, most, rounds
        running, rounds = running + 1, rounds + 1
        most = max(most, running)
        entered.set()
        await leave.wait()
        running -= 1
        return None

    bench = Bench(reconcile)
    bench.loops.wake("a")
    await entered.wait()
    for _ in range(5):
        bench.loops.wake("a")
    leave.set()
    await bench.rest()
    await bench.rest()

    assert most == 1
    assert rounds == 2
    await bench.loops.close()


async def test_different_objects_are_reconciled_side_by_side_up_to_the_limit() -> None:
    running, most = 0, 0
    full = asyncio.Event()

    async def reconcile(_key: str) -> float | None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        running -= 1
        return None

    bench = Bench(reconcile, concurrency=3)
    for number in range(10):
        bench.loops.wake(str(number))
    while len(bench.delays) < 10:
        await bench.rest()

    assert most == 3
    await bench.loops.close()


async def test_failures_are_repeated_at_growing_distances_that_a_success_ends() -> None:
    outcomes: list[Exception | None] = [RuntimeError("x")] * 9 + [None, RuntimeError("y")]

    async def reconcile(_key: str) -> float | None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return None

    bench = Bench(reconcile)
    for _ in range(11):
        bench.loops.wake("a")
        await bench.rest()

    assert bench.delays == [1, 2, 4, 8, 16, 32, 64, 120, 120, 15, 1]
    assert len(bench.failures) == 10
    await bench.loops.close()


async def test_a_failure_of_one_object_does_not_touch_another() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> float | None:
        if key == "bad":
            raise RuntimeError("x")
        seen.append(key)
        return None

    bench = Bench(reconcile)
    bench.loops.wake("bad")
    bench.loops.wake("good")
    while not seen:
        await bench.rest()

    assert seen == ["good"]
    await bench.loops.close()


async def test_an_object_that_is_gone_has_no_loop_until_it_is_back() -> None:
    done = asyncio.Event()

    async def reconcile(_key: str) -> float | None:
        done.set()
        return WorkLoops.GONE

    bench = Bench(reconcile)
    bench.loops.wake("a")
    while bench.loops.known():
        await asyncio.sleep(0)
    assert done.is_set()

    done.clear()
    bench.loops.wake("a")
    await done.wait()
    await bench.loops.close()


async def test_closing_lets_a_reconcile_come_to_its_end() -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    async def reconcile(key: str) -> float | None:
        entered.set()
        await leave.wait()
        ended.append(key)
        return None

    bench = Bench(reconcile)
    bench.loops.wake("a")
    await entered.wait()
    closing = asyncio.create_task(bench.loops.close(grace=30))
    await asyncio.sleep(0)
    leave.set()
    await closing

    assert ended == ["a"]
    assert bench.loops.known() == frozenset()


async def test_closing_does_not_wait_for_ever() -> None:
    entered = asyncio.Event()

    async def reconcile(_key: str) -> float | None:
        entered.set()
        await asyncio.Event().wait()
        return None

    bench = Bench(reconcile)
    bench.loops.wake("a")
    await entered.wait()
    await bench.loops.close(grace=0.01)

    assert bench.loops.known() == frozenset()


async def test_an_object_with_an_event_takes_precedence_over_those_that_are_only_looked_at_again() -> None:
    order: list[str] = []
    leave, time_is_up = asyncio.Event(), asyncio.Event()

    async def reconcile(key: str) -> float | None:
        order.append(key)
        if key == "slow":
            await leave.wait()
        return None

    async def wait(event: asyncio.Event, _seconds: float) -> None:
        either = {asyncio.create_task(event.wait()), asyncio.create_task(time_is_up.wait())}
        _, pending = await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()

    async def settle() -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    loops: WorkLoops[str] = WorkLoops(reconcile, pace=PACE, concurrency=1, wait=wait)
    for key in ("a", "b", "c", "d", "slow"):
        loops.wake(key)
    await settle()
    assert order == ["a", "b", "c", "d", "slow"]

    time_is_up.set()
    await settle()
    time_is_up.clear()
    for key in ("d", "d", "new"):
        loops.wake(key)
    leave.set()
    await settle()
    assert sorted(order[5:]) == ["a", "b", "c", "d", "new"]
    # One of those that are only looked at again may have its turn in between.
    assert {"d", "new"} < set(order[5:8])
    await loops.close()


async def test_those_that_are_only_looked_at_again_do_not_wait_for_ever() -> None:
    order: list[str] = []

    async def reconcile(key: str) -> float | None:
        order.append(key)
        await asyncio.sleep(0)
        # The busy ones always want another look at once.
        return 15.0 if key == "patient" else 0.0

    async def wait(event: asyncio.Event, _seconds: float) -> None:
        await asyncio.sleep(0)

    loops: WorkLoops[str] = WorkLoops(reconcile, pace=PACE, concurrency=1, wait=wait)
    for key in ("patient", "busy 1", "busy 2", "busy 3"):
        loops.wake(key)
    while order.count("patient") < 3:
        await asyncio.sleep(0)
    assert len(order) < 40
    await loops.close()
