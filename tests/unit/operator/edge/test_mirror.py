"""The API server's cost of a reconciliation; a mirror that lags misleads no one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.operator.edge.fake_cluster import FakeCluster

from streamjob_operator.cluster.api import AlreadyExists, Conflict, NotFound
from streamjob_operator.cluster.kinds import CONTROLLER_REVISION, POD, STREAM_JOB, Kind, Object
from streamjob_operator.machinery.mirror import MIRRORED, Mirror, MirroredCluster
from streamjob_operator.objects.names import ATTEMPT_LABEL, REVISION_ANNOTATION, UID_LABEL
from streamjob_operator.reconciling.driver_pods import control_url, driver_pod

OF_JOB = f"{UID_LABEL}=u1"
_NOT_SCHEDULED = {"type": "PodScheduled", "status": "False", "message": "no node"}
_DRAINED = {"type": "DisruptionTarget", "status": "True", "reason": "Drained"}


def job(**more: Any) -> Object:
    return {"kind": "StreamJob", "metadata": {"namespace": "a", "name": "orders", "uid": "u1"}, **more}


def pod(name: str = "orders-driver-1", uid: str = "u1") -> Object:
    meta = {"namespace": "a", "name": name, "labels": {UID_LABEL: uid}, "managedFields": [{"manager": "x"}]}
    return {"kind": "Pod", "metadata": meta, "spec": {"containers": []}, "status": {"phase": "Running"}}


class Bench:
    """A mirror with an API in memory; the watch delivers changes on command."""

    def __init__(self) -> None:
        self.api = FakeCluster()
        self.mirror = Mirror()
        self.cluster = MirroredCluster(self.api, self.mirror)

    def watch(self) -> None:
        """Bring everything as it stands, as a watch does that has caught up."""
        for (kind, _, _), thing in self.api.objects.items():
            self.mirror.put(kind, thing)

    async def sweep(self) -> list[Object]:
        """List the metadata of everything, and return what is gone."""
        gone = []
        for kind in MIRRORED:
            before = self.mirror.versions(kind)
            gone += self.mirror.listed(kind, await self.api.list(kind, metadata_only=True), before)
        return gone

    def asked(self) -> list[tuple[str, str, str]]:
        """Return what the API was asked since the last time."""
        calls, self.api.calls = self.api.calls, []
        return calls


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def watched(bench: Bench, kind: Kind, *things: Object) -> None:
    for thing in things:
        await bench.api.create(kind, thing)
    await bench.sweep()
    bench.watch()
    bench.asked()


async def test_what_the_watch_has_brought_costs_no_request(bench: Bench) -> None:
    await bench.api.create(STREAM_JOB, job())
    await watched(bench, POD, pod(), pod("other-driver-1", "u2"))

    assert (await bench.cluster.get(STREAM_JOB, "a", "orders"))["metadata"]["uid"] == "u1"
    found = await bench.cluster.list(POD, "a", labels=OF_JOB)
    assert [each["metadata"]["name"] for each in found] == ["orders-driver-1"]
    with pytest.raises(NotFound):
        await bench.cluster.get(STREAM_JOB, "a", "payments")
    assert await bench.cluster.list(CONTROLLER_REVISION, "a", labels=OF_JOB) == []
    assert bench.asked() == []


async def test_of_a_pod_only_what_is_read_is_kept(bench: Bench) -> None:
    await watched(bench, POD, pod())
    (found,) = await bench.cluster.list(POD, "a", labels=OF_JOB)

    assert "spec" not in found
    assert "managedFields" not in found["metadata"]
    assert found["status"] == {"phase": "Running"}


async def test_before_everything_was_listed_the_api_is_asked(bench: Bench) -> None:
    await bench.api.create(STREAM_JOB, job())
    bench.watch()
    bench.asked()

    await bench.cluster.get(STREAM_JOB, "a", "orders")
    await bench.cluster.list(POD, "a", labels=OF_JOB)
    assert bench.asked() == [("get", "streamjobs", "orders"), ("list", "pods", "a")]


async def test_what_a_listing_shows_and_the_watch_has_not_brought_is_read_once_from_the_api(bench: Bench) -> None:
    await watched(bench, STREAM_JOB, job())
    bench.api.edit(STREAM_JOB, "a", "orders", spec={"suspend": True})
    await bench.api.create(POD, pod())
    assert "spec" not in await bench.cluster.get(STREAM_JOB, "a", "orders")

    await bench.sweep()
    bench.asked()
    for _ in range(2):
        assert (await bench.cluster.get(STREAM_JOB, "a", "orders"))["spec"] == {"suspend": True}
        assert len(await bench.cluster.list(POD, "a", labels=OF_JOB)) == 1
    assert bench.asked() == [("get", "streamjobs", "orders"), ("list", "pods", "a")]


async def test_what_was_written_is_seen_at_once(bench: Bench) -> None:
    await watched(bench, STREAM_JOB, job())
    read = await bench.cluster.get(STREAM_JOB, "a", "orders")
    await bench.cluster.replace(STREAM_JOB, read | {"status": {"attempt": 1}}, subresource="status")
    await bench.cluster.create(POD, pod())
    bench.asked()

    assert (await bench.cluster.get(STREAM_JOB, "a", "orders"))["status"] == {"attempt": 1}
    assert len(await bench.cluster.list(POD, "a", labels=OF_JOB)) == 1
    assert bench.asked() == []


async def test_an_older_version_that_the_watch_brings_late_replaces_nothing(bench: Bench) -> None:
    await watched(bench, STREAM_JOB, job())
    old = await bench.cluster.get(STREAM_JOB, "a", "orders")
    await bench.cluster.replace(STREAM_JOB, old | {"status": {"attempt": 1}}, subresource="status")

    bench.mirror.put(STREAM_JOB, old)
    bench.mirror.drop(STREAM_JOB, old)
    assert (await bench.cluster.get(STREAM_JOB, "a", "orders"))["status"] == {"attempt": 1}


async def test_behind_a_conflict_the_object_is_read_from_the_api(bench: Bench) -> None:
    await watched(bench, STREAM_JOB, job())
    read = await bench.cluster.get(STREAM_JOB, "a", "orders")
    bench.api.edit(STREAM_JOB, "a", "orders", spec={"suspend": True})
    with pytest.raises(Conflict):
        await bench.cluster.replace(STREAM_JOB, read | {"status": {}}, subresource="status")

    assert (await bench.cluster.get(STREAM_JOB, "a", "orders"))["spec"] == {"suspend": True}


async def test_a_pod_that_exists_already_is_looked_for(bench: Bench) -> None:
    await watched(bench, STREAM_JOB, job())
    await bench.api.create(POD, pod())
    with pytest.raises(AlreadyExists):
        await bench.cluster.create(POD, pod())

    assert len(await bench.cluster.list(POD, "a", labels=OF_JOB)) == 1


async def test_what_is_gone_without_a_word_of_the_watch_a_listing_finds(bench: Bench) -> None:
    await watched(bench, POD, pod())
    await bench.api.delete(POD, "a", "orders-driver-1")
    assert len(await bench.cluster.list(POD, "a", labels=OF_JOB)) == 1

    gone = await bench.sweep()
    assert [each["metadata"]["name"] for each in gone] == ["orders-driver-1"]
    assert await bench.cluster.list(POD, "a", labels=OF_JOB) == []


async def test_what_came_while_a_listing_was_under_way_is_not_taken_for_gone(bench: Bench) -> None:
    await watched(bench, STREAM_JOB, job())
    before = bench.mirror.versions(POD)
    listing = await bench.api.list(POD, metadata_only=True)
    await bench.cluster.create(POD, pod())

    assert bench.mirror.listed(POD, listing, before) == []
    assert len(await bench.cluster.list(POD, "a", labels=OF_JOB)) == 1


async def test_a_job_whose_last_finalizer_was_taken_off_is_gone(bench: Bench) -> None:
    held = job()
    held["metadata"]["finalizers"] = ["streamjob.io/finalizer"]
    await watched(bench, STREAM_JOB, held)
    await bench.cluster.delete(STREAM_JOB, "a", "orders")
    await bench.cluster.patch(STREAM_JOB, "a", "orders", {"metadata": {"finalizers": []}})

    with pytest.raises(NotFound):
        await bench.cluster.get(STREAM_JOB, "a", "orders")


async def test_a_revision_that_was_deleted_is_seen_at_once(bench: Bench) -> None:
    revision = pod("orders-abc") | {"kind": "ControllerRevision"}
    await watched(bench, CONTROLLER_REVISION, revision)
    assert len(await bench.cluster.list(CONTROLLER_REVISION, "a", labels=OF_JOB)) == 1
    await bench.cluster.delete(CONTROLLER_REVISION, "a", "orders-abc")

    assert await bench.cluster.list(CONTROLLER_REVISION, "a", labels=OF_JOB) == []


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "reason": "Evicted", "message": "out of disk"},
        {"phase": "Pending", "conditions": [_NOT_SCHEDULED]},
        {
            "phase": "Running",
            "conditions": [_NOT_SCHEDULED, _DRAINED],
        },
        {
            "phase": "Pending",
            "initContainerStatuses": [{"name": "deps", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
        },
        {
            "phase": "Succeeded",
            "podIP": "10.0.0.1",
            "containerStatuses": [
                {"name": "sidecar", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
                {
                    "name": "streamjob",
                    "image": "example/one",
                    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
                    "state": {
                        "terminated": {
                            "exitCode": 0,
                            "message": '{"state": "STOPPED", "message": "as asked"}',
                            "startedAt": "2026-01-01T00:00:00Z",
                        }
                    },
                },
            ],
        },
    ],
    ids=["evicted", "not scheduled", "drained", "no image", "ended"],
)
def test_a_mirrored_pod_tells_of_its_driver_what_the_pod_tells(status: Object) -> None:
    whole = pod() | {"status": status | {"podIPs": [{"ip": "10.0.0.1"}], "qosClass": "Burstable"}}
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    whole["spec"] = {"containers": [{"name": "streamjob", "image": "example/one", "resources": resources}]}
    whole["metadata"] |= {
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {UID_LABEL: "u1", ATTEMPT_LABEL: "3"},
        "annotations": {REVISION_ANNOTATION: "orders-abc", "of-others": "x"},
    }
    mirror = Mirror()
    mirror.put(POD, whole)
    (kept,) = mirror.of_job(POD, "a", "u1")

    assert driver_pod(kept) == driver_pod(whole) is not None
    assert control_url(kept) == control_url(whole)
    assert "qosClass" not in kept["status"]
    assert "image" not in kept["spec"]["containers"][0]


def test_what_objects_have_in_common_is_kept_once() -> None:
    mirror = Mirror()
    for name in ("orders", "returns"):
        meta = {"namespace": "a", "name": name, "uid": name, "resourceVersion": "1"}
        mirror.put(STREAM_JOB, json.loads(json.dumps({"metadata": meta, "spec": {"upgradeMode": "last-state"}})))

    first, second = (mirror.get(STREAM_JOB, ("a", name)) for name in ("orders", "returns"))
    assert first is not None
    assert second is not None
    assert all(one is other for one, other in zip(first["spec"], second["spec"], strict=True))
    assert first["spec"]["upgradeMode"] is second["spec"]["upgradeMode"]
