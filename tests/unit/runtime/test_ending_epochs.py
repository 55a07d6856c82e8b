"""An epoch has ended when neither a thread nor a query of it runs; otherwise the process may not go on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.errors import ExitCode
from streamjob_runtime.chain.ending.end_of_chains import EpochNotEnded, check_ended, end_chains


class FakeQuery:
    """A query that is stopped by as many calls as `calls` says."""

    def __init__(self, name: str, calls: int) -> None:
        self.id = self.name = name
        self.calls = calls

    def stop(self) -> None:
        self.calls -= 1
        if self.calls > 0:
            raise OSError("Too many open files")


class FakeSpark:
    def __init__(self, *queries: FakeQuery) -> None:
        self.queries = queries
        self.streams = self

    @property
    def active(self) -> list[FakeQuery]:
        return [each for each in self.queries if each.calls > 0]


class FakeChain:
    def __init__(self, query: FakeQuery, *, stuck: bool = False) -> None:
        self.uid = query.name
        self._query = query
        self._stuck = stuck

    def stop(self, timeout: float) -> bool:
        self._query.stop()
        return True

    def has_left(self) -> bool:
        return not self._stuck


class PassingClock:
    """Time passes while it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def ended(spark: Any, *chains: FakeChain, timeout: float = 3.0, is_dead: bool = False) -> tuple[str, ...]:
    return end_chains(spark, cast("Any", chains), timeout, lambda: is_dead, PassingClock())


def test_a_query_that_is_active_behind_a_failed_stop_is_stopped_again() -> None:
    query = FakeQuery("clean", calls=2)

    assert ended(FakeSpark(query), FakeChain(query)) == ()
    assert query.calls == 0


def test_a_query_of_another_name_is_left_alone() -> None:
    query, other = FakeQuery("clean", calls=1), FakeQuery("other", calls=1)

    assert ended(FakeSpark(query, other), FakeChain(query)) == ()
    assert other.calls == 1


def test_what_cannot_be_ended_is_named() -> None:
    query = FakeQuery("clean", calls=1_000)

    assert ended(FakeSpark(query), FakeChain(query, stuck=True)) == (
        "the thread of chain 'clean' is running",
        "the query of chain 'clean' is active",
    )


class SilentSpark:
    def __init__(self) -> None:
        self.asked = 0

    @property
    def streams(self) -> SimpleNamespace:
        self.asked += 1
        raise OSError("Connection refused")


def test_a_spark_that_does_not_answer_is_not_taken_for_one_without_queries() -> None:
    (left,) = ended(SilentSpark(), FakeChain(FakeQuery("clean", calls=1)))

    assert "Connection refused" in left


def test_a_spark_whose_process_has_ended_is_not_asked_again() -> None:
    spark = SilentSpark()

    assert ended(spark, FakeChain(FakeQuery("clean", calls=1)), is_dead=True) == ()
    assert spark.asked == 1


def test_a_process_whose_epoch_has_not_ended_fails_with_an_exit_code_for_its_supervisor() -> None:
    check_ended(())
    with pytest.raises(EpochNotEnded, match="could not be ended for a restart: the query of chain 'clean'") as raised:
        check_ended(["the query of chain 'clean' is active"])

    assert raised.value.exit_code is ExitCode.FAILED
