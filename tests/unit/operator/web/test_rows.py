"""The row of a job says what is worst about it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.operator.web.bench import NOW, condition, job

from streamjob.client.jobs_models import JobRow
from streamjob.client.page_models import Diagnosis, HistoryPoint
from streamjob_operator.web.rows import FRESH_SECONDS, Figures, resource_of, row_of

FINISHED = "All input has ended, and all of it is processed."
STABLE = "The revision has completed a checkpoint."
READY = condition("Ready", "True", "UpToDate", "the running job matches the spec")


def said(severity: str = "ok", sentence: str = "All is well", at: float = NOW, **point: Any) -> Figures:
    """Return what a driver said."""
    diagnosis = Diagnosis.model_validate({"severity": severity, "sentence": sentence, "reasons": []})
    return Figures(at, diagnosis, HistoryPoint(at=at, **point))


def row(figures: Figures | None = None, now: float = NOW, **status: Any) -> JobRow:
    """Return the row of a job with a status."""
    return row_of(job("views", **status), figures, now)


def test_a_job_that_runs_well_says_what_its_driver_says() -> None:
    found = row(said(lag_seconds=0.4, lag_records=12, rows_per_second=800))

    assert (found.tone, found.sentence, found.driver) == ("ok", "All is well", "answers")
    assert (found.lag_seconds, found.lag_records, found.rows_per_second) == (0.4, 12, 800)
    assert found.checkpoint_interval == 10
    assert found.checkpoint_at == 1795386392
    assert (found.parallelism, found.revision) == (4, "views-7c9d")


def test_the_most_urgent_finding_counts_whoever_has_it() -> None:
    healthy = condition("CheckpointHealthy", "False", "CheckpointsFail", "the last 3 checkpoints failed")

    assert row(said("attention", "Behind by 4 min"), conditions=[READY, healthy]).sentence == (
        "The last 3 checkpoints failed"
    )
    assert row(said("critical", "Restarts in a loop"), conditions=[READY, healthy]).sentence == "Restarts in a loop"


def test_a_stable_job_that_has_no_checkpoint_since_its_last_crash_is_under_way() -> None:
    waits = "the job runs, and has not completed a checkpoint after restart 2: boom"
    conditions = [condition("Ready", "False", "WaitingForCheckpoint", waits)]
    conditions.append(condition("Reconciling", "True", "WaitingForCheckpoint", waits))

    found = row(said(), conditions=conditions)

    assert (found.tone, found.sentence) == ("underway", waits[0].upper() + waits[1:])


def test_an_old_diagnosis_does_not_count_but_its_figures_stay_with_their_age() -> None:
    old = said("attention", "Behind by 4 min", lag_seconds=240)
    found = row(old, NOW + FRESH_SECONDS + 1, conditions=[READY])

    assert (found.tone, found.sentence) == ("ok", "The running job matches the spec")
    assert (found.lag_seconds, found.figures_at) == (240, NOW)


@pytest.mark.parametrize(
    ("status", "tone", "sentence", "driver"),
    [
        ({"lifecycleState": "SUSPENDED", "conditions": [READY]}, "still", "The running job matches the spec", "none"),
        ({"lifecycleState": "FINISHED", "conditions": []}, "still", FINISHED, "none"),
        (
            {"lifecycleState": "FAILED", "jobStatus": {"state": "FAILED", "failure": "\n boom\nat line 3"}},
            "critical",
            "boom",
            "none",
        ),
        ({"lifecycleState": "FAILED", "jobStatus": {}}, "critical", "The job failed.", "none"),
        (
            {"jobStatus": {"state": "RESTARTING", "failure": "java.lang.OutOfMemoryError"}},
            "critical",
            "java.lang.OutOfMemoryError",
            "answers",
        ),
        (
            {"jobStatus": {"state": "RUNNING", "silentSince": "2026-11-22T22:00:00Z"}},
            "attention",
            "The driver's pod runs, but does not answer.",
            "away",
        ),
        (
            {
                "lifecycleState": "UPGRADING",
                "conditions": [condition("Reconciling", "True", "Upgrading", "stopping with a savepoint")],
            },
            "underway",
            "Stopping with a savepoint",
            "answers",
        ),
        (
            {"conditions": [condition("Stalled", "True", "InvalidSpec", "spec.job: a sink is missing\nand more")]},
            "critical",
            "Spec.job: a sink is missing",
            "answers",
        ),
        ({"conditions": [condition("SomethingNew", "False", "Odd")]}, "ok", STABLE, "answers"),
    ],
)
def test_a_status_without_a_word_of_the_driver(status: dict[str, Any], tone: str, sentence: str, driver: str) -> None:
    found = row(**status)

    assert (found.tone, found.sentence, found.driver) == (tone, sentence, driver)


def test_a_suspended_jobs_last_diagnosis_does_not_count() -> None:
    assert row(said("critical", "Failing"), lifecycleState="SUSPENDED", conditions=[READY]).tone == "still"


def test_a_running_upgrade_is_named_with_its_step() -> None:
    stops = condition("Reconciling", "True", "Upgrading", "the driver stops for another revision")

    assert row(lifecycleState="UPGRADING", conditions=[stops]).upgrade == "The driver stops for another revision"
    assert row(lifecycleState="ROLLING_BACK", conditions=[]).upgrade == "Rolling back"
    assert row().upgrade is None


@pytest.mark.parametrize("thing", [{"status": None}, {"status": {}}, {"spec": None}, {"spec": {"checkpointing": None}}])
def test_a_job_that_nobody_has_looked_at_has_a_row(thing: dict[str, Any]) -> None:
    found = row_of({**job("views"), **thing}, None, NOW)

    assert found.name == "views"
    assert found.sentence


@pytest.mark.parametrize(("written", "seconds"), [("1m", 60), (30, 30), ("soon", None), ("", None), (None, None)])
def test_an_interval_that_cannot_be_read_is_not_known(written: Any, seconds: float | None) -> None:
    assert row_of(job("views", spec={"checkpointing": {"interval": written}}), None, NOW).checkpoint_interval == seconds


def test_what_survives_a_driver_is_on_the_jobs_page() -> None:
    found = resource_of(
        job(
            "views",
            savepoint={"lastCompleted": {"path": "s3://state/views/savepoint"}},
            autoscaling={"mode": "Act", "reason": "lag grows", "recommended": 6},
            jobStatus={"state": "FAILED", "attempt": 7, "failure": "boom\nat line 3"},
            conditions=[READY, condition("CheckpointHealthy", "False", "CheckpointsFail")],
        ),
        None,
        NOW,
    )

    assert (found.attempt, found.failure) == (7, "boom\nat line 3")
    assert (found.checkpoint_path, found.savepoint_path) == ("s3://state/views/12", "s3://state/views/savepoint")
    assert (found.scaling, found.scaling_acts, found.row.recommended) == ("lag grows", True, 6)
    assert [(each.type, each.wrong) for each in found.conditions] == [("Ready", False), ("CheckpointHealthy", True)]
