"""The figures of a job's sinks."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from streamjob.ids import CheckpointId, OperatorUid
from streamjob.sink import Staged
from streamjob_runtime.sinks.meter import LastCommit, SinkMeter, SinkMeters

SINK = OperatorUid("report")
FIVE, SIX = CheckpointId(5), CheckpointId(6)


class Timer:
    """A clock on which every look takes a second."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 1
        return self.time


@pytest.fixture
def meters() -> SinkMeters:
    return SinkMeters(clock=lambda: 1000.0, timer=Timer())


@pytest.fixture
def meter(meters: SinkMeters) -> SinkMeter:
    return meters.of(SINK)


def stage(meter: SinkMeter, committable: JsonValue, rows: int | None) -> None:
    meter.stage(lambda: Staged(committable, rows))


def nothing() -> None:
    """Do nothing, as a sink that succeeds at once."""


def refuse() -> None:
    raise OSError("the disk is full")


def test_rows_are_committed_with_the_batch_that_they_were_staged_in(meter: SinkMeter) -> None:
    stage(meter, {"files": ["a"]}, 10)
    stage(meter, {"files": ["b"]}, 20)
    meter.commit(nothing, FIVE, [{"files": ["a"]}])

    figures = meter.figures
    assert (figures.staged_rows, figures.committed_rows) == (30, 10)
    assert (figures.committed, figures.waiting) == (1, 1)
    assert figures.last == LastCommit(FIVE, 1000.0, 1.0)


def test_a_batch_without_a_committable_is_committed_as_it_is_staged(meter: SinkMeter) -> None:
    stage(meter, None, 10)

    assert (meter.figures.committed_rows, meter.figures.waiting) == (10, 0)


def test_a_commit_that_is_repeated_counts_once(meter: SinkMeter) -> None:
    stage(meter, "a", 10)
    meter.commit(nothing, FIVE, ["a"])
    meter.commit(nothing, FIVE, ["a"])

    assert (meter.figures.committed_rows, meter.figures.committed) == (10, 1)


def test_what_another_process_staged_is_not_counted_since_it_may_have_been_committed(meter: SinkMeter) -> None:
    meter.commit(nothing, FIVE, ["a"])

    assert (meter.figures.committed_rows, meter.figures.committed) == (0, 0)
    assert meter.figures.last == LastCommit(FIVE, 1000.0, 1.0)


def test_a_commit_that_fails_is_a_failure_and_what_it_was_to_commit_goes_on_waiting(meter: SinkMeter) -> None:
    stage(meter, "a", 10)

    with pytest.raises(OSError, match="the disk is full"):
        meter.commit(refuse, FIVE, ["a"])
    assert (meter.figures.failures, meter.figures.waiting, meter.figures.last) == (1, 1, None)

    meter.commit(nothing, FIVE, ["a"])
    assert (meter.figures.committed_rows, meter.figures.waiting) == (10, 0)


def test_what_was_staged_behind_the_cut_waits_no_longer_once_it_is_discarded(meter: SinkMeter) -> None:
    stage(meter, "a", 10)
    meter.abort(nothing)

    assert (meter.figures.staged_rows, meter.figures.committed_rows, meter.figures.waiting) == (10, 0, 0)


def test_rows_stay_unknown_once_a_batch_could_not_be_counted(meter: SinkMeter) -> None:
    stage(meter, "a", None)
    stage(meter, "b", 10)
    meter.commit(nothing, FIVE, ["a"])
    meter.commit(nothing, SIX, ["b"])

    assert (meter.figures.staged_rows, meter.figures.committed_rows, meter.figures.committed) == (None, None, 2)


def test_each_call_that_succeeds_is_told_with_its_seconds(meters: SinkMeters, meter: SinkMeter) -> None:
    told: list[tuple[str, str, float]] = []
    meters.on_call = lambda sink, call, seconds: told.append((sink, call, seconds))

    stage(meter, "a", 10)
    meter.commit(nothing, FIVE, ["a"])
    with pytest.raises(OSError, match="full"):
        meter.abort(refuse)

    assert told == [(SINK, "stage", 1.0), (SINK, "commit", 1.0)]


def test_a_sink_keeps_its_figures_from_epoch_to_epoch(meters: SinkMeters) -> None:
    stage(meters.of(SINK), None, 10)

    assert meters.of(SINK).figures.staged_rows == 10
    assert meters.of(OperatorUid("other")).figures.staged_rows == 0
