"""A StreamJob through its life, over the whole edge: intents are stored before they are carried out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.operator.edge.bench import LOCATION, NAME, NAMESPACE, SPEC, Bench, a_job, running

from streamjob.protocol.log.claiming import Marker
from streamjob_operator.cluster.api import Unavailable
from streamjob_operator.cluster.kinds import (
    CONFIG_MAP,
    CONTROLLER_REVISION,
    NETWORK_POLICY,
    POD,
    SECRET,
    STREAM_JOB,
    STREAM_SNAPSHOT,
    Kind,
    Object,
)
from streamjob_operator.decisions import Decision, Resource
from streamjob_operator.decisions.shared.history import KEPT
from streamjob_operator.decisions.values.actions import Emit
from streamjob_operator.decisions.values.observation import Observation
from streamjob_operator.machinery.work_queue import WorkLoops
from streamjob_operator.settings import Settings


async def test_a_new_driver_brings_its_jobs_network_policy_to_what_the_settings_say(tmp_path: Path) -> None:
    before = Settings(own_namespace="streamjob", own_labels={"app": "controller"})
    monitoring = {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}
    first = Bench(tmp_path, settings=before)
    await running(first)
    (name,) = first.cluster.names(NETWORK_POLICY)

    second = Bench(tmp_path, before=first, settings=replace(before, driver_metrics_from=(monitoring,)))
    (driver,) = first.cluster.names(POD)
    await second.cluster.delete(POD, NAMESPACE, driver)
    await second.until(lambda: second.cluster.names(POD) not in ([], [driver]))

    rules = second.cluster.objects[(NETWORK_POLICY, NAMESPACE, name)]["spec"]["ingress"]
    assert second.cluster.names(NETWORK_POLICY) == [name]
    assert [each["from"] for each in rules if each["ports"][0]["port"] == 8081] == [[monitoring]]


def snapshot(name: str = "before-release", **spec: object) -> Object:
    return {
        "apiVersion": "streamjob.io/v1alpha1",
        "kind": "StreamSnapshot",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {"jobRef": {"name": NAME}} | (spec or {"savepoint": {}}),
    }


def state_of(bench: Bench, name: str = "before-release") -> str:
    thing = bench.cluster.objects[(STREAM_SNAPSHOT, NAMESPACE, name)]
    return str(thing.get("status", {}).get("state"))


async def test_a_job_that_is_applied_is_deployed_and_runs(bench: Bench) -> None:
    await running(bench)

    attempt = bench.job["status"]["jobStatus"]["attempt"]
    assert bench.cluster.names(POD) == [f"{NAME}-driver-{attempt}"]
    assert len(bench.cluster.names(SECRET)) == len(bench.cluster.names(CONFIG_MAP)) == 1
    assert len(bench.cluster.names(CONTROLLER_REVISION)) == 1
    assert bench.condition("Ready")["status"] == "True"
    assert bench.job["metadata"]["finalizers"] == ["streamjob.io/finalizer"]
    assert b'streamjob_controller_jobs{namespace="a",state="STABLE"} 1.0' in bench.metrics.text()


async def test_a_driver_is_made_only_after_the_status_that_names_it(bench: Bench) -> None:
    stored: list[int] = []

    def note(kind: object, thing: Object) -> None:
        if kind == POD and "status" not in thing:
            stored.append(bench.job["status"]["jobStatus"]["attempt"])
            assert thing["metadata"]["name"] == f"{NAME}-driver-{stored[-1]}"

    bench.cluster.changed = note
    await running(bench)

    assert len(stored) == 1


async def test_what_was_decided_on_a_version_that_changed_meanwhile_is_not_done(tmp_path: Path) -> None:
    def decide_slowly(resource: Resource, seen: Observation) -> Decision:
        slow.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | {"suspend": True})
        status = resource.status.replaced(observed_generation=resource.generation)
        return Decision(status=status, actions=(Emit(type="Normal", reason="Submit", message="x"),))

    slow = Bench(tmp_path, decide=decide_slowly)

    await slow.cluster.create(STREAM_JOB, a_job())
    assert await slow.jobs.reconcile(NAMESPACE, NAME) == 0
    assert "status" not in slow.job
    assert slow.events() == set()


async def test_a_status_that_does_not_change_is_not_written(bench: Bench) -> None:
    await running(bench)
    bench.cluster.calls.clear()
    for _ in range(5):
        await bench.step()

    assert {verb for verb, _, _ in bench.cluster.calls} == {"get", "list"}


async def test_what_an_older_definition_does_not_store_is_not_written_again_and_again(bench: Bench) -> None:
    replace = bench.cluster.replace

    async def without_selector(kind: Kind, thing: Object, *, subresource: str | None = None) -> Object:
        kept = {name: value for name, value in thing["status"].items() if name != "selector"}
        return await replace(kind, thing | {"status": kept}, subresource=subresource)

    bench.cluster.replace = without_selector  # type: ignore[method-assign]

    await running(bench)
    assert "selector" not in bench.job["status"]
    bench.cluster.calls.clear()
    for _ in range(5):
        await bench.step()

    assert {verb for verb, _, _ in bench.cluster.calls} == {"get", "list"}


async def test_a_create_whose_reply_is_lost_makes_no_second_driver(bench: Bench) -> None:
    await bench.cluster.create(STREAM_JOB, a_job())
    await bench.until(lambda: bench.lifecycle == "DEPLOYING")
    bench.cluster.lost_replies["create"] = [Unavailable("reset")]
    with pytest.raises(Unavailable):
        await bench.until(lambda: False)
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")
    assert len(bench.cluster.names(POD)) == 1


async def test_a_restarted_controller_continues_from_the_status(bench: Bench, tmp_path: Path) -> None:
    await running(bench)
    there = set(bench.cluster.objects)
    again = Bench(tmp_path, before=bench)
    for _ in range(5):
        await again.step()

    assert again.lifecycle == "STABLE"
    assert set(bench.cluster.objects) == there


async def test_an_invalid_spec_is_told_and_nothing_is_started(bench: Bench) -> None:
    job = SPEC["job"] | {"sinks": [{"name": "out", "input": "nobody", "format": "console"}]}
    await bench.cluster.create(STREAM_JOB, a_job(job=job))
    await bench.until(lambda: "status" in bench.job and bench.condition("Stalled")["status"] == "True")
    assert "nobody" in bench.condition("Stalled")["message"]
    assert bench.cluster.names(POD) == []


async def test_a_schedule_that_no_clock_shows_is_told_as_a_problem(bench: Bench) -> None:
    await bench.cluster.create(STREAM_JOB, a_job(savepoints={"schedule": "61 * * * *"}))
    for _ in range(4):
        await bench.step()

    assert bench.condition("Stalled")["reason"] == "InvalidSpec"
    assert "spec.savepoints.schedule: schedule '61 * * * *': Bad minute" in bench.condition("Stalled")["message"]
    assert bench.cluster.names(POD) == []


async def test_a_driver_that_changed_its_token_is_asked_with_the_new_one(bench: Bench) -> None:
    await running(bench)
    assert bench.driver is not None
    (name,) = bench.cluster.names(SECRET)
    bench.driver.token = "another"
    bench.cluster.edit(SECRET, NAMESPACE, name, data={"token": "YW5vdGhlcg=="})
    bench.driver.checkpoint(bench.now)
    await bench.until(lambda: bench.job["status"]["checkpoint"]["lastCompleted"]["id"] == 2)


async def test_a_look_at_a_job_that_rests_is_one_request_to_its_driver(bench: Bench) -> None:
    await running(bench)
    assert bench.driver is not None
    before = bench.driver.requests
    for _ in range(5):
        await bench.step()
    assert bench.driver.requests - before == 5


@pytest.mark.parametrize("older", [False, True])
async def test_a_stop_is_followed_whatever_the_version_of_the_runtime(bench: Bench, older: bool) -> None:
    await running(bench)
    first = bench.driver
    assert first is not None
    first.older = older
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | {"suspend": True})
    await bench.until(lambda: bench.lifecycle == "SUSPENDED")

    assert [path for path, _ in first.asked] == ["/v1/stop"]
    assert bench.job["status"]["savepoint"]["lastCompleted"]["path"].endswith("manifest.json")


async def test_a_changed_image_is_deployed_behind_a_savepoint(bench: Bench) -> None:
    await running(bench)
    first = bench.driver
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | {"image": "example/two"})
    await bench.until(lambda: bench.driver is not first and bench.lifecycle == "DEPLOYED")

    assert first is not None
    assert [(path, body["savepoint"]) for path, body in first.asked] == [("/v1/stop", True)]
    (pod,) = [thing for (kind, _, _), thing in bench.cluster.objects.items() if kind == POD]
    arguments = pod["spec"]["containers"][0]["args"]
    assert pod["spec"]["containers"][0]["image"] == "example/two"
    assert {"--require-snapshot", "latest"} <= set(arguments)


async def test_a_successor_is_asked_only_while_it_is_prepared_and_is_told_to_start_when_the_driver_has_stopped(
    bench: Bench,
) -> None:
    await running(bench, upgrade={"warmSuccessor": True})
    first = bench.driver
    assert first is not None
    spec = SPEC | {"image": "example/two", "upgrade": {"warmSuccessor": True}}
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=spec)
    await bench.until(lambda: bench.job["status"]["jobStatus"]["attempt"] > first.attempt)
    successor = bench.successor
    assert successor is not None
    assert successor.requests > 0
    assert [path for path, _ in first.asked] == ["/v1/stop"]

    await bench.until(lambda: bench.lifecycle == "DEPLOYED")

    assert {path for path, _ in successor.asked} == {"/v1/start"}
    assert successor.epoch > first.epoch
    assert "successor" not in bench.job["status"]["reconciliation"]
    await bench.until(lambda: bench.cluster.names(POD) == [f"{NAME}-driver-{successor.attempt}"])


async def test_a_revision_that_nothing_names_any_more_goes_with_its_job_file(bench: Bench) -> None:
    await running(bench, upgradeMode="last-state")
    (first,) = bench.cluster.names(CONTROLLER_REVISION)
    files = set(bench.cluster.names(CONFIG_MAP))
    for number in range(KEPT):
        spec = SPEC | {"upgradeMode": "last-state", "image": f"example/{number}"}
        bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=spec)
        await bench.until(lambda: bench.lifecycle == "UPGRADING")
        await bench.until(lambda: bench.lifecycle == "DEPLOYED")
        assert bench.driver is not None
        bench.driver.checkpoint(bench.now)
        await bench.until(lambda: bench.lifecycle == "STABLE")
    await bench.until(lambda: first not in bench.cluster.names(CONTROLLER_REVISION))

    assert len(bench.cluster.names(CONTROLLER_REVISION)) == KEPT
    assert not files & set(bench.cluster.names(CONFIG_MAP))


async def test_a_spec_that_cannot_go_on_from_the_state_leaves_the_running_job_alone(bench: Bench) -> None:
    await running(bench)
    first = bench.driver
    other = {**SPEC["job"], "parallelism": 3}
    bench.job_store.graph = {"operators": [{"name": "numbers", "uid": "numbers"}]}
    assert first is not None
    first.checkpoint(bench.now)
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | {"job": other})
    await bench.until(lambda: bench.condition("StateCompatible")["status"] == "False")
    for _ in range(5):
        await bench.step()

    assert bench.driver is first
    assert first.asked == []
    assert "The uid 'numbers' is of the kind source here" in bench.condition("StateCompatible")["message"]


async def test_a_deleted_job_is_stopped_before_its_finalizer_goes(bench: Bench) -> None:
    await running(bench)
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    await bench.until(lambda: (STREAM_JOB, NAMESPACE, NAME) not in bench.cluster.objects)

    assert bench.driver is not None
    assert bench.driver.stopped
    assert await bench.jobs.reconcile(NAMESPACE, NAME) == WorkLoops.GONE
    assert b"streamjob_controller_jobs{" not in bench.metrics.text()
    assert bench.job_store.objects()


async def test_the_driver_of_a_job_that_is_deleted_without_its_objects_runs_on(bench: Bench) -> None:
    await running(bench, deletionPolicy="Delete")
    meta = bench.job["metadata"]
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, metadata=meta | {"finalizers": ["orphan", *meta["finalizers"]]})
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    await bench.until(lambda: bench.job["metadata"]["finalizers"] == ["orphan"])
    for _ in range(3):
        await bench.step()

    assert bench.driver is not None
    assert bench.driver.asked == []
    assert not bench.driver.stopped
    # The garbage collector waits for each object whose metadata it cannot change.
    assert bench.cluster.names(CONTROLLER_REVISION) == []
    assert bench.cluster.names(CONFIG_MAP)
    assert any(key.startswith("log/") for key in bench.job_store.objects())


async def test_the_checkpoints_of_a_deleted_job_go_with_it_if_it_says_so(bench: Bench) -> None:
    await running(bench, deletionPolicy="Delete")
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    await bench.until(lambda: (STREAM_JOB, NAMESPACE, NAME) not in bench.cluster.objects)
    assert [key.partition("/")[0] for key in sorted(bench.job_store.objects())] == ["log-copies", "log"]


async def test_a_savepoint_that_is_asked_for_by_a_resource_is_taken_once(bench: Bench) -> None:
    await running(bench)
    await bench.cluster.create(STREAM_SNAPSHOT, snapshot())
    await bench.until(lambda: state_of(bench) == "Completed")
    for _ in range(3):
        await bench.step()

    status = bench.cluster.objects[(STREAM_SNAPSHOT, NAMESPACE, "before-release")]["status"]
    assert bench.driver is not None
    assert [path for path, _ in bench.driver.asked] == ["/v1/savepoints"]
    assert status["path"].startswith("s3://bucket/snapshots/savepoints/orders-2-")
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
    }


async def test_a_savepoint_that_fails_is_tried_again_as_often_as_it_may(bench: Bench) -> None:
    await running(bench)
    assert bench.driver is not None
    bench.driver.refuses = "no space is left"
    await bench.cluster.create(STREAM_SNAPSHOT, snapshot(savepoint={}, backoffLimit=2))
    await bench.until(lambda: state_of(bench) == "Failed")
    assert len({body["triggerId"] for _, body in bench.driver.asked}) == 3
    thing = bench.cluster.objects[(STREAM_SNAPSHOT, NAMESPACE, "before-release")]
    assert thing["status"]["error"] == "no space is left"
    assert "SnapshotError" in bench.events()


async def test_a_snapshot_waits_while_its_job_is_suspended(bench: Bench) -> None:
    await running(bench)
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | {"suspend": True})
    await bench.until(lambda: bench.lifecycle == "SUSPENDED")
    await bench.cluster.create(STREAM_SNAPSHOT, snapshot())
    for _ in range(10):
        await bench.step()
    assert state_of(bench) == "Pending"

    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC)
    await bench.until(lambda: state_of(bench) == "Completed")


async def test_a_snapshot_is_abandoned_when_its_job_is_gone(bench: Bench) -> None:
    await bench.cluster.create(STREAM_SNAPSHOT, snapshot())
    await bench.until(lambda: state_of(bench) == "Pending")
    bench.now += 3600
    bench.cluster.objects[(STREAM_SNAPSHOT, NAMESPACE, "before-release")]["metadata"]["creationTimestamp"] = (
        "2026-01-01T00:00:00Z"
    )
    await bench.until(lambda: state_of(bench) == "Abandoned")


async def test_a_savepoint_that_is_disposed_of_goes_once_the_job_does_not_need_it(bench: Bench) -> None:
    await running(bench)
    await bench.cluster.create(STREAM_SNAPSHOT, snapshot(savepoint={"disposeOnDelete": True}))
    await bench.until(lambda: state_of(bench) == "Completed")
    assert bench.driver is not None
    await bench.cluster.delete(STREAM_SNAPSHOT, NAMESPACE, "before-release")
    for _ in range(5):
        await bench.step()
    assert bench.cluster.names(STREAM_SNAPSHOT) == ["before-release"]

    bench.driver.checkpoint(bench.now)
    await bench.until(lambda: bench.cluster.names(STREAM_SNAPSHOT) == [])
    savepoints = bench.root / "bucket" / "snapshots" / "savepoints"
    assert [path for path in savepoints.rglob("*") if path.is_file()] == []


async def test_a_deleted_savepoint_says_which_job_it_waits_for_and_goes_once_that_is_gone(bench: Bench) -> None:
    claimant = a_job() | {"metadata": {"namespace": NAMESPACE, "name": "other", "uid": "other-uid"}}
    root = f"{LOCATION}/{NAMESPACE}/other/"

    await running(bench)
    await bench.cluster.create(STREAM_SNAPSHOT, snapshot(savepoint={"disposeOnDelete": True}))
    await bench.until(lambda: state_of(bench) == "Completed")
    assert bench.driver is not None
    bench.driver.checkpoint(bench.now)
    (manifest,) = (bench.root / "bucket" / "snapshots" / "savepoints").glob("*/manifest.json")
    marker = Marker(kind="claim", job="other", namespace=NAMESPACE, root=root)
    manifest.with_name("claimed.json").write_bytes(marker.encoded())
    await bench.cluster.create(STREAM_JOB, claimant)

    await bench.cluster.delete(STREAM_SNAPSHOT, NAMESPACE, "before-release")
    for _ in range(5):
        await bench.step()

    assert manifest.exists()
    conditions = bench.cluster.objects[(STREAM_SNAPSHOT, NAMESPACE, "before-release")]["status"]["conditions"]
    told = {each["type"]: each for each in conditions}
    assert (told["Ready"]["status"], told["Reconciling"]["status"]) == ("False", "True")
    assert told["Reconciling"]["reason"] == "SavepointClaimed"
    assert f"job {NAMESPACE}/other has claimed it" in told["Reconciling"]["message"]
    assert "take its finalizer off" in told["Reconciling"]["message"]
    assert "SavepointClaimed" in bench.events()

    await bench.cluster.delete(STREAM_JOB, NAMESPACE, "other")
    await bench.until(lambda: bench.cluster.names(STREAM_SNAPSHOT) == [])
    savepoints = bench.root / "bucket" / "snapshots" / "savepoints"
    assert [path for path in savepoints.rglob("*") if path.is_file()] == []


async def test_a_deleted_savepoint_that_its_job_needs_says_so_in_its_conditions(bench: Bench) -> None:
    await running(bench)
    await bench.cluster.create(STREAM_SNAPSHOT, snapshot(savepoint={"disposeOnDelete": True}))
    await bench.until(lambda: state_of(bench) == "Completed")
    await bench.cluster.delete(STREAM_SNAPSHOT, NAMESPACE, "before-release")
    await bench.step()
    conditions = bench.cluster.objects[(STREAM_SNAPSHOT, NAMESPACE, "before-release")]["status"]["conditions"]
    told = {each["type"]: each for each in conditions}
    assert told["Reconciling"]["status"] == "True"
    assert told["Reconciling"]["reason"] == "SavepointNeeded"
    assert "once a newer checkpoint is complete" in told["Reconciling"]["message"]


async def test_a_savepoint_that_is_not_disposed_of_outlives_its_resource_and_its_job(bench: Bench) -> None:
    await running(bench)
    await bench.cluster.create(STREAM_SNAPSHOT, snapshot())
    await bench.until(lambda: state_of(bench) == "Completed")
    await bench.cluster.delete(STREAM_SNAPSHOT, NAMESPACE, "before-release")
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    await bench.until(lambda: (STREAM_JOB, NAMESPACE, NAME) not in bench.cluster.objects)
    assert len(list((bench.root / "bucket" / "snapshots" / "savepoints").glob("*/manifest.json"))) == 1
