"""A StreamJob whose next pod the API server rejects, over the whole edge."""

from __future__ import annotations

import json

import pytest
from tests.unit.operator.edge.bench import NAME, NAMESPACE, SPEC, Bench, a_job, running

from streamjob_operator.cluster.api import ClusterError, Unavailable, error_of
from streamjob_operator.cluster.kinds import CONFIG_MAP, POD, STREAM_JOB, Kind, Object

ACCOUNT = 'pods "orders-driver-2" is forbidden: error looking up service account a/b: serviceaccount "b" not found'
SAYS_QUOTA = "exceeded quota: exact, requested: pods=1, used: pods={}, limited: pods={}"
WEBHOOK = 'Internal error occurred: failed calling webhook "pods.example.com": no endpoints available'
FIRST = 2
"""The driver of a job whose log holds a claim already, as on the bench."""


def answer(status: int, message: str) -> ClusterError:
    return error_of(status, json.dumps({"message": message}).encode(), "POST /api/v1/namespaces/a/pods")


def reject(bench: Bench, message: str, kind: Kind = POD, status: int = 403) -> None:
    bench.cluster.rejection = lambda each, _thing: answer(status, message) if each == kind else None


def change(bench: Bench, **spec: object) -> None:
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | spec)


async def looks(bench: Bench, rounds: int = 60) -> None:
    for _ in range(rounds):
        await bench.step()


@pytest.mark.parametrize(
    ("kind", "message", "status"),
    [
        (POD, ACCOUNT, 403),
        (POD, 'Pod "x" is invalid: spec.containers[0].env[3].name: Invalid value', 422),
        (POD, WEBHOOK, 500),
        (CONFIG_MAP, "exceeded quota: maps, requested: count/configmaps=1, used: count/configmaps=1, limited: 1", 403),
    ],
)
async def test_a_driver_runs_on_while_its_successor_is_rejected_and_the_status_quotes_the_api_server(
    bench: Bench, kind: Kind, message: str, status: int
) -> None:
    await running(bench)
    reject(bench, message, kind, status)
    change(bench, image="example/two")
    await looks(bench)
    assert bench.cluster.names(POD) == [f"{NAME}-driver-{FIRST}"]
    assert bench.driver is not None
    assert not bench.driver.stopped
    for each in ("Ready", "Stalled"):
        assert bench.condition(each)["reason"] == "PodRejected"
        assert message in bench.condition(each)["message"]
    assert "PodRejected" in bench.events()


async def test_a_correction_heals_it_without_another_change(bench: Bench) -> None:
    await running(bench)
    reject(bench, ACCOUNT)
    change(bench, image="example/two")
    await looks(bench)
    bench.cluster.rejection = lambda _kind, _thing: None
    await bench.until(lambda: f"{NAME}-driver-{FIRST + 1}" in bench.cluster.names(POD))


async def test_a_template_from_which_no_pod_can_be_made_is_as_good_as_rejected(bench: Bench) -> None:
    await running(bench)
    change(bench, driver={"template": {"spec": "none"}})
    await looks(bench)
    assert bench.cluster.names(POD) == [f"{NAME}-driver-{FIRST}"]
    assert bench.condition("Stalled")["status"] == "True"


@pytest.mark.parametrize(("used", "goes"), [(1, True), (2, False)])
async def test_a_quota_that_only_the_driver_that_runs_exhausts_holds_nothing_up(
    bench: Bench, used: int, goes: bool
) -> None:
    await running(bench)

    def rejection(kind: Kind, _thing: Object) -> ClusterError | None:
        crowded = kind == POD and bench.cluster.names(POD)
        said = f'pods "x" is forbidden: {SAYS_QUOTA.format(used, 1)}'
        return answer(403, said) if crowded else None

    bench.cluster.rejection = rejection
    change(bench, image="example/two")
    await looks(bench)
    assert bench.cluster.names(POD) == [f"{NAME}-driver-{FIRST + goes}"]


async def test_a_pod_that_is_rejected_at_its_creation_alone_is_told_too(bench: Bench) -> None:
    await bench.cluster.create(STREAM_JOB, a_job())
    reject(bench, ACCOUNT)
    await looks(bench)
    assert bench.cluster.names(POD) == []
    assert bench.condition("Stalled")["reason"] == "PodRejected"
    assert ACCOUNT in bench.condition("Ready")["message"]


async def test_a_webhook_that_does_not_know_dry_runs_holds_nothing_up(bench: Bench) -> None:
    await running(bench)
    dry = 'admission webhook "x" does not support dry run'

    def rejection(kind: Kind, _thing: Object) -> ClusterError | None:
        tried = bench.cluster.calls[-1][0] == "try"
        return answer(400, dry) if kind == POD and tried else None

    bench.cluster.rejection = rejection
    change(bench, image="example/two")
    await bench.until(lambda: f"{NAME}-driver-{FIRST + 1}" in bench.cluster.names(POD))


async def test_an_api_server_that_does_not_answer_is_no_rejection(bench: Bench) -> None:
    await running(bench)
    change(bench, image="example/two")
    bench.cluster.faults["try"] = [Unavailable("no answer")]
    with pytest.raises(Unavailable):
        await looks(bench)
    assert bench.cluster.names(POD) == [f"{NAME}-driver-{FIRST}"]
    assert "PodRejected" not in bench.events()
