"""The states of a job and what may follow what."""

from __future__ import annotations

import pytest

from streamjob.protocol.lifecycle import TRANSITIONS, IllegalTransition, JobState, Lifecycle


def walk(*states: JobState) -> Lifecycle:
    job = Lifecycle.created(0)
    for now, state in enumerate(states, start=1):
        job = job.enter(state, now)
    return job


@pytest.mark.parametrize(
    "states",
    [
        (JobState.RESTORING, JobState.RUNNING, JobState.FINISHING, JobState.FINISHED),
        (JobState.RESTORING, JobState.FINISHED),
        (JobState.RUNNING, JobState.RESTARTING, JobState.RUNNING),
        (JobState.RESTARTING, JobState.RESTARTING, JobState.RESTORING),
        (JobState.STOPPING, JobState.STOPPED),
        (JobState.RESTORING, JobState.RUNNING, JobState.STOPPING, JobState.STOPPED),
        (JobState.RESTORING, JobState.RUNNING, JobState.STOPPING, JobState.RESTARTING, JobState.RESTORING),
        (JobState.RESTORING, JobState.RUNNING, JobState.RESTARTING, JobState.RESTORING, JobState.RUNNING),
        (JobState.RESTORING, JobState.RUNNING, JobState.SUPERSEDED),
        (JobState.RESTORING, JobState.RUNNING, JobState.RESTARTING, JobState.STOPPED),
    ],
    ids=lambda states: ">".join(states),
)
def test_a_life_that_the_table_allows(states: tuple[JobState, ...]) -> None:
    job = walk(*states)

    assert (job.state, job.since) == (states[-1], len(states))


def test_what_the_table_does_not_have_cannot_happen() -> None:
    for state, followers in TRANSITIONS.items():
        for other in set(JobState) - followers:
            with pytest.raises(IllegalTransition):
                Lifecycle(state, 0).enter(other, 1)


def test_terminal_states_have_no_way_out_and_the_others_can_all_fail() -> None:
    terminal = {state for state in JobState if state.terminal}

    assert terminal == {JobState.FINISHED, JobState.STOPPED, JobState.FAILED, JobState.SUPERSEDED}
    for state in set(JobState) - terminal:
        assert {JobState.FAILED, JobState.SUPERSEDED} <= TRANSITIONS[state]


def test_every_state_can_be_reached() -> None:
    reached = {JobState.CREATED}
    for _ in JobState:
        reached |= {follower for state in reached for follower in TRANSITIONS[state]}

    assert reached == set(JobState)


def test_restarts_are_counted() -> None:
    once = (JobState.RESTARTING, JobState.RESTORING, JobState.RUNNING)
    job = walk(JobState.RESTORING, JobState.RUNNING, *once, *once)

    assert job.restarts == 2


def test_a_planned_restart_is_not_counted() -> None:
    job = walk(JobState.RUNNING).enter(JobState.RESTARTING, 1, planned=True)

    assert (job.state, job.restarts) == (JobState.RESTARTING, 0)
