"""Which event is due after a look at a job."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamjob.protocol.lifecycle import JobState
from streamjob_runtime.lineage.following import Followed, Look, follow

HOUR = 3600.0
R = JobState.RUNNING


def told(*looks: Look) -> list[tuple[str, int, float]]:
    """Return the events after some looks: kind, epoch and time."""
    followed = Followed()
    found: list[tuple[str, int, float]] = []
    for look in looks:
        followed, due = follow(followed, look, HOUR)
        found += [(each.kind, each.epoch, each.at) for each in due]
    return found


def test_nothing_is_said_before_the_first_claim() -> None:
    assert told(Look(1.0, None, JobState.RESTORING)) == []


def test_a_run_starts_at_the_claim_says_that_it_goes_on_each_hour_and_completes() -> None:
    looks = [Look(float(at), 3, R) for at in range(0, 9000, 600)]

    assert told(*looks, Look(9000.0, 3, JobState.FINISHED), Look(9001.0, 3, JobState.FINISHED)) == [
        ("START", 3, 0.0),
        ("RUNNING", 3, 3600.0),
        ("RUNNING", 3, 7200.0),
        ("COMPLETE", 3, 9000.0),
    ]


def test_columns_that_become_known_or_change_are_said_at_once() -> None:
    one, two = {"out": [("id", "int")]}, {"out": [("id", "bigint")]}

    found = told(Look(0.0, 3, R), Look(1.0, 3, R, schemas=one), Look(2.0, 3, R), Look(3.0, 3, R, schemas=two))

    assert found == [("START", 3, 0.0), ("RUNNING", 3, 1.0), ("RUNNING", 3, 3.0)]


def test_a_restart_fails_the_run_and_begins_the_next() -> None:
    looks = [
        Look(0.0, 3, R),
        Look(5.0, 3, JobState.RESTARTING, restarts=1, failure="it broke"),
        Look(6.0, 3, JobState.RESTARTING, restarts=1, failure="it broke"),
        Look(9.0, 4, R, restarts=1, failure="it broke"),
    ]

    assert told(*looks) == [("START", 3, 0.0), ("FAIL", 3, 5.0), ("START", 4, 9.0)]
    assert told(looks[0], looks[3]) == [("START", 3, 0.0), ("FAIL", 3, 9.0), ("START", 4, 9.0)]


def test_a_planned_restart_completes_the_run() -> None:
    looks = [Look(0.0, 3, R), Look(5.0, 3, JobState.RESTARTING), Look(9.0, 4, R)]

    assert told(*looks) == [("START", 3, 0.0), ("COMPLETE", 3, 9.0), ("START", 4, 9.0)]


def test_a_superseded_job_aborts_its_run_and_a_failed_one_says_why() -> None:
    assert told(Look(0.0, 3, R), Look(1.0, 3, JobState.SUPERSEDED))[-1] == ("ABORT", 3, 1.0)
    followed, _ = follow(Followed(), Look(0.0, 3, R), HOUR)
    _, (end,) = follow(followed, Look(1.0, 3, JobState.FAILED, failure="no disk"), HOUR)
    assert (end.kind, end.failure) == ("FAIL", "no disk")


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 2), st.sampled_from(JobState), st.integers(0, 1))))
def test_each_run_starts_once_ends_at_most_once_and_says_nothing_afterwards(steps: list[Any]) -> None:
    at, epoch, restarts, looks = 0.0, 0, 0, []
    for seconds, more, state, restarted in steps:
        at, epoch, restarts = at + seconds, epoch + more, restarts + restarted
        looks.append(Look(at, epoch or None, state, restarts))
    found = told(*looks)

    for number in {each[1] for each in found}:
        kinds = [kind for kind, of, _ in found if of == number]
        assert kinds[0] == "START"
        assert set(kinds[1:-1]) <= {"RUNNING"}
        assert "START" not in kinds[1:]
    assert [each[2] for each in found] == sorted(each[2] for each in found)
