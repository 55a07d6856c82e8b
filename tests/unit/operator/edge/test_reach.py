"""The controller's work for a job whose snapshots it cannot reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.operator.edge.bench import NAME, NAMESPACE, SPEC, Bench, a_job
from tests.unit.stored.job import Job

from streamjob.protocol.log.records import JobId
from streamjob_operator.cluster.kinds import STREAM_JOB, STREAM_SNAPSHOT
from streamjob_operator.evaluation.validation import read_problems
from streamjob_operator.machinery.work_queue import WorkLoops
from streamjob_operator.resources.base import Metadata
from streamjob_operator.storage.disposal import NotDisposable


def on_a_volume(**spec: Any) -> dict[str, Any]:
    return {
        "checkpointing": {"interval": "10s", "location": "/data/snapshots"},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "driver": {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        **spec,
    }


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A controller that may not use its own credentials, and whose stores cannot be opened."""
    bench = Bench(tmp_path, ambient=False)
    monkeypatch.setattr(bench, "_open", lambda *_: pytest.fail("a store was opened"))
    return bench


async def make_stable(bench: Bench, spec: dict[str, Any]) -> None:
    await bench.cluster.create(STREAM_JOB, a_job(**spec))
    await bench.until(lambda: bench.lifecycle == "DEPLOYED", rounds=100)
    assert bench.driver is not None
    bench.driver.checkpoint(bench.now)
    await bench.until(lambda: bench.lifecycle == "STABLE")


@pytest.mark.parametrize(("spec", "reason"), [({}, "NoCredentials"), (on_a_volume(), "OnVolume")], ids=str)
async def test_a_job_runs_is_upgraded_and_says_that_its_store_is_out_of_reach(
    bench: Bench, spec: dict[str, Any], reason: str
) -> None:
    await make_stable(bench, spec)
    assert bench.condition("Ready")["status"] == "True"
    assert (bench.condition("StoreInReach")["status"], bench.condition("StoreInReach")["reason"]) == (
        "False",
        reason,
    )
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=bench.job["spec"] | {"image": "example/two"})
    await bench.until(lambda: bench.job["status"]["jobStatus"]["attempt"] == 2)
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")


@pytest.mark.parametrize("spec", [{}, on_a_volume()], ids=["no credentials", "volume"])
async def test_what_is_out_of_reach_is_left_when_the_job_is_deleted_and_that_is_said(
    bench: Bench, spec: dict[str, Any]
) -> None:
    await make_stable(bench, spec | {"deletionPolicy": "Delete"})
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    await bench.until(lambda: (STREAM_JOB, NAMESPACE, NAME) not in bench.cluster.objects, rounds=100)
    assert "CleanupFailed" in bench.events()


async def test_a_savepoint_out_of_reach_is_let_go_with_its_files_left(bench: Bench) -> None:
    snapshot = {
        "apiVersion": "streamjob.io/v1alpha1",
        "kind": "StreamSnapshot",
        "metadata": {"namespace": NAMESPACE, "name": "one"},
        "spec": {"jobRef": {"name": NAME}, "savepoint": {"disposeOnDelete": True}},
    }

    await make_stable(bench, {})
    made = await bench.cluster.create(STREAM_SNAPSHOT, snapshot)

    def state() -> str | None:
        stored = bench.cluster.objects[(STREAM_SNAPSHOT, NAMESPACE, made["metadata"]["name"])]
        found = (stored.get("status") or {}).get("state")
        return None if found is None else str(found)

    await bench.until(lambda: state() == "Completed")
    await bench.cluster.delete(STREAM_SNAPSHOT, NAMESPACE, "one")
    await bench.until(lambda: "one" not in bench.cluster.names(STREAM_SNAPSHOT))
    assert "Cleanup" in bench.events()


async def test_a_savepoint_that_cannot_be_deleted_says_why_to_whom_waits_for_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    other = Job(tmp_path / "bucket" / "snapshots", JobId("elsewhere", NAME))
    directory = other.savepoint(1, b"state")
    snapshot = {
        "apiVersion": "streamjob.io/v1alpha1",
        "kind": "StreamSnapshot",
        "metadata": {"namespace": NAMESPACE, "name": "theirs", "finalizers": ["streamjob.io/finalizer"]},
        "spec": {
            "jobRef": {"name": NAME},
            "savepoint": {"path": f"s3://bucket/snapshots/savepoints/{directory.name}", "disposeOnDelete": True},
        },
    }

    await bench.cluster.create(STREAM_SNAPSHOT, snapshot)
    assert await bench.snapshots.reconcile(NAMESPACE, "theirs") != WorkLoops.GONE
    await bench.cluster.delete(STREAM_SNAPSHOT, NAMESPACE, "theirs")
    with pytest.raises(NotDisposable):
        await bench.snapshots.reconcile(NAMESPACE, "theirs")
    assert "CleanupFailed" in bench.events()
    assert "theirs" in bench.cluster.names(STREAM_SNAPSHOT)
    assert (directory / "manifest.json").exists()


