"""The evaluation of observations in the controller's benchmark."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from bench.controller import CONTROL, REQUESTS, _counted
from bench.controller_watching import Jobs, Sent, outcomes, read_log
from bench.controller_world import samples
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
    return Sent(job="one", kind=kind, generation=generation, sent=sent)


def test_a_change_is_answered_by_the_first_status_of_its_generation() -> None:
    jobs = watched((10.1, a_job(2, 1, ready=True)), (10.4, a_job(2, 2)), (10.9, a_job(2, 2, ready=True)))

    ((change,), unanswered) = outcomes([a_change()], jobs.seen, {("one", "patch"): [3.0, 10.6, 11.0]})

    assert unanswered == 0
    assert (change.status, change.action, change.settled) == pytest.approx((0.4, 0.6, 0.9))


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
