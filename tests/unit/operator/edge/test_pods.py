"""Reading a driver pod, and a StreamJob as a user wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamjob.errors import ExitCode
from streamjob.protocol.coordination.triggers import SnapshotKind
from streamjob.protocol.lifecycle import JobState
from streamjob.snapshot.record import RecordKind
from streamjob_operator.cluster.kinds import Object
from streamjob_operator.decisions.values.observation import Completion, DriverPod, PodPhase
from streamjob_operator.evaluation.validation import judge
from streamjob_operator.reconciling.driver_pods import control_url, driver_pod
from streamjob_operator.reconciling.observing import log_as_remembered
from streamjob_operator.resources.status import CheckpointStatus, CompletedCheckpoint, StreamJobStatus


def pod(status: Object, **meta: Any) -> Object:
    base = {
        "name": "orders-driver-7",
        "uid": "u7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"streamjob.io/attempt": "7"},
        "annotations": {"streamjob.io/revision": "orders-1"},
    }
    return {"metadata": base | meta, "status": status}


def read(status: Object, **meta: Any) -> DriverPod:
    found = driver_pod(pod(status, **meta))
    assert found is not None
    return found


def container(state: Object) -> Object:
    return {"containerStatuses": [{"name": "sidecar", "state": {}}, {"name": "streamjob", "state": state}]}


def test_a_pod_that_waits_for_a_node_says_why() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    found = read({"phase": "Pending", "conditions": [condition]})

    assert (found.phase, found.reason, found.message) == (PodPhase.PENDING, "Unschedulable", "0/3 nodes")
    assert (found.attempt, found.revision, found.started) == (7, "orders-1", None)


@pytest.mark.parametrize(
    ("asked", "given", "conditions", "expected"),
    [
        (("2", "2"), ("2", "2"), [], (2.0, 2.0, "")),
        (("1500m", "1.5"), ("500m", "500m"), [], (1.5, 0.5, "")),
        (("1", None), ("1", None), [], (None, None, "")),
        (("1", "2"), (None, None), [], (None, None, "")),
        (
            ("9", "9"),
            ("1", "1"),
            [{"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "too big"}],
            (9.0, 1.0, "Infeasible: too big"),
        ),
        (("1", "1"), ("1", "1"), [{"type": "PodResizePending", "status": "False"}], (1.0, 1.0, "")),
    ],
)
def test_the_processors_of_a_driver_are_those_of_its_spec_and_those_that_its_node_gave_it(
    asked: tuple[str | None, str | None],
    given: tuple[str | None, str | None],
    conditions: list[Object],
    expected: tuple[float | None, float | None, str],
) -> None:
    def resources(pair: tuple[str | None, str | None]) -> Object:
        request, limit = pair
        return {"requests": {"cpu": request} if request else {}, "limits": {"cpu": limit} if limit else {}}

    thing = pod(
        {
            "phase": "Running",
            "conditions": conditions,
            "containerStatuses": [{"name": "streamjob", "resources": resources(given)}],
        }
    )
    thing["spec"] = {"containers": [{"name": "sidecar"}, {"name": "streamjob", "resources": resources(asked)}]}
    found = driver_pod(thing)

    assert found is not None
    assert (found.cores, found.cores_given, found.resize) == expected


def test_an_image_that_cannot_be_pulled_is_the_reason() -> None:
    found = read({"phase": "Pending"} | container({"waiting": {"reason": "ImagePullBackOff", "message": "no image"}}))

    assert (found.reason, found.message) == ("ImagePullBackOff", "no image")


def test_an_init_container_that_fails_is_the_reason() -> None:
    init = [{"name": "fetch", "state": {"terminated": {"reason": "Error", "exitCode": 1}}}]
    found = read({"phase": "Pending", "initContainerStatuses": init} | container({"waiting": {"reason": ""}}))

    assert (found.reason, found.message) == ("Error", "fetch: Error")


def test_an_init_container_without_an_image_is_the_reason_while_the_driver_waits_for_it() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    init = [{"name": "first", "state": {"terminated": {"reason": "Completed"}}}, {"name": "fetch", "state": {}}]
    init[1]["state"] = {"waiting": waiting}
    driver = container({"waiting": {"reason": "PodInitializing"}})
    found = read({"phase": "Pending", "initContainerStatuses": init} | driver)

    assert (found.reason, found.message) == ("ImagePullBackOff", "fetch: no such image")


def test_a_pod_of_which_nothing_runs_yet_says_so() -> None:
    init = [{"name": "fetch", "state": {"waiting": {"reason": "PodInitializing"}}}]
    driver = container({"waiting": {"reason": "PodInitializing"}})

    assert read({"phase": "Pending", "initContainerStatuses": init} | driver).reason == "PodInitializing"


def test_a_driver_that_ended_leaves_what_it_completed_last() -> None:
    last = {"id": 9, "kind": "savepoint", "path": "file:///data/a-9/manifest.json", "time": 12.5}
    said = json.dumps({"state": "STOPPED", "message": "", "exitCode": 0, "lastCheckpoint": last})
    found = read({"phase": "Succeeded"} | container({"terminated": {"exitCode": 0, "message": said}}))

    assert found.completion == Completion(
        id=9, kind=RecordKind.SAVEPOINT, path="file:///data/a-9/manifest.json", epoch=0, attempt=7, time=12.5
    )
    assert log_as_remembered(StreamJobStatus(), [found]).newest == found.completion
    older = CompletedCheckpoint(id=8, kind=SnapshotKind.CHECKPOINT, path="file:///data/8/manifest.json", attempt=7)
    newer = older.replaced(id=3, attempt=8)
    for known, newest in ((older, 9), (newer, 3)):
        status = StreamJobStatus(checkpoint=CheckpointStatus(last_completed=known))
        log = log_as_remembered(status, [found])
        assert log.remembered
        assert log.newest is not None
        assert log.newest.id == newest


@pytest.mark.parametrize("last", [None, 7, {}, {"id": "x", "kind": "savepoint", "path": "", "time": 1}, {"id": 1}])
def test_a_completion_that_cannot_be_read_is_none(last: object) -> None:
    said = json.dumps({"state": "STOPPED", "lastCheckpoint": last})
    found = read({"phase": "Succeeded"} | container({"terminated": {"exitCode": 0, "message": said}}))

    assert (found.completion, found.outcome) == (None, JobState.STOPPED)


def test_a_driver_that_ended_leaves_its_exit_code_and_its_words() -> None:
    said = '{"state": "FAILED", "message": "the source is gone", "exitCode": 5, "error": "AccessDenied"}'
    terminated = {"exitCode": 5, "reason": "Error", "message": said, "startedAt": "2026-01-01T00:01:00Z"}
    found = read({"phase": "Failed"} | container({"terminated": terminated}))

    assert found.ended
    assert found.exited_as is ExitCode.FAILED
    assert (found.outcome, found.message, found.error) == (JobState.FAILED, "the source is gone", "AccessDenied")
    assert found.started == found.created + 60


def test_a_driver_that_was_killed_leaves_no_words() -> None:
    found = read({"phase": "Failed"} | container({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}))

    assert (found.exit_code, found.exited_as, found.outcome, found.reason) == (137, None, None, "OOMKilled")


def test_an_evicted_pod_without_a_container_says_so() -> None:
    found = read({"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"})

    assert (found.reason, found.exit_code) == ("Evicted", None)


def test_a_pod_that_a_drain_evicts_says_so_whatever_its_container_does() -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    ended = container({"terminated": {"exitCode": 0, "reason": "Completed"}})
    found = read({"phase": "Succeeded", "conditions": [condition]} | ended)

    assert (found.reason, found.message) == ("Evicted", "Eviction API: evicting")


def test_a_pod_that_a_drain_let_be_is_not_evicted() -> None:
    found = read({"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "False"}]})

    assert found.reason == ""


def test_a_pod_that_is_no_driver_is_left_aside() -> None:
    assert driver_pod(pod({}, labels={})) is None


@pytest.mark.parametrize(
    ("status", "url"),
    [
        ({"phase": "Running", "podIP": "10.0.0.1"}, "http://10.0.0.1:8080"),
        ({"phase": "Running", "podIP": "fd00::1"}, "http://[fd00::1]:8080"),
        ({"phase": "Running"}, None),
        ({"phase": "Succeeded", "podIP": "10.0.0.1"}, None),
    ],
)
def test_a_driver_is_asked_only_while_it_runs(status: Object, url: str | None) -> None:
    assert control_url(pod(status)) == url


def a_job(spec: Any) -> Object:
    return {"metadata": {"name": "orders", "namespace": "a", "uid": "u", "generation": 3}, "spec": spec}


def test_a_spec_that_cannot_be_read_is_told_by_its_fields() -> None:
    spec, problems, revision = judge(a_job({"job": {}, "parallelism": 0, "upgradeMode": "hope"}))

    assert spec is None
    assert revision is None
    assert any(problem.startswith("spec.parallelism: ") for problem in problems)
    assert any(problem.startswith("spec.upgradeMode: ") for problem in problems)


def test_a_job_that_is_wrong_is_told_in_the_words_of_validate() -> None:
    job = {
        "sources": [{"name": "numbers", "format": "rate"}],
        "operators": [{"name": "half", "inputs": ["numbers"], "sql": "SELEC value FROM numbers"}],
        "sinks": [{"name": "out", "input": "halve", "format": "console"}],
    }
    _, problems, revision = judge(a_job({"job": job}))

    assert revision is None
    assert any("'halve'" in problem for problem in problems)


def test_modules_are_looked_for_in_the_image_and_not_here() -> None:
    job = {
        "sources": [{"name": "numbers", "format": "rate"}],
        "operators": [{"name": "half", "inputs": ["numbers"], "python": "only_in_the_image:half"}],
        "sinks": [{"name": "out", "input": "half", "format": "console", "delivery": "at-least-once"}],
    }

    assert judge(a_job({"job": job}))[1] == ()


def test_an_application_is_judged_by_its_driver() -> None:
    assert judge(a_job({"mainApplicationFile": "local:///app/job.py"}))[1] == ()


@pytest.mark.parametrize("schedule", ["0 0 31 2 *", "999999999999d"])
def test_a_schedule_that_never_fires_is_told(schedule: str) -> None:
    spec = {"mainApplicationFile": "local:///app/job.py", "savepoints": {"schedule": schedule}}
    _, problems, revision = judge(a_job(spec))

    assert revision is None
    assert problems[0].startswith("spec.savepoints.schedule: ")


@pytest.mark.parametrize(
    ("schedule", "source", "said"),
    [
        ({"cron": "0 0 31 2 *"}, {}, "spec.schedule: schedule '0 0 31 2 *' never fires within 50 years; name a day"),
        ({"cron": "0 3 * * *", "timeZone": "Europe/Bonn"}, {}, "spec.schedule: there is no time zone 'Europe/Bonn'"),
        ({"cron": "0 3 * * *"}, {"bounded": True}, "all its sources are bounded"),
        ({"cron": "0 3 * * *"}, {"format": "rate", "schema": None, "options": {}}, "does not tell what is there now"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_told(schedule: dict[str, str], source: dict[str, Any], said: str) -> None:
    files = {"name": "seen", "format": "csv", "schema": "page STRING", "options": {"path": "/data/seen"}, **source}
    job = {
        "sources": [{key: value for key, value in files.items() if value is not None}],
        "sinks": [{"name": "report", "input": "seen", "format": "json", "options": {"path": "/data/report"}}],
        "checkpointing": {"location": "s3://state/jobs"},
    }
    usual, refused = (judge(a_job({"job": job, **more})) for more in ({}, {"schedule": schedule}))

    assert usual[1] == ()
    assert refused[2] is None
    assert any(each.startswith("spec.schedule: ") and said in each for each in refused[1]), refused[1]


def test_a_preflight_is_read_by_its_own_label_and_is_no_driver() -> None:
    said = json.dumps({"state": "FAILED", "message": "operator 'clean': no such column", "exitCode": 2})
    thing = pod(
        {"phase": "Failed", **container({"terminated": {"exitCode": 2, "reason": "Error", "message": said}})},
        name="orders-preflight-3",
        labels={"streamjob.io/preflight": "3"},
    )

    found = driver_pod(thing, "streamjob.io/preflight")

    assert driver_pod(thing) is None
    assert found is not None
    assert (found.attempt, found.exited_as, found.outcome) == (3, ExitCode.INVALID_INPUT, JobState.FAILED)
    assert found.message == "operator 'clean': no such column"
