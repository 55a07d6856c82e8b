"""The liveness probe: what a listing shows, the watches must deliver."""

from __future__ import annotations

import httpx
from aiohttp import web

from streamjob_operator.cluster.kinds import POD, STREAM_JOB, Object
from streamjob_operator.machinery.watch_audit import (
    Health,
    WatchAudit,
    identity_of,
    metrics_server,
    probe_server,
    serve,
)
from streamjob_operator.metrics import JobSample, Metrics, ScalingSample


def thing(name: str, version: int) -> Object:
    return {"metadata": {"namespace": "a", "name": name, "resourceVersion": str(version)}}


def test_a_watch_that_delivers_what_is_listed_is_alive() -> None:
    audit = WatchAudit(patience=60)
    audit.delivered(STREAM_JOB, thing("x", 5))

    assert audit.listed(STREAM_JOB, [thing("x", 5)], now=0) == []
    assert audit.alive(now=1000)


def test_a_listed_object_that_is_never_delivered_shows_that_the_watch_is_dead() -> None:
    audit = WatchAudit(patience=60)

    assert audit.listed(STREAM_JOB, [thing("x", 5)], now=0) == [identity_of(STREAM_JOB, thing("x", 5))]
    assert audit.alive(now=60)
    assert not audit.alive(now=61)


def test_a_change_that_is_never_delivered_shows_it_as_well() -> None:
    audit = WatchAudit(patience=60)
    audit.delivered(STREAM_JOB, thing("x", 5))
    audit.listed(STREAM_JOB, [thing("x", 8)], now=0)

    assert not audit.alive(now=61)


def test_changes_that_go_on_do_not_hide_a_dead_watch() -> None:
    audit = WatchAudit(patience=60)
    for now in range(0, 100, 10):
        audit.listed(STREAM_JOB, [thing("x", 5 + now)], now=now)

    assert not audit.alive(now=100)


def test_what_is_delivered_late_brings_the_watch_back_to_life() -> None:
    audit = WatchAudit(patience=60)
    audit.listed(STREAM_JOB, [thing("x", 5)], now=0)
    audit.delivered(STREAM_JOB, thing("x", 6))

    assert audit.alive(now=1000)


def test_an_object_that_is_gone_is_not_waited_for() -> None:
    audit = WatchAudit(patience=60)
    audit.listed(STREAM_JOB, [thing("x", 5)], now=0)
    audit.listed(STREAM_JOB, [], now=10)

    assert audit.alive(now=1000)


def test_the_watch_of_one_kind_says_nothing_about_another() -> None:
    audit = WatchAudit(patience=60)
    audit.delivered(POD, thing("x", 5))
    audit.listed(STREAM_JOB, [thing("x", 5)], now=0)
    audit.listed(POD, [], now=0)

    assert not audit.alive(now=61)


def test_a_task_that_lists_no_more_is_a_problem() -> None:
    health = Health(clock=lambda: 1000.0, swept=100.0)

    assert health.problem() == "no object was listed for 900 s"


async def fetch(app: web.Application, *paths: str) -> list[httpx.Response]:
    runner = await serve(app, "127.0.0.1", 0)
    try:
        host, port = runner.addresses[0][:2]
        async with httpx.AsyncClient(trust_env=False) as client:
            return [await client.get(f"http://{host}:{port}{path}") for path in paths]
    finally:
        await runner.cleanup()


async def test_the_probes_answer_over_http() -> None:
    health = Health(WatchAudit(patience=60), clock=lambda: 100.0)
    healthz, readyz = await fetch(probe_server(health), "/healthz", "/readyz")
    assert (healthz.status_code, readyz.status_code) == (200, 503)

    health.ready = True
    health.audit.listed(STREAM_JOB, [thing("x", 5)], now=0)
    healthz, readyz = await fetch(probe_server(health), "/healthz", "/readyz")
    assert (healthz.status_code, readyz.status_code) == (503, 200)
    assert healthz.text == "a watch has not delivered a change for 100 s"


def test_metrics_have_the_load_of_scaled_jobs_and_count_their_moves() -> None:
    metrics = Metrics(now=lambda: 130.0)
    for moved in (None, (100.0, "Restart"), (100.0, "Restart"), (120.0, "Restart")):
        sample = ScalingSample(4, recommended=6, arrival_rate=800.0, capacity=700.0, lag=None, moved=moved)
        metrics.job("a", "x", JobSample("STABLE", scaling=sample))
    metrics.job("a", "y", JobSample("STABLE"))

    text = metrics.text().decode()

    assert 'streamjob_controller_autoscaling_recommended_slots{name="x",namespace="a"} 6.0' in text
    assert 'streamjob_controller_autoscaling_arrival_rate{name="x",namespace="a"} 800.0' in text
    assert "autoscaling_lag_seconds{" not in text
    assert 'autoscaling_moves_total{means="Restart",name="x",namespace="a"} 2.0' in text
    assert 'name="y"' not in text


async def test_metrics_count_jobs_by_state_and_know_the_age_of_their_checkpoints() -> None:
    metrics = Metrics(now=lambda: 130.0)
    metrics.job("a", "x", JobSample("STABLE", checkpointed=100.0))
    metrics.job("a", "y", JobSample("STABLE"))
    metrics.job("b", "z", JobSample("FAILED"))
    metrics.job("b", "z", None)
    metrics.request("get", "pods", 0.1)

    (answer,) = await fetch(metrics_server(metrics.text), "/metrics")

    assert 'streamjob_controller_jobs{namespace="a",state="STABLE"} 2.0' in answer.text
    assert 'streamjob_controller_checkpoint_age_seconds{name="x",namespace="a"} 30.0' in answer.text
    assert "FAILED" not in answer.text
    assert 'kubernetes_request_seconds_count{resource="pods",verb="get"} 1.0' in answer.text
