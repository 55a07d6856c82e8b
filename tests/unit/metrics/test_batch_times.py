"""Where the time of a chain's batches goes."""

from __future__ import annotations

import pytest

from streamjob.ids import OperatorUid
from streamjob_runtime.monitoring.batch_times import BatchWindow
from streamjob_runtime.monitoring.query_progress import BatchProgress, Phases

REPORT = OperatorUid("report")


def batch(number: int, **phases: int) -> BatchProgress:
    return BatchProgress(number, 5, 1000, phases=Phases(**phases))


def test_nothing_is_known_before_the_first_batch() -> None:
    assert BatchWindow().note([], 3.0, {REPORT: 1.0}) is None


def test_phases_are_means_over_the_batches() -> None:
    window = BatchWindow()
    window.note([batch(0, offsets_ms=100, planning_ms=200, execution_ms=600, logs_ms=50)], 0, {})

    times = window.note([batch(1, offsets_ms=300, planning_ms=200, execution_ms=400, logs_ms=150)], 0, {})

    assert times is not None
    assert (times.batches, times.seconds) == (2, 1.0)
    assert [times.offsets, times.planning, times.execution, times.logs] == pytest.approx([0.2, 0.2, 0.5, 0.1])
    assert times.state_commit is None


def test_what_sinks_and_waiting_took_since_the_last_look_belongs_to_its_batches() -> None:
    window = BatchWindow()
    window.begin(10.0, {REPORT: 100.0})
    window.note([batch(0)], 10.5, {REPORT: 100.4})

    times = window.note([batch(1)], 10.5, {REPORT: 101.0})

    assert times is not None
    assert times.sinks == pytest.approx({REPORT: 0.5})
    assert times.waiting == pytest.approx(0.25)


def test_only_about_twenty_batches_count() -> None:
    window = BatchWindow()
    for number in range(30):
        times = window.note([batch(number, execution_ms=1000 if number < 10 else 100)], 0, {})

    assert times is not None
    assert times.batches == 20
    assert times.execution == pytest.approx(0.1)


def test_the_commit_of_state_is_a_mean_of_what_all_tasks_took() -> None:
    times = BatchWindow().note([batch(0, state_commit_ms=30), batch(1, state_commit_ms=50)], 0, {})

    assert times is not None
    assert times.state_commit == pytest.approx(0.04)
