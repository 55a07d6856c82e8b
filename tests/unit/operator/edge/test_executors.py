"""Executors over the whole edge: with the driver, through changes, and until nothing is left of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.operator.edge.bench import LOCATION, NAME, NAMESPACE, SPEC, Bench, running

from streamjob_operator.cluster.api import error_of
from streamjob_operator.cluster.kinds import (
    EVENT,
    POD,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    STATEFUL_SET,
    STREAM_JOB,
    Kind,
    Object,
)
from streamjob_operator.evaluation.validation import read_problems
from streamjob_operator.machinery.mirror import Mirror
from streamjob_operator.reconciling.executor_pods import executor_pod

TWO: dict[str, Any] = {"executor": {"instances": 2}}


def change(bench: Bench, **spec: object) -> None:
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | spec)


def the_set(bench: Bench) -> Object:
    (name,) = bench.cluster.names(STATEFUL_SET)
    return bench.cluster.objects[(STATEFUL_SET, NAMESPACE, name)]


def executors(bench: Bench) -> Object:
    found: Object = bench.job["status"]["executors"]
    return found


async def settled(bench: Bench, slots: int) -> None:
    """Let a change be carried out, and the new revision become stable."""
    await bench.until(lambda: bench.lifecycle == "DEPLOYED" and the_set(bench)["spec"]["replicas"] == slots)
    assert bench.driver is not None
    bench.driver.checkpoint(bench.now)
    await bench.until(lambda: bench.lifecycle == "STABLE" and executors(bench)["ready"] == slots)


async def test_a_job_with_executors_is_ready_once_they_are(bench: Bench) -> None:
    await running(bench, **TWO)

    assert executors(bench) == {"desired": 2, "ready": 2, "lost": 0}
    assert len(bench.cluster.names(SERVICE)) == len(bench.cluster.names(POD_DISRUPTION_BUDGET)) == 1
    assert bench.condition("ExecutorsReady")["status"] == "True"


async def test_another_number_of_executors_leaves_those_that_stay_alone(bench: Bench) -> None:
    await running(bench, **TWO)
    before = bench.executors()
    change(bench, executor={"instances": 3})
    await bench.until(lambda: executors(bench) == {"desired": 3, "ready": 3, "lost": 0})
    assert {name: pod["metadata"]["uid"] for name, pod in before.items()}.items() <= {
        name: pod["metadata"]["uid"] for name, pod in bench.executors().items()
    }.items()
    assert f"{NAME}-driver-3" not in bench.cluster.names(POD)
    assert bench.job["status"]["replicas"] == 3
    assert bench.lifecycle == "STABLE"


async def test_fewer_executors_go_beside_the_same_driver(bench: Bench) -> None:
    await running(bench, executor={"instances": 3})
    change(bench, **TWO)
    await bench.until(lambda: bool(the_set(bench)["spec"]["replicas"] == 2))
    assert f"{NAME}-driver-3" not in bench.cluster.names(POD)
    assert executors(bench) == {"desired": 2, "ready": 2, "lost": 0}


async def test_another_image_replaces_all_executors(bench: Bench) -> None:
    await running(bench, **TWO)
    before = {pod["metadata"]["uid"] for pod in bench.executors().values()}
    change(bench, **TWO, image="example/two")
    await bench.until(lambda: the_set(bench)["spec"]["template"]["spec"]["containers"][0]["image"] == "example/two")
    await settled(bench, 2)
    assert before.isdisjoint({pod["metadata"]["uid"] for pod in bench.executors().values()})


async def test_a_suspended_job_has_no_executors_and_gets_them_back(bench: Bench) -> None:
    await running(bench, **TWO)
    change(bench, **TWO, suspend=True)
    await bench.until(lambda: bench.lifecycle == "SUSPENDED" and not bench.executors())
    assert the_set(bench)["spec"]["replicas"] == 0
    change(bench, **TWO)
    await bench.until(lambda: bench.lifecycle == "STABLE" and executors(bench)["ready"] == 2)


async def test_a_job_without_executors_any_more_has_none_of_their_objects(bench: Bench) -> None:
    await running(bench, **TWO)
    change(bench)
    await bench.until(lambda: not bench.executors() and not bench.cluster.names(STATEFUL_SET))
    await bench.until(lambda: "executors" not in bench.job["status"])
    assert bench.cluster.names(SERVICE) == bench.cluster.names(POD_DISRUPTION_BUDGET) == []
    assert "ExecutorsReady" not in {each["type"] for each in bench.job["status"]["conditions"]}


async def test_a_deleted_job_ends_its_driver_before_its_executors(bench: Bench) -> None:
    stopped: list[bool] = []

    def changed(kind: Kind, _thing: Object) -> None:
        if kind == STATEFUL_SET:
            stopped.append(bench.driver is not None and bench.driver.stopped)

    await running(bench, **TWO)
    bench.cluster.changed = changed
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    await bench.until(lambda: (STREAM_JOB, NAMESPACE, NAME) not in bench.cluster.objects)
    assert stopped == [True]
    assert not bench.executors()


async def test_a_lost_executor_is_told_with_its_cause_and_an_event(bench: Bench) -> None:
    await running(bench, **TWO)
    name = min(bench.executors())
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "streamjob", "state": waiting}]}
    bench.cluster.edit(POD, NAMESPACE, name, status=status)
    await bench.until(lambda: executors(bench)["lost"] == 1)
    for kind in ("Ready", "ExecutorsReady"):
        assert bench.condition(kind)["status"] == "False"
        assert bench.condition(kind)["reason"] == "ImagePullBackOff"
        assert "1 of 2" in bench.condition(kind)["message"]
    assert "ImagePullBackOff" in bench.events()


async def test_executors_that_cannot_be_created_are_explained_by_the_events_of_their_set(bench: Bench) -> None:
    await running(bench, **TWO)
    uid = the_set(bench)["metadata"]["uid"]
    event = {
        "metadata": {"namespace": NAMESPACE, "name": "refused", "uid": "e"},
        "involvedObject": {"uid": uid},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": "exceeded quota: pods",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    await bench.cluster.create(EVENT, event)
    bench.makes_executors = False
    await bench.cluster.delete(POD, NAMESPACE, min(bench.executors()))
    await bench.until(lambda: bench.condition("ExecutorsReady")["reason"] == "FailedCreate")
    assert "exceeded quota: pods" in bench.condition("Ready")["message"]


async def test_a_driver_runs_on_while_the_api_server_rejects_the_executors_of_its_successor(bench: Bench) -> None:
    def rejection(kind: Kind, _thing: Object) -> Any:
        said = b'{"message": "StatefulSet is invalid: spec.template"}'
        return error_of(422, said, "POST") if kind == STATEFUL_SET else None

    await running(bench, **TWO)
    bench.cluster.rejection = rejection
    change(bench, executor={"instances": 2, "template": {"spec": {"hostname": "?"}}})
    for _ in range(60):
        await bench.step()
    assert bench.driver is not None
    assert not bench.driver.stopped
    assert bench.condition("Stalled")["reason"] == "PodRejected"
    assert "spec.template" in bench.condition("Stalled")["message"]


async def test_a_set_whose_claims_have_changed_is_made_again(bench: Bench) -> None:
    await running(bench, **TWO)
    before = the_set(bench)["metadata"]["uid"]
    bench.cluster.frozen = lambda kind: kind == STATEFUL_SET
    change(bench, executor={"instances": 2, "volumeClaimTemplates": [{"metadata": {"name": "work"}}]})
    await bench.until(lambda: bool(bench.cluster.names(STATEFUL_SET)) and the_set(bench)["metadata"]["uid"] != before)
    await settled(bench, 2)


async def test_what_others_have_put_on_the_set_stays(bench: Bench) -> None:
    await running(bench, **TWO)
    found = the_set(bench)
    found["metadata"] |= {"finalizers": ["kueue.x-k8s.io/managed"]}
    found["metadata"]["labels"]["kueue.x-k8s.io/managed"] = "true"
    change(bench, executor={"instances": 3})
    await bench.until(lambda: executors(bench) == {"desired": 3, "ready": 3, "lost": 0})
    assert the_set(bench)["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]
    assert the_set(bench)["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"


def test_the_mirror_keeps_what_is_read_of_an_executor() -> None:
    pod: Object = {
        "metadata": {
            "namespace": NAMESPACE,
            "name": "e-0",
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "streamjob.io/uid": "job-uid",
                "app.kubernetes.io/component": "executor",
                "streamjob.io/executor-template": "abc",
            },
        },
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}]},
    }
    mirror = Mirror()
    mirror.put(POD, pod)
    (kept,) = mirror.of_job(POD, NAMESPACE, "job-uid")

    found = executor_pod(kept)

    assert found == executor_pod(pod)
    assert found is not None
    assert (found.ready, found.template) == (True, "abc")


def files(name: str, path: str) -> Object:
    return {"name": name, "format": "csv", "schema": "n INT", "options": {"path": path}}


def sink(name: str, of: str) -> Object:
    return {"name": name, "input": of, "format": "json", "options": {"path": f"s3://bucket/{name}"}}


SPLIT: Object = {
    "sources": [files("numbers", "s3://bucket/in")],
    "operators": [
        {"name": "one", "inputs": ["numbers"], "sql": "SELECT n FROM numbers", "chain": False},
        {"name": "two", "inputs": ["one"], "sql": "SELECT n FROM one", "chain": False},
    ],
    "sinks": [sink("out", "two")],
}
LOCAL: Object = {"sources": [files("numbers", "/data/in")], "sinks": [sink("out", "numbers")]}


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        pytest.param({**LOCAL, "sources": [files("numbers", "s3://bucket/in")]}, "", id="all of it works"),
        pytest.param(SPLIT, "", id="several chains"),
        pytest.param(LOCAL, "source 'numbers' reads files of a local path", id="local files"),
    ],
)
def test_a_job_that_cannot_run_on_executors_is_invalid_before_anything_is_stopped(job: Object, problem: str) -> None:
    spec = {"job": job, "checkpointing": {"location": LOCATION}}

    _, without = read_problems({"metadata": {"name": NAME}, "spec": spec})
    _, found = read_problems({"metadata": {"name": NAME}, "spec": {**spec, **TWO}})

    assert without == ()
    assert [each.startswith("spec.executor: ") and problem in each for each in found] == [True] * bool(problem)
