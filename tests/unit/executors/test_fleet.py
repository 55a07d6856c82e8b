"""The driver takes executors, loses them, and gives commands to their agents."""

from __future__ import annotations

import asyncio

import pytest

from streamjob_runtime.executors.driver.fleet import (
    CommandFailed,
    Executor,
    ExecutorLost,
    Fleet,
    FleetListener,
    Lost,
    NoExecutors,
    NotReady,
    RefusedByDriver,
    UnknownExecutor,
)
from streamjob_runtime.executors.messages import LEAVE, Commands, Registration, Welcome

BUILD = {"PySpark": "4.3.0"}
OFFER = Registration(address="10.0.0.1", cores=2, build=BUILD)
INVITATION = Welcome(executor="", driver_url="spark://driver", application="app", java_options=(), store="file:///s/")


def fleet(wanted: int = 1) -> Fleet:
    made = Fleet(wanted, BUILD, lambda: 0.0)
    made.open(INVITATION)
    return made


def joined(executors: Fleet, name: str = "a") -> str:
    """Let an executor register, and its Java with Spark; return its number."""
    number = executors.register(name, f"process of {name}", OFFER).executor
    executors.registered_in_spark(number, "10.0.0.1")
    return number


def polled(executors: Fleet, number: str, name: str = "a", *, registered: bool = True) -> Commands:
    return asyncio.run(executors.poll(number, f"process of {name}", registered=registered))


def test_an_executor_is_live_once_spark_has_it() -> None:
    executors = fleet()
    number = executors.register("a", "process", OFFER).executor
    assert executors.live() == ()

    executors.registered_in_spark(number, "10.0.0.1")

    assert [(each.id, each.name, each.cores) for each in executors.live()] == [(number, "a", 2)]


def test_an_executor_of_another_build_is_refused_with_what_differs() -> None:
    offer = OFFER.model_copy(update={"build": {"PySpark": "4.2.0"}})

    with pytest.raises(RefusedByDriver, match=r"PySpark is 4\.2\.0 and not 4\.3\.0"):
        fleet().register("a", "process", offer)


def test_an_executor_has_to_wait_for_spark() -> None:
    with pytest.raises(NotReady):
        Fleet(1, BUILD, lambda: 0.0).register("a", "process", OFFER)


def test_a_number_never_comes_back() -> None:
    executors = fleet()
    first = joined(executors)
    executors.lose(first, "killed")

    assert joined(executors) != first


class Heard(FleetListener):
    """The events that a listener has heard."""

    def __init__(self) -> None:
        self.joins: list[str] = []
        self.leaves: list[str] = []
        self.losses: list[str] = []

    def joined(self, executor: Executor) -> None:
        self.joins.append(executor.id)

    def leaving(self, executor: Executor) -> None:
        self.leaves.append(executor.id)

    def lost(self, lost: Lost) -> None:
        self.losses.append(lost.id)


def heard(executors: Fleet) -> Heard:
    listener = Heard()
    executors.listen(listener)
    return listener


def test_an_agent_that_registers_again_replaces_its_former_executor() -> None:
    executors = fleet()
    told = heard(executors)
    former = joined(executors)

    now = joined(executors)

    assert told.losses == [former]
    assert told.joins == [former, now]
    assert [each.id for each in executors.live()] == [now]


def test_an_executor_that_was_never_live_is_not_missed() -> None:
    executors = fleet()
    told = heard(executors)

    executors.lose(executors.register("a", "process", OFFER).executor, "its Java ended")

    assert told.losses == []


def test_waiting_ends_with_the_executors_that_came() -> None:
    executors = fleet(wanted=2)
    joined(executors)

    assert len(executors.wait(0.0)) == 1


def test_waiting_without_any_executor_is_an_error() -> None:
    with pytest.raises(NoExecutors, match="asks for 2"):
        fleet(wanted=2).wait(0.0)


def test_waiting_ends_when_the_job_is_stopped() -> None:
    assert fleet(wanted=2).wait(3600.0, lambda: True) == ()


def test_an_executor_that_is_to_end_leaves_once_it_is_released() -> None:
    executors = fleet(wanted=2)
    told = heard(executors)
    leaving, staying = joined(executors, "a"), joined(executors, "b")

    executors.drain(leaving, "process of a")
    executors.drain(leaving, "process of a")
    assert told.leaves == [leaving]
    assert [each.leaving for each in executors.live()] == [True, False]
    assert polled(executors, leaving, registered=False).commands == ()

    executors.release_all()
    executors.release(leaving)
    assert [command.kind for command in polled(executors, leaving).commands] == [LEAVE]
    executors.lose(leaving, "it was told to end")
    assert (executors.lost(), told.losses) == (0, [leaving])
    assert [each.id for each in executors.wait(3600.0)] == [staying]


def test_an_executor_that_is_to_end_before_spark_has_it_leaves_at_once() -> None:
    executors = fleet()
    number = executors.register("a", "process of a", OFFER).executor

    executors.drain(number, "process of a")

    assert [command.kind for command in polled(executors, number).commands] == [LEAVE]


def test_a_successor_of_one_that_has_left_is_waited_for_again() -> None:
    executors = fleet(wanted=2)
    first = joined(executors, "a")
    joined(executors, "b")
    executors.drain(first, "process of a")
    joined(executors, "c")
    executors.lose(first, "it was told to end")
    executors.lose("2", "killed")

    assert len(executors.wait(0.0)) == 1
    assert executors._expected == 2


def test_a_command_reaches_the_agent_and_its_result_comes_back() -> None:
    executors = fleet()
    number = joined(executors)
    answer = executors.tell(number, "hold", {"checkpoint": 3})

    (command,) = polled(executors, number).commands
    executors.done(number, "process of a", command.id, None, {"files": 1})

    assert (command.kind, command.body) == ("hold", {"checkpoint": 3})
    assert answer.result(0) == {"files": 1}


def test_a_command_is_given_once() -> None:
    executors = fleet()
    number = joined(executors)
    executors.tell(number, "hold", {})
    assert len(polled(executors, number).commands) == 1

    # Returns at once, because it has news.
    assert polled(executors, number, registered=False) == Commands(commands=(), registered=True)


def test_a_failed_command_says_why() -> None:
    executors = fleet()
    number = joined(executors)
    answer = executors.tell(number, "hold", {})

    (command,) = polled(executors, number).commands
    executors.done(number, "process of a", command.id, "the disk is full", {})

    with pytest.raises(CommandFailed, match="the disk is full"):
        answer.result(0)


def test_the_loss_of_an_executor_ends_its_commands() -> None:
    executors = fleet()
    number = joined(executors)
    answer = executors.tell(number, "hold", {})

    executors.lose(number, "killed by signal 9")

    with pytest.raises(ExecutorLost, match="killed by signal 9"):
        answer.result(0)
    with pytest.raises(ExecutorLost):
        executors.ask(number, "hold", {}, 0.0)


def test_a_lost_executor_is_told_so() -> None:
    executors = fleet()
    number = joined(executors)
    executors.lose(number, "silent")

    with pytest.raises(UnknownExecutor):
        polled(executors, number)


def test_another_process_cannot_speak_for_an_executor() -> None:
    executors = fleet()
    number = joined(executors)

    with pytest.raises(UnknownExecutor):
        asyncio.run(executors.poll(number, "another process", registered=True))


def test_the_end_of_the_job_lets_all_executors_go_and_takes_no_more() -> None:
    executors = fleet()
    joined(executors)

    executors.close()

    assert executors.live() == ()
    with pytest.raises(NotReady, match="ended"):
        executors.register("b", "process", OFFER)
