"""What happened between two looks at a job."""

from __future__ import annotations

from tests.unit.view.samples import a_job, checkpoints

from streamjob.client.models import JobState
from streamjob.ids import Epoch
from streamjob_runtime.view.events import Look, Weight, events


def _texts(before: Look | None, now: Look) -> list[str]:
    return [event.text for event in events(before, now)]


def test_nothing_happened_between_two_equal_looks() -> None:
    look = Look(a_job(), checkpoints("completed", "failed"))

    assert events(look, look) == []


def test_a_running_job_says_what_it_was_restored_from() -> None:
    before = Look(a_job(state=JobState.RESTORING, epoch=None), checkpoints())

    assert _texts(before, Look(a_job(), checkpoints())) == ["flights is RUNNING, restored from checkpoint 12"]


def test_a_fresh_job_was_not_restored() -> None:
    before = Look(a_job(state=JobState.RESTORING), checkpoints())

    assert _texts(before, Look(a_job(restored_from=None), checkpoints())) == ["flights is RUNNING"]


def test_a_job_that_goes_on_after_a_refused_savepoint_was_not_restored_again() -> None:
    before = Look(a_job(state=JobState.STOPPING), checkpoints())

    assert _texts(before, Look(a_job(), checkpoints())) == ["flights is RUNNING"]


def test_a_failure_is_told_in_one_line() -> None:
    now = Look(a_job(state=JobState.RESTARTING, failure="disk full\nTraceback …", epoch=Epoch(4)), checkpoints())

    (event,) = events(Look(a_job(), checkpoints()), now)

    assert (event.text, event.weight) == ("flights is RESTARTING: disk full", Weight.BAD)


def test_the_end_sums_up() -> None:
    now = Look(a_job(state=JobState.FINISHED), checkpoints())

    assert _texts(Look(a_job(), checkpoints()), now) == [
        "flights is FINISHED after 2m 14s: 1,234,567 records in, 23,456 out"
    ]


def test_checkpoints_are_told_once_when_they_end_oldest_first() -> None:
    before = Look(a_job(), checkpoints("completed", "running"))
    now = Look(a_job(), checkpoints("completed", "failed", "savepoint", "running"))

    assert _texts(before, now) == [
        "checkpoint 13 failed: a chain could not write its files to the store: 503 Slow Down",
        "savepoint 14 completed in 1.3 s, 3.6 MB written of 14 MB",
    ]
    assert [event.weight for event in events(before, now)] == [Weight.BAD, Weight.NOTABLE]


def test_an_input_that_ends_is_told() -> None:
    chain = a_job().chains[0]
    running = chain.model_copy(
        update={"inputs": tuple(source.model_copy(update={"ended": False}) for source in chain.inputs)}
    )

    assert _texts(Look(a_job(chains=(running,)), checkpoints()), Look(a_job(), checkpoints())) == [
        "weather has reached its end"
    ]
