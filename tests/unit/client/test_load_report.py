"""The load of a job: the slots of its executors, which come and go, and how much its sources have not read."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.client.load_report import load_of
from streamjob.client.models import ChainView, ExecutorsView, ExecutorView, InputView, JobState, JobView
from streamjob.ids import ChainUid, OperatorUid


def job(*partitions: int, wanted: int = 2) -> JobView:
    """Return a job whose executors have two cores each, and some state partitions."""
    fleet = tuple(
        ExecutorView(
            id=str(n), name=f"e-{n}", host="h", cores=2, state_partitions=count, state_stores=count, state_bytes=0
        )
        for n, count in enumerate(partitions)
    )
    return JobView(
        name="job",
        namespace="default",
        state=JobState.RUNNING,
        start_time=1.0,
        uptime=1.0,
        graph={"parallelism": 4},
        executors=ExecutorsView(wanted=wanted, executors=fleet),
    )


@pytest.mark.parametrize(
    ("partitions", "in_use"),
    [
        ((), 0),
        ((4, 4), 4),
        ((4, 4, 0), 4),
        ((0, 0), 4),
        ((1, 0), 4),
        ((3, 3, 2), 6),
    ],
    ids=["none", "both", "one waits for state", "without state", "too few partitions", "more than at the start"],
)
def test_executors_count_once_they_have_their_state(partitions: tuple[int, ...], in_use: int) -> None:
    load = load_of(job(*partitions), now=10.0, interval=5.0, slots=4)

    assert (load.slots, load.slots_in_use) == (4, in_use)
    assert load.is_complete is (in_use == 4)
    assert load.executor_slots == (2 if partitions else None)


def test_the_slots_of_a_job_are_those_of_its_executors_if_nobody_knows_better() -> None:
    assert load_of(job(3, 3, 2), now=10.0, interval=None).slots == 6


def test_a_job_in_one_process_has_the_slots_of_its_graph() -> None:
    load = load_of(job(wanted=0), now=10.0, interval=None)

    assert (load.slots, load.slots_in_use, load.executor_slots, load.is_complete) == (4, None, None, True)


@pytest.mark.parametrize(
    ("figures", "lag"),
    [
        ({"lag_records": 7}, 7),
        ({"bytes_unread": 1000, "record_bytes": 20.0}, 50),
        ({"bytes_unread": 1000}, None),
        ({"bytes_unread": 0}, 0),
        ({}, None),
    ],
    ids=["a topic", "files", "files before the first record", "all files are read", "any other"],
)
def test_the_unread_records_of_files_are_estimated_from_their_size(figures: dict[str, Any], lag: float | None) -> None:
    source = InputView(uid=OperatorUid("rows"), **figures)
    chain = ChainView(uid=ChainUid("rows"), operators=(), batch=-1, inputs=(source,))

    (load,) = load_of(job().model_copy(update={"chains": (chain,)}), now=10.0, interval=None).sources
    assert (load.lag, load.record_bytes) == (lag, figures.get("record_bytes"))
