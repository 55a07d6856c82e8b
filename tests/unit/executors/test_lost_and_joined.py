"""State follows the executors: a loss ends the epoch, and one that comes or goes ends it behind a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.executors.test_fleet import fleet, joined, polled

from streamjob.ids import ChainUid, Epoch
from streamjob_runtime.executors.driver.fleet import ExecutorLost
from streamjob_runtime.executors.driver.lost_and_joined import BetweenEpochs, EpochOnExecutors
from streamjob_runtime.executors.driver.segments import SegmentsOnExecutors
from streamjob_runtime.executors.driver.state import StateOnExecutors
from streamjob_runtime.executors.messages import LEAVE

CHAIN = ChainUid("counts")


class Job:
    """A job with two executors, and what its running epoch is told."""

    def __init__(self, partitions: int = 4) -> None:
        self.fleet = fleet(wanted=2)
        self.state = StateOnExecutors(self.fleet, SegmentsOnExecutors(self.fleet, "file:///snapshots/", lambda: 0.0))
        self.executors = [joined(self.fleet, name) for name in "ab"]
        self.state.begin(Epoch(1), {})
        self.failures: list[ChainUid] = []
        self.restarts: list[str] = []
        self.epoch = EpochOnExecutors(
            self.fleet, self.state, lambda chain, why: self.failures.append(chain), self.restarts.append, 3600.0
        )
        self.fleet.listen(self.epoch)
        if partitions:
            self.state.choose(CHAIN, {0: partitions})

    def told_to_leave(self, number: str, name: str) -> bool:
        commands = polled(self.fleet, number, name, registered=False).commands
        return LEAVE in [command.kind for command in commands]


@pytest.fixture
def job() -> Iterator[Job]:
    made = Job()
    yield made
    made.epoch.close()


def test_a_loss_fails_the_chains_with_state_on_the_executor(job: Job) -> None:
    job.fleet.lose(job.executors[0], "killed")

    assert job.failures == [CHAIN]


def test_an_executor_with_state_that_is_to_end_waits_for_another_epoch(job: Job) -> None:
    job.fleet.drain(job.executors[0], "process of a")

    assert job.restarts == ["state moves away from executor 1 (a)"]
    assert not job.told_to_leave(job.executors[0], "a")


def test_a_loss_fails_the_chain_whose_rows_on_the_executor_nobody_has_read(job: Job) -> None:
    third = joined(job.fleet, "c")
    stream = job.state.segments.of(ChainUid("rows"), "job:///1/rows/stream")
    stream.written({"x": third, "y": third})
    stream.drop(["x"])

    job.fleet.lose(third, "killed")

    assert job.failures == ["rows"]


def test_a_loss_of_rows_that_all_have_read_fails_nothing(job: Job) -> None:
    third = joined(job.fleet, "c")
    stream = job.state.segments.of(ChainUid("rows"), "job:///1/rows/stream")
    stream.written({"x": third})
    stream.drop(["x"])

    job.fleet.lose(third, "killed")

    assert job.failures == []


def test_rows_of_an_executor_that_was_lost_meanwhile_are_noticed(job: Job) -> None:
    third = joined(job.fleet, "c")
    stream = job.state.segments.of(ChainUid("rows"), "job:///1/rows/stream")
    job.fleet.lose(third, "killed")

    with pytest.raises(ExecutorLost, match="Executor 3 was lost with rows"):
        stream.written({"x": third})


def test_any_executor_of_chains_that_hand_rows_on_waits_for_another_epoch(job: Job) -> None:
    third = joined(job.fleet, "c")
    job.state.segments.of(ChainUid("rows"), "job:///1/rows/stream")
    job.fleet.drain(third, "process of c")

    assert job.restarts == ["state moves away from executor 3 (c)"]
    assert not job.told_to_leave(third, "c")


def test_an_executor_without_state_that_is_to_end_leaves_at_once(job: Job) -> None:
    third = joined(job.fleet, "c")
    job.fleet.drain(third, "process of c")

    assert job.restarts == []
    assert job.told_to_leave(third, "c")


def test_nothing_new_is_placed_on_an_executor_that_is_to_end(job: Job) -> None:
    job.fleet.drain(job.executors[0], "process of a")
    job.state.begin(Epoch(2), {})

    assert {each.id for each in job.state.choose(CHAIN, {0: 4})[0]} == {job.executors[1]}


def test_state_moves_to_executors_that_have_joined(job: Job) -> None:
    joined(job.fleet, "c")
    joined(job.fleet, "d")
    job.epoch.settled()

    assert job.restarts == ["state moves to executor 3 (c), executor 4 (d)"]


def test_state_stays_where_it_is_if_there_is_none_for_those_that_have_joined() -> None:
    job = Job(partitions=2)
    joined(job.fleet, "c")
    job.epoch.settled()
    job.epoch.close()

    assert job.restarts == []


def test_a_job_without_state_goes_on_when_executors_join() -> None:
    job = Job(partitions=0)
    joined(job.fleet, "c")
    job.epoch.settled()
    job.epoch.close()

    assert job.restarts == []


def test_an_executor_leaves_at_once_between_two_epochs(job: Job) -> None:
    job.fleet.listen(BetweenEpochs(job.fleet))

    job.fleet.drain(job.executors[0], "process of a")

    assert job.told_to_leave(job.executors[0], "a")
