"""A pod that does not get going: its newest warning is asked for, and says which volume or object is missing."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.operator.edge.fake_cluster import FakeCluster

from streamjob_operator.cluster.api import Refused
from streamjob_operator.cluster.kinds import EVENT, Kind, Object
from streamjob_operator.decisions.values.observation import DriverPod, PodPhase
from streamjob_operator.reconciling.pod_events import explained

CREATED = 1000.0
MISSING = 'MountVolume.SetUp failed for volume "keys" : secret "gone" not found'


def waiting(reason: str = "ContainerCreating", deleting: float | None = None) -> DriverPod:
    return DriverPod(
        name="orders-driver-7",
        attempt=7,
        uid="u7",
        phase=PodPhase.PENDING,
        created=CREATED,
        reason=reason,
        deleting=deleting,
    )


def warning(name: str, message: str, time: str, uid: str = "u7", kind: str = "Warning") -> Object:
    meta = {"namespace": "a", "name": name}
    event = {"metadata": meta, "type": kind, "reason": "FailedMount", "message": message, "lastTimestamp": time}
    return event | {"apiVersion": "v1", "kind": "Event", "involvedObject": {"uid": uid}}


def ask(pod: DriverPod, *events: Object, after: float = 10.0, cluster: FakeCluster | None = None) -> DriverPod:
    async def scenario() -> DriverPod:
        api = cluster or FakeCluster()
        for each in events:
            await api.create(EVENT, each)
        return await explained(api, "a", pod, CREATED + after)

    return asyncio.run(scenario())


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_the_newest_warning_of_the_pod_says_why_it_is_not_ready(reason: str) -> None:
    found = ask(
        waiting(reason),
        warning("a", "timed out", "2026-01-01T00:00:01Z"),
        warning("b", MISSING, "2026-01-01T00:00:03Z"),
        warning("c", "pulled", "2026-01-01T00:00:04Z", kind="Normal"),
        warning("d", "of another pod", "2026-01-01T00:00:05Z", uid="u8"),
    )

    assert (found.reason, found.message) == ("FailedMount", f"pod orders-driver-7: {MISSING}")


def test_a_pod_without_warnings_stays_as_it_is() -> None:
    assert ask(waiting()) == waiting()


@pytest.mark.parametrize(
    ("pod", "after"),
    [(waiting(), 4.0), (waiting("ImagePullBackOff"), 10.0), (waiting(""), 10.0), (waiting(deleting=1005.0), 10.0)],
)
def test_events_are_asked_for_only_where_nothing_else_says_why(pod: DriverPod, after: float) -> None:
    assert ask(pod, warning("a", MISSING, "2026-01-01T00:00:01Z"), after=after) == pod


def test_without_the_right_to_list_events_the_pod_is_as_its_status_says() -> None:
    class Strict(FakeCluster):
        async def list(self, kind: Kind, namespace: str | None = None, **_: object) -> list[Object]:
            raise Refused("events is forbidden")

    assert ask(waiting(), cluster=Strict()) == waiting()
