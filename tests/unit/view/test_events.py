"""The events between two observations of a job."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.unit.view.samples import a_job, checkpoints, several_chains

from streamjob.client.models import JobState, SnapshotKind
from streamjob.ids import Epoch
from streamjob_runtime.control.terminal.events import Look, events


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

    assert (event.text, event.weight) == ("flights is RESTARTING: disk full", "bad")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (JobState.RESTARTING, ["flights is RESTARTING: disk full"]),
        (JobState.RUNNING, ["flights has restarted: disk full", "flights is RUNNING, restored from checkpoint 12"]),
    ],
)
def test_every_restart_is_told_also_one_between_two_looks(state: JobState, expected: list[str]) -> None:
    before = Look(a_job(state=state, restarts=1, failure="no heap"), checkpoints())
    now = Look(a_job(state=state, restarts=2, failure="disk full\nTraceback …"), checkpoints())

    assert _texts(before, now) == expected


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
    assert [event.weight for event in events(before, now)] == ["bad", "notable"]


def test_a_savepoint_that_waits_for_long_is_told_once() -> None:
    looks = [
        Look(a_job(uptime=uptime), checkpoints("completed", "waiting savepoint")) for uptime in (137.0, 138.0, 139.0)
    ]

    told = [_texts(before, now) for before, now in pairwise(looks)]

    waits = "2 of 2 chains to process what is in flight before them, and no checkpoint begins before it ends"
    assert told == [[f"Savepoint 13 has waited 30 s for {waits}"], []]


def test_an_input_that_ends_is_told() -> None:
    chain = a_job().chains[0]
    running = chain.model_copy(
        update={"inputs": tuple(source.model_copy(update={"ended": False}) for source in chain.inputs)}
    )

    assert _texts(Look(a_job(chains=(running,)), checkpoints()), Look(a_job(), checkpoints())) == [
        "weather has reached its end"
    ]


def test_an_end_that_another_chain_brings_is_not_told_as_an_inputs() -> None:
    job = several_chains()
    hours = job.chains[1]
    ended = hours.model_copy(update={"inputs": (hours.inputs[0].model_copy(update={"ended": True}),)})

    assert _texts(Look(job, checkpoints()), Look(several_chains(chains=(ended,)), checkpoints())) == []


def test_a_chain_that_finishes_is_told_where_there_are_several() -> None:
    job = several_chains()
    first, *others = job.chains
    now = several_chains(chains=(first.model_copy(update={"finished": True}), *others))

    assert _texts(Look(job, checkpoints()), Look(now, checkpoints())) == ["chain flights has finished"]
    assert _texts(Look(now, checkpoints()), Look(now, checkpoints())) == []


def test_an_unaligned_checkpoint_is_called_so_where_there_are_several_chains() -> None:
    before, now = checkpoints("running"), checkpoints("unaligned")
    told = "checkpoint 12 completed in 420 ms, 1.2 MB written of 14 MB"

    assert _texts(Look(several_chains(), before), Look(several_chains(), now)) == [f"unaligned {told}"]
    assert _texts(Look(a_job(), before), Look(a_job(), now)) == [told]


def test_the_final_record_is_not_called_a_checkpoint() -> None:
    last = a_job().last_checkpoint
    assert last is not None
    job = a_job(last_checkpoint=last.model_copy(update={"kind": SnapshotKind.FINAL, "id": 12}))

    (told,) = _texts(Look(a_job(), checkpoints("running")), Look(job, checkpoints("completed")))

    assert told.startswith("final checkpoint 12 completed in")