async def test_a_snapshot_of_a_place_without_a_savepoint_is_not_complete_until_there_is_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    stored = Job(tmp_path / "bucket" / "snapshots", JobId(NAMESPACE, NAME))
    directory = stored.savepoint(1, b"state")
    away = directory.rename(directory.with_name("away"))
    snapshot = {
        "apiVersion": "streamjob.io/v1alpha1",
        "kind": "StreamSnapshot",
        "metadata": {"namespace": NAMESPACE, "name": "old"},
        "spec": {
            "jobRef": {"name": NAME},
            "savepoint": {"path": f"s3://bucket/snapshots/savepoints/{directory.name}"},
        },
    }

    def status() -> dict[str, Any]:
        found: dict[str, Any] = bench.cluster.objects[(STREAM_SNAPSHOT, NAMESPACE, "old")]["status"]
        return found

    await bench.cluster.create(STREAM_SNAPSHOT, snapshot)
    await bench.snapshots.reconcile(NAMESPACE, "old")
    assert status()["state"] == "Pending"
    assert f"there is no savepoint at s3://bucket/snapshots/savepoints/{directory.name}" in status()["error"]
    away.rename(directory)
    bench.now += 3600
    await bench.snapshots.reconcile(NAMESPACE, "old")
    assert status()["state"] == "Completed"
    assert (status()["id"], status()["sizeBytes"]) == (1, len(b"state"))


async def test_a_job_does_not_leave_a_place_of_which_nobody_knows_the_newest_snapshot(bench: Bench) -> None:
    elsewhere = {"checkpointing": {"interval": "10s", "location": "s3://elsewhere/snapshots"}}

    await make_stable(bench, {})
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=bench.job["spec"] | elsewhere)
    for _ in range(10):
        await bench.step()
    assert (bench.condition("Stalled")["status"], bench.condition("Stalled")["reason"]) == (
        "True",
        "StateIncompatible",
    )
    assert bench.job["status"]["jobStatus"]["attempt"] == 1

    named = {"initialSavepointPath": "s3://bucket/snapshots/a/manifest.json", "savepointRedeployNonce": 1}
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=bench.job["spec"] | named)
    await bench.until(lambda: bench.job["status"]["jobStatus"]["attempt"] == 2)


def problems(**spec: Any) -> tuple[str, ...]:
    thing = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": SPEC | spec}
    assert Metadata.model_validate(thing["metadata"]).name == NAME
    return read_problems(thing)[1]


def test_a_place_on_a_mounted_volume_is_one_for_snapshots() -> None:
    assert problems(**on_a_volume()) == ()
    assert problems(**on_a_volume(checkpointing={"location": "file:///data"})) == ()
    assert problems(**on_a_volume(upgradeMode="stateless", volumes=[], driver={})) == ()


def test_a_volume_of_the_pod_template_counts_as_well() -> None:
    pod = {
        "containers": [{"name": "streamjob", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "hostPath": {"path": "/srv"}}],
    }
    assert problems(**on_a_volume(volumes=[], driver={"template": {"spec": pod}})) == ()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (on_a_volume(driver={}), "no volume is mounted there"),
        (on_a_volume(executor={"instances": 2}), "executor.volumeMounts"),
        (on_a_volume(checkpointing={"location": "/database"}), "no volume is mounted there"),
        (on_a_volume(checkpointing={"location": "/var/lib/streamjob/snapshots"}), "no volume is mounted there"),
        (on_a_volume(volumes=[{"name": "data", "emptyDir": {}}]), "gone with the pod"),
        (on_a_volume(volumes=[{"name": "data", "configMap": {"name": "x"}}]), "cannot be written to"),
        (
            on_a_volume(driver={"volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}]}),
            "cannot be written to",
        ),
    ],
)
def test_a_place_that_is_gone_with_the_pod_or_read_only_is_refused(spec: dict[str, Any], said: str) -> None:
    (problem,) = problems(**spec)

    assert problem.startswith("spec.checkpointing.location: ")
    assert said in problem


def test_a_place_of_savepoints_is_looked_at_too() -> None:
    (problem,) = problems(savepoints={"location": "/savepoints"})

    assert problem.startswith("spec.savepoints.location: /savepoints is in the driver's pod")
