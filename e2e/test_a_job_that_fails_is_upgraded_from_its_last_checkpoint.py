"""A job fails again and again; a corrected one takes its place, and goes on from the last checkpoint.

Such a job gives no savepoint: with `upgradeMode: savepoint` the controller falls back to the last state.
"""

from __future__ import annotations

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, last_checkpoint
from e2e.harness.faults import checked_visits_job
from e2e.harness.namespace import DATA
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"
BROKEN = "faults/broken"
MODULE = f"""
import pathlib

def checked(rows):
    check(None)
    return rows.mapInPandas(check_all, rows.schema)

def check_all(parts):
    for part in parts:
        yield check(part)

def check(part):
    if pathlib.Path({DATA!r}, {BROKEN!r}).exists():
        raise RuntimeError("broken, as a file says")
    return part
"""
"""Fails, in a running batch as at a start, as long as there is a file that says so."""
POISON = {"visits/poison.csv": "seen,page\n2024-01-01 00:00:05,poison\n"}
POISONED = (
    "SELECT seen, CASE WHEN page = 'poison' THEN raise_error('a poisoned visit') ELSE page END AS page FROM visits"
)
CORRECTED = "SELECT seen, page FROM visits WHERE page <> 'poison'"


def break_down(jobs: StreamJobs, mode: str) -> Object:
    """Make a job fail permanently after its first checkpoints, and return its status."""
    jobs.namespace.create("v1", "ConfigMap", "code", data={"code.py": MODULE})
    jobs.namespace.write(visits(0, 20))
    jobs.apply(
        NAME,
        upgradeMode=mode,
        deps={"configMaps": ["code"]},
        job=checked_visits_job(NAME, python="code:checked"),
    )
    jobs.wait_for_checkpoint(NAME)
    jobs.namespace.write({BROKEN: ""})
    jobs.namespace.write(visits(20, 30))
    return jobs.wait(NAME, lambda status: status["jobStatus"]["restarts"] >= 2, what="restarts")


def correct(jobs: StreamJobs, broken: Object) -> None:
    """Correct the job, and see that it goes on from the last checkpoint."""
    jobs.change(NAME, job=checked_visits_job(NAME, sql=CORRECTED))
    after = jobs.wait_until_ready(NAME)

    assert after["reconciliation"]["lastReconciledRevision"] != broken["reconciliation"]["lastReconciledRevision"]
    assert after["restoredFrom"]["kind"] == "checkpoint"
    assert after["restoredFrom"]["path"] == broken["checkpoint"]["lastCompleted"]["path"]
    assert after["jobStatus"]["restarts"] == 0


def see_that_nothing_is_lost(jobs: StreamJobs) -> None:
    """Give the job the rest of its input, and see that its output is exact."""
    jobs.namespace.write(visits(30, 40))
    jobs.wait_for_whole_report(NAME, 40)


def test_an_upgrade_by_savepoint_falls_back_to_the_last_checkpoint_of_a_job_that_does_not_run(jobs: StreamJobs) -> None:
    correct(jobs, break_down(jobs, "savepoint"))

    (told,) = jobs.wait_for_events(NAME, "LastStateFallback")
    assert told.startswith("stops without a savepoint: ")
    see_that_nothing_is_lost(jobs)


def test_an_upgrade_by_last_state_asks_a_job_that_does_not_run_for_nothing(jobs: StreamJobs) -> None:
    correct(jobs, break_down(jobs, "last-state"))

    assert jobs.events(NAME, "LastStateFallback") == []
    assert jobs.events(NAME, "SavepointError") == []
    see_that_nothing_is_lost(jobs)


def test_a_job_that_runs_into_a_record_again_and_again_is_upgraded_soon(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, job=checked_visits_job(NAME, sql=POISONED))
    jobs.wait_for_checkpoint(NAME)
    jobs.namespace.write(POISON)
    jobs.namespace.write(visits(20, 30))
    failing = jobs.wait(NAME, lambda status: status["jobStatus"]["restarts"] >= 1, what="restart")

    jobs.change(NAME, job=checked_visits_job(NAME, sql=CORRECTED))
    after = jobs.wait_until_ready(NAME)

    # Between two failures it may be able to take the savepoint.
    assert jobs.events(NAME, "SavepointError") == []
    assert after["jobStatus"]["attempt"] == 2
    assert after["restoredFrom"]["id"] >= last_checkpoint(failing)
    see_that_nothing_is_lost(jobs)
