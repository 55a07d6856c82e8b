"""An hour of a job's figures."""

from __future__ import annotations

import pytest
from tests.unit.view.samples import CHAIN, NOW, a_job, several_chains, with_partitions

from streamjob.client.models import JobView
from streamjob.client.page_models import ChainPoint, HistoryPoint
from streamjob_runtime.control.history import History, point_of


def behind(seconds: float | None) -> JobView:
    (chain,) = a_job().chains
    source, *others = chain.inputs
    inputs = (source.model_copy(update={"lag_seconds": seconds}), *others)
    return a_job(chains=(chain.model_copy(update={"inputs": inputs}),))


def test_a_point_has_the_figures_of_the_job_and_its_chains() -> None:
    assert point_of(a_job(), NOW) == HistoryPoint(
        at=NOW,
        rows_per_second=45_210.4,
        batch_seconds=1.3,
        checkpoint_age_seconds=3,
        chains={CHAIN: ChainPoint(busy=0, backpressured=0, rows_per_second=45_210.4, batch_seconds=1.3)},
    )
    assert point_of(with_partitions([5, 7]), NOW).lag_records == 12


def test_points_are_given_back_as_they_were_noted() -> None:
    history = History([chain.uid for chain in several_chains().chains])
    history.note(several_chains(), NOW)

    assert history.since().points == (point_of(several_chains(), NOW),)


def test_a_chain_that_does_not_run_has_no_figures() -> None:
    history = History([CHAIN])
    history.note(a_job(chains=()), NOW)

    assert history.since().points[0].chains == {CHAIN: ChainPoint()}


def test_a_point_is_kept_every_five_seconds() -> None:
    history = History([CHAIN])
    for second in range(12):
        history.note(a_job(), NOW + second)

    assert [point.at - NOW for point in history.since().points] == [0, 5, 10]
    assert [point.at - NOW for point in history.since(NOW + 5).points] == [10]


def test_the_memory_is_an_hour() -> None:
    history = History([CHAIN])
    for number in range(1000):
        history.note(a_job(), NOW + 5 * number)

    points = history.since().points
    assert (len(points), points[-1].at - points[0].at) == (720, 3595)


@pytest.mark.parametrize(
    ("lags", "change"),
    [
        ([], None),
        ([10.0], None),
        ([10.0, None], None),
        ([None, 10.0, 70.0], 2.0),
        ([100.0, 40.0], -2.0),
        ([500.0, 500.0, 500.0, 500.0, 500.0, 440.0], -0.5),
        ([900.0, 500.0, 500.0, 500.0, 500.0, 500.0], 0.0),
    ],
)
def test_the_change_of_the_lag_is_that_of_the_last_two_minutes(lags: list[float | None], change: float | None) -> None:
    history = History([CHAIN])
    for number, lag in enumerate(lags):
        history.note(behind(lag), NOW + 30 * number)

    assert history.lag_change() == change


def test_the_lag_of_event_time_has_a_change_too() -> None:
    history = History([CHAIN])
    for number, lag in enumerate([900, 100, 160]):
        history.note(behind_in_event_time(lag), NOW + 70 * number)

    assert history.event_lag_change() == pytest.approx(60 / 70)
    assert history.lag_change() is None


def behind_in_event_time(seconds: float) -> JobView:
    (chain,) = a_job().chains
    source = chain.inputs[0].model_copy(update={"lag_ms": seconds * 1000, "idle_seconds": 1.0})
    return a_job(chains=(chain.model_copy(update={"inputs": (source,)}),))
