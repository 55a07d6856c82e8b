"""The evaluation of observations in the controller's benchmark."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from bench.controller import CONTROL, REQUESTS, _counted
from bench.controller_model import Change, Controlled, Deployment, Idle
from bench.controller_report import growth, render
from bench.controller_watching import Jobs, Sent, outcomes, read_log
from bench.controller_world import samples
from bench.model import Circumstances
from bench.processes import RunFailed

from streamjob_operator.metrics import Metrics


def a_job(generation: int, observed: int | None = None, *, ready: bool = False) -> dict[str, Any]:
    status: dict[str, Any] = {}
    if observed is not None:
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status = {"observedGeneration": observed, "conditions": conditions}
    return {"metadata": {"name": "one", "generation": generation}, "status": status}


def watched(*events: tuple[float, dict[str, Any]]) -> Jobs:
    clock = [0.0]
    jobs = Jobs(now=lambda: clock[0])
    for at, thing in events:
        clock[0] = at
        jobs.saw("MODIFIED", thing)
    return jobs


def a_change(kind: str = "interval", generation: int = 2, sent: float = 10.0) -> Sent:
    return Sent(job="one", kind=kind, generation=generation, sent=sent, answered=sent + 0.1)


def test_a_change_is_answered_by_the_first_status_of_its_generation() -> None:
    jobs = watched((10.1, a_job(2, 1, ready=True)), (10.4, a_job(2, 2)), (10.9, a_job(2, 2, ready=True)))

    ((change,), unanswered) = outcomes([a_change()], jobs.seen, {("one", "patch"): [3.0, 10.6, 11.0]})

    assert unanswered == 0
    assert (change.answered, change.status, change.action, change.settled) == pytest.approx((0.1, 0.4, 0.6, 0.9))


def test_a_generation_that_no_status_names_is_answered_by_the_next_one() -> None:
    jobs = watched((10.4, a_job(3, 3)))

    ((change,), _) = outcomes([a_change()], jobs.seen, {("one", "patch"): [10.6]})

    assert change.status == pytest.approx(0.4)
    assert change.settled is None


@pytest.mark.parametrize("log", [{}, {("one", "patch"): [9.9]}, {("one", "stop"): [10.5]}])
def test_a_change_without_its_action_counts_as_unanswered(log: dict[tuple[str, str], list[float]]) -> None:
    jobs = watched((10.4, a_job(2, 2, ready=True)))

    assert outcomes([a_change()], jobs.seen, log) == ([], 1)


def test_a_job_has_settled_when_its_newest_generation_is_ready() -> None:
    ready = a_job(1, 1, ready=True)

    assert watched((1.0, ready)).seen["one"].settled
    assert not watched((1.0, ready), (2.0, a_job(2, 1, ready=True))).seen["one"].settled


def test_a_job_that_was_deleted_is_forgotten() -> None:
    jobs = watched((1.0, a_job(1)))
    jobs.saw("DELETED", a_job(1))

    assert jobs.seen == {}


def test_what_never_comes_fails_the_run() -> None:
    with pytest.raises(RunFailed, match="no miracle"):
        asyncio.run(Jobs().until(lambda: False, within=0.01, what="miracle"))


def test_the_log_of_drivers_is_read_by_job_and_event(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"at": 1.5, "what": "stop", "job": "one"}\n{"at": 2.5, "what": "stop", "job": "one"}\n')

    assert read_log(log) == {("one", "stop"): [1.5, 2.5]}


def test_requests_are_counted_by_verb_and_resource_from_the_growth_of_the_controllers_own_counters() -> None:
    metrics = Metrics()
    for verb in ("get", "put"):
        metrics.request(verb, "pods", 0.01)
    before = samples(metrics.text().decode())
    for _ in range(5):
        metrics.request("get", "pods", 0.01)
        metrics.control("job", 0.01)
    after = samples(metrics.text().decode())

    assert _counted(REQUESTS, before, after) == {"get pods": 5}
    assert _counted(CONTROL, before, after) == {"job": 5}


def idle(jobs: int, requests: int, *, checkpoints: bool = False) -> Idle:
    return Idle(
        jobs=jobs,
        checkpoints=checkpoints,
        seconds=30.0,
        requests={"get leases": requests, "put streamjobs": jobs if checkpoints else 0},
        served=400,
        control={"job": jobs},
        cpu=3.0,
        rss=200_000_000,
    )


def results(idle: Sequence[Idle], *statuses: float) -> Controlled:
    changes = tuple(Change(kind="interval", answered=0.01, status=each, action=each + 0.1) for each in statuses)
    return Controlled(
        circumstances=Circumstances(command="make", begun="", ended="", machine="one", versions={}),
        interval="1m",
        deployment=Deployment(jobs=1000, accepted=1.0, ready_half=2.0, ready_all=3.0),
        changes=changes,
        idle=tuple(idle),
        peak_rss=250_000_000,
    )


def test_growth_compares_the_requests_of_jobs_at_rest() -> None:
    several = [idle(1000, 33), idle(100, 30), idle(500, 99), idle(1000, 5, checkpoints=True)]

    assert growth(several) == pytest.approx(1.1)
    assert growth(several[:1]) is None


def test_a_goal_that_was_missed_is_told() -> None:
    text = render(results([idle(1000, 30), idle(100, 30)], *[0.5] * 98, 1.95, 3.0))

    assert "| reaction of the status, p99 | below 2 s | 1.95 s | yes |" in text
    assert "| the same of the action, p99 | below 2 s | 2.05 s | no |" in text
    assert "| idle requests, most jobs to fewest | at most × 1.1 | × 1.00 | yes |" in text
    assert "| 1,000 | none | 60 | 0 | 800 | 2000 | 6.0 | 200 |" in text
