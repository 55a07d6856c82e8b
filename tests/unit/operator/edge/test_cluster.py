"""Access to the Kubernetes API: errors by cause, events, revisions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.operator.edge.fake_cluster import FakeCluster

from streamjob_operator.cluster.api import (
    AlreadyExists,
    ClusterError,
    Conflict,
    NotFound,
    Refused,
    Unavailable,
    error_of,
)
from streamjob_operator.cluster.events import EventRecorder
from streamjob_operator.cluster.kinds import CONTROLLER_REVISION, EVENT, LEASE, POD, STREAM_JOB, Object, kind_of
from streamjob_operator.cluster.revisions import ensure_revision, list_revisions
from streamjob_operator.decisions.values.revision import Revision


def job(name: str = "orders", uid: str = "u1") -> Object:
    return {
        "apiVersion": "streamjob.io/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"namespace": "a", "name": name, "uid": uid, "resourceVersion": "7", "generation": 1},
    }


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (403, "Forbidden", Refused),
        (422, "Invalid", Refused),
        (401, "Unauthorized", Unavailable),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (504, "Timeout", Unavailable),
    ],
)
def test_an_answer_of_the_api_is_told_by_its_cause(status: int, reason: str, error: type[ClusterError]) -> None:
    answer = json.dumps({"kind": "Status", "reason": reason, "message": "because"}).encode()

    found = error_of(status, answer, "GET /x")

    assert type(found) is error
    assert "because" in str(found)


def test_an_answer_that_is_no_json_is_told_as_well() -> None:
    assert isinstance(error_of(502, b"<html>bad gateway</html>", "GET /x"), Unavailable)


def test_kinds_know_their_paths() -> None:
    assert POD.path("a", "p") == "/api/v1/namespaces/a/pods/p"
    assert STREAM_JOB.path("a", "j", "status") == "/apis/streamjob.io/v1alpha1/namespaces/a/streamjobs/j/status"
    assert LEASE.path(None) == "/apis/coordination.k8s.io/v1/leases"
    assert kind_of(job()) is STREAM_JOB


class Calendar:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


async def test_an_event_that_is_repeated_counts_up_instead_of_piling_up() -> None:
    cluster, calendar = FakeCluster(), Calendar()
    recorder = EventRecorder(cluster, now=calendar)
    for _ in range(3):
        await recorder.record(job(), "Normal", "Deployed", "attempt 1 was started")
        calendar.time += timedelta(minutes=1)

    (event,) = [thing for (kind, _, _), thing in cluster.objects.items() if kind == EVENT]
    assert event["count"] == 3
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z")


async def test_a_storm_of_the_same_event_is_one_request() -> None:
    cluster, calendar = FakeCluster(), Calendar()
    recorder = EventRecorder(cluster, now=calendar)
    for _ in range(100):
        await recorder.record(job(), "Warning", "Restarting", "exit code 137")

    assert len(cluster.calls) == 1


async def test_different_events_are_kept_apart() -> None:
    cluster = FakeCluster()
    recorder = EventRecorder(cluster, now=Calendar())
    await recorder.record(job(), "Normal", "Deployed", "attempt 1")
    await recorder.record(job(), "Normal", "Deployed", "attempt 2")
    await recorder.record(job(uid="u2"), "Normal", "Deployed", "attempt 1")

    assert len(cluster.names(EVENT)) == 3


async def test_an_event_that_cannot_be_recorded_fails_nothing() -> None:
    cluster = FakeCluster()
    cluster.faults["create"] = [Unavailable("no answer")]

    await EventRecorder(cluster, now=Calendar()).record(job(), "Normal", "Deployed", "attempt 1")

    assert cluster.names(EVENT) == []


async def test_the_name_of_an_event_on_a_long_name_is_valid() -> None:
    cluster = FakeCluster()
    await EventRecorder(cluster, now=Calendar()).record(job("n" * 253), "Normal", "Deployed", "x" * 5000)

    (name,) = cluster.names(EVENT)
    assert len(name) <= 253


async def test_a_revision_is_stored_once_and_read_back() -> None:
    cluster = FakeCluster()
    revision = Revision("orders-0123456789", {"image": "a"})
    for _ in range(2):
        await ensure_revision(cluster, job(), revision)

    assert await list_revisions(cluster, job()) == (revision,)
    stored = cluster.objects[(CONTROLLER_REVISION, "a", revision.name)]
    assert stored["metadata"]["ownerReferences"][0]["uid"] == "u1"


async def test_revisions_of_a_job_of_that_name_that_is_gone_are_not_taken_for_its_own() -> None:
    cluster = FakeCluster()
    revision = Revision("orders-0123456789", {"image": "a"})
    await ensure_revision(cluster, job(uid="old"), revision)

    assert await list_revisions(cluster, job(uid="new")) == ()
    await ensure_revision(cluster, job(uid="new"), revision)
    assert await list_revisions(cluster, job(uid="new")) == (revision,)
