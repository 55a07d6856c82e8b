"""The control API over real HTTP: what each route answers, and who may ask."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient
from tests.integration.api.served import ServedJob, metrics_text, serving

from streamjob.client.models import JobState, JobView, TriggerState
from streamjob.ids import TriggerId
from streamjob_runtime.control.api.app import create_app

PROBLEM = "application/problem+json"


THE_JOB_BEHIND_THE_DOOR = ServedJob()


def _named(path: str) -> str:
    """Return a path with an id for each parameter."""
    for parameter, value in (("{checkpoint_id}", "12"), ("{trigger_id}", "known"), ("{profile_id}", "mine")):
        path = path.replace(parameter, value)
    return path


def _routes() -> list[tuple[str, str]]:
    job = THE_JOB_BEHIND_THE_DOOR
    app = create_app(job, "unused", metrics=metrics_text)
    found = [
        (
            method,
            _named(route.path),
        )
        for route in app.routes
        if isinstance(route, APIRoute)
        for method in sorted(route.methods or ())
    ]
    return [*found, ("GET", "/openapi.json"), ("GET", "/"), ("GET", "/no/such/page")]


ROUTES = _routes()
OPEN = [("GET", "/healthz"), ("GET", "/readyz")]
OF_THE_PAGE = [("POST", "/v1/sessions")]
GUARDED = [route for route in ROUTES if route not in [*OPEN, *OF_THE_PAGE] and not route[1].startswith("/ui")]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """One server for the tests of who may ask: its job shows the requests that get past it."""
    with serving(THE_JOB_BEHIND_THE_DOOR, tmp_path_factory.mktemp("door")) as client:
        yield client


def test_all_routes_of_the_contract_exist() -> None:
    assert set(ROUTES) >= {
        ("GET", "/v1/job"),
        ("GET", "/v1/diagnosis"),
        ("GET", "/v1/history"),
        ("GET", "/v1/events"),
        ("GET", "/v1/stream"),
        ("GET", "/v1/checkpoints"),
        ("GET", "/v1/checkpoints/12"),
        ("POST", "/v1/checkpoints"),
        ("POST", "/v1/savepoints"),
        ("POST", "/v1/stop"),
        ("PATCH", "/v1/checkpointing"),
        ("GET", "/v1/triggers/known"),
        ("GET", "/metrics"),
        ("POST", "/v1/sessions/codes"),
        ("GET", "/v1/session"),
        ("GET", "/ui/"),
        *OF_THE_PAGE,
        *OPEN,
    }


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize(
    "authorization",
    [None, "Bearer", "Bearer wrong", "Basic dXNlcjpwYXNz", "token", "Bearer \xff"],
    ids=["none", "empty", "wrong", "basic", "no scheme", "not ascii"],
)
def test_a_request_without_the_token_is_refused(
    door: httpx.Client, method: str, path: str, authorization: str | None
) -> None:
    headers = [] if authorization is None else [(b"Authorization", authorization.encode("latin-1"))]

    answer = httpx.request(method, door.base_url.join(path), headers=headers, trust_env=False)

    assert answer.status_code == 401
    assert answer.headers["content-type"] == PROBLEM
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["title"] == "Unauthorized"
    assert THE_JOB_BEHIND_THE_DOOR.asked == []


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_request_with_the_token_gets_past_the_door(door: httpx.Client, method: str, path: str) -> None:
    # A stream has no end.
    with door.stream(method, path) as answer:
        pass
    THE_JOB_BEHIND_THE_DOOR.runtime.received.clear()

    assert answer.status_code != 401


@pytest.mark.parametrize(("method", "path"), OPEN)
def test_probes_need_no_token(door: httpx.Client, method: str, path: str) -> None:
    answer = httpx.request(method, door.base_url.join(path), trust_env=False)

    assert answer.status_code == 200
    assert answer.json() == {"ok": True, "reason": ""}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_that_fails_answers_503_and_says_why(http: httpx.Client, job: ServedJob, path: str) -> None:
    job.enter(JobState.FAILED)

    answer = http.get(path)

    assert answer.status_code == 503
    assert answer.json() == {"ok": False, "reason": "the job is FAILED"}


def test_the_diagnosis_is_a_sentence_with_its_reasons(http: httpx.Client, job: ServedJob) -> None:
    job.runtime.coordination.failed("no heap")
    job.enter(JobState.FAILED)

    reason = {"code": "failed", "severity": "critical", "sentence": "Failed: no heap"}
    assert http.get("/v1/diagnosis").json() == {
        "severity": "critical",
        "sentence": "Failed: no heap",
        "reasons": [reason | {"chain": None, "sink": None, "source": None}],
    }


def test_the_history_is_given_from_a_time_on(http: httpx.Client, job: ServedJob) -> None:
    for _ in range(2):
        job.record(job.job(), job.checkpoints())
        job.runtime.clock.now += 5

    history = http.get("/v1/history").json()

    assert history["intervalSeconds"] == 5
    first, second = history["points"]
    assert first["rowsPerSecond"] == 45210.4
    assert first["chains"]["hours"] == {
        "busy": 0.025,
        "backpressured": 0,
        "rowsPerSecond": 45210.4,
        "batchSeconds": 0.25,
    }
    assert http.get("/v1/history", params={"since": first["at"]}).json()["points"] == [second]
    assert http.get("/v1/history", params={"since": "yesterday"}).status_code == 422


def test_events_are_told_newest_first(http: httpx.Client, job: ServedJob) -> None:
    job.record(job.job(), job.checkpoints())
    http.post("/v1/checkpoints", json={"triggerId": "mine"})

    newest, *others = http.get("/v1/events").json()["events"]

    assert (newest["kind"], newest["sentence"], newest["details"]) == (
        "request",
        "a checkpoint was requested",
        {"trigger": "mine"},
    )
    (failed,) = [each for each in others if each["weight"] == "bad"]
    assert failed["details"]["checkpoint"] == 13
    assert failed["sentence"].endswith("a chain could not write its files to the store: 503 Slow Down")


def test_the_job_is_shown_in_camel_case_and_reads_back(http: httpx.Client, job: ServedJob) -> None:
    answer = http.get("/v1/job")

    shown = answer.json()
    assert shown["lastCheckpoint"]["durationMs"] == 1260
    assert shown["chains"][0]["recordsInPerSecond"] == 45210.4
    assert shown["chains"][0]["inputs"][1] == {
        "uid": "weather",
        "chain": None,
        "watermarkMs": 1_362_398_400_000,
        "lagMs": 337_601_734_000,
        "idleSeconds": None,
        "idle": False,
        "holdsWatermarkBack": False,
        "ended": True,
        "lagRecords": None,
        "lagSeconds": None,
        "filesUnread": None,
        "bytesUnread": None,
        "recordBytes": None,
        "partitions": [],
        "recordsNotDecoded": None,
        "offsetReportFailures": None,
        "recordsAhead": 0,
        "farthestMs": None,
        "recordsLate": 0,
        "lateByMs": None,
        "filesChanged": 0,
        "changedFile": None,
        "messagesRefused": 0,
    }
    assert JobView.model_validate_json(answer.content) == JobView.model_validate(job.job().model_dump())


def test_the_job_comes_alone_unless_more_is_asked_for(http: httpx.Client) -> None:
    shown = http.get("/v1/job").json()

    assert shown.keys() & {"checkpoints", "checkpointing", "triggers"} == set()
    assert shown["failure"] is None


def test_one_answer_holds_the_job_and_what_is_asked_for_besides(http: httpx.Client, job: ServedJob) -> None:
    http.post("/v1/checkpoints", json={"triggerId": "one"})
    http.post("/v1/stop", json={"triggerId": "two"})
    job.resolve(TriggerId("one"))

    shown = http.get("/v1/job?include=checkpoints,checkpointing&trigger=one&trigger=unknown").json()

    assert shown["state"] == "RUNNING"
    assert shown["checkpoints"] == http.get("/v1/checkpoints").json()
    assert shown["checkpointing"] == http.patch("/v1/checkpointing", json={}).json()
    assert shown["triggers"] == {"one": http.get("/v1/triggers/one").json()}


def test_what_a_newer_client_asks_for_is_left_out(http: httpx.Client) -> None:
    shown = http.get("/v1/job?include=weather, checkpointing&color=red").json()

    assert shown.keys() & {"checkpoints", "checkpointing", "triggers", "weather"} == {"checkpointing"}


def test_an_outcome_that_came_with_the_job_has_been_seen() -> None:
    job = ServedJob()
    asked = job.requests.ask("checkpoint", TriggerId("one"), job.trigger_checkpoint)
    job.report((), [asked])
    job.resolve(asked)

    assert not job.requests.wait_until_seen(0)
    job.report((), [asked])
    assert job.requests.wait_until_seen(0)


def test_a_request_with_a_traceparent_announces_it_before_the_job_hears_of_the_request() -> None:
    job, heard = ServedJob(), []

    def expect(trigger: TriggerId, parent: str) -> None:
        heard.append((trigger, parent, job.trigger(trigger)))

    client = TestClient(create_app(job, "token", metrics=metrics_text, expect=expect))
    headers = {"Authorization": "Bearer token", "traceparent": "00-parent"}

    for path in ("/v1/checkpoints", "/v1/savepoints", "/v1/stop"):
        assert client.post(path, json={"triggerId": path[4:]}, headers=headers).status_code == 202
    client.post("/v1/checkpoints", json={"triggerId": "without"}, headers={"Authorization": "Bearer token"})

    assert heard == [("checkpoints", "00-parent", None), ("savepoints", "00-parent", None), ("stop", "00-parent", None)]


def test_checkpoints_carry_flinks_names(http: httpx.Client) -> None:
    shown = http.get("/v1/checkpoints").json()

    assert shown["counts"] == {"restored": 0, "total": 3, "in_progress": 0, "completed": 2, "failed": 1}
    assert [entry["id"] for entry in shown["history"]] == [14, 13, 12]
    assert shown["history"][0]["className"] == "completed"
    assert shown["latest"]["completed"]["end_to_end_duration"] == 1260


def test_one_checkpoint_is_shown_by_its_id(http: httpx.Client) -> None:
    assert http.get("/v1/checkpoints/13").json()["status"] == "FAILED"


@pytest.mark.parametrize("path", ["/v1/checkpoints/99", "/v1/triggers/unknown", "/v1/nothing"])
def test_what_is_not_there_is_a_404_problem(http: httpx.Client, path: str) -> None:
    answer = http.get(path)

    assert answer.status_code == 404
    assert answer.headers["content-type"] == PROBLEM
    assert answer.json()["status"] == 404


def test_a_method_that_a_route_does_not_know_is_a_405_problem(http: httpx.Client) -> None:
    answer = http.delete("/v1/job")

    assert answer.status_code == 405
    assert answer.headers["content-type"] == PROBLEM


@pytest.mark.parametrize("path", ["/v1/checkpoints", "/v1/stop"])
def test_a_request_without_a_body_gets_an_id_and_its_outcome_can_be_asked_for(
    http: httpx.Client, job: ServedJob, path: str
) -> None:
    accepted = http.post(path)
    trigger_id = accepted.json()["triggerId"]

    assert accepted.status_code == 202
    assert accepted.headers["location"] == f"/v1/triggers/{trigger_id}"
    assert http.get(accepted.headers["location"]).json()["state"] == "QUEUED"

    job.resolve(TriggerId(trigger_id))

    outcome = http.get(accepted.headers["location"]).json()
    assert (outcome["state"], outcome["checkpoint"]) == ("COMPLETED", 15)
    assert outcome["result"].endswith("manifest.json")


def test_a_repeated_request_is_the_same_request(http: httpx.Client, job: ServedJob) -> None:
    first = http.post("/v1/checkpoints", json={"triggerId": "nightly-1"})
    job.resolve(TriggerId("nightly-1"))
    second = http.post("/v1/checkpoints", json={"triggerId": "nightly-1"})

    assert first.json() == second.json() == {"triggerId": "nightly-1"}
    assert job.asked == [("checkpoint", "nightly-1")]
    assert http.get("/v1/triggers/nightly-1").json()["state"] == TriggerState.COMPLETED


def test_requests_that_race_with_one_id_are_one_request(http: httpx.Client, job: ServedJob) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: http.post("/v1/checkpoints", json={"triggerId": "one"}), range(16)))

    assert {answer.status_code for answer in answers} == {202}
    assert job.asked == [("checkpoint", "one")]


def test_an_id_of_another_kind_of_request_is_a_conflict(http: httpx.Client, job: ServedJob) -> None:
    http.post("/v1/checkpoints", json={"triggerId": "one"})

    answer = http.post("/v1/stop", json={"triggerId": "one"})

    assert answer.status_code == 409
    assert answer.headers["content-type"] == PROBLEM
    assert "belongs to a request for a checkpoint" in answer.json()["detail"]
    assert job.asked == [("checkpoint", "one")]


def test_a_request_that_the_jobs_state_forbids_is_a_conflict_and_may_be_repeated(
    http: httpx.Client, job: ServedJob
) -> None:
    job.enter(JobState.RESTARTING)
    refused = http.post("/v1/checkpoints", json={"triggerId": "one"})
    job.enter(JobState.RESTORING, JobState.RUNNING)
    accepted = http.post("/v1/checkpoints", json={"triggerId": "one"})

    assert refused.status_code == 409
    assert refused.json() == {
        "title": "Conflict with the job's state",
        "status": 409,
        "detail": "A job that is RESTARTING takes no checkpoints",
        "fix": "ask again when it is RUNNING",
    }
    assert accepted.status_code == 202


def test_a_savepoint_is_asked_for_with_its_place(http: httpx.Client, job: ServedJob) -> None:
    answer = http.post("/v1/savepoints", json={"location": "s3://bucket/p", "triggerId": "s1"})
    again = http.post("/v1/savepoints", json={"location": "s3://bucket/p", "triggerId": "s1"})

    assert (answer.status_code, again.status_code) == (202, 202)
    assert job.locations == ["s3://bucket/p/"]
    assert http.get("/v1/triggers/s1").json()["kind"] == "savepoint"


@pytest.mark.parametrize(
    ("method", "path", "body", "fields"),
    [
        ("POST", "/v1/checkpoints", {"triggerid": "a"}, ["triggerid"]),
        ("POST", "/v1/checkpoints", {"triggerId": "a b"}, ["triggerId"]),
        ("POST", "/v1/checkpoints", {"triggerId": ""}, ["triggerId"]),
        ("POST", "/v1/checkpoints", {"triggerId": 7}, ["triggerId"]),
        ("POST", "/v1/stop", {"drain": "perhaps", "location": ""}, ["location", "drain"]),
        ("POST", "/v1/stop", ["drain"], ["body"]),
        ("PATCH", "/v1/checkpointing", {"interval": "10 parsecs"}, ["interval"]),
        ("PATCH", "/v1/checkpointing", {"interval": "0s", "numRetained": 0}, ["interval", "numRetained"]),
        ("PATCH", "/v1/checkpointing", {"timeout": None}, ["timeout"]),
        ("PATCH", "/v1/checkpointing", {"mode": "sideways"}, ["mode"]),
        ("PATCH", "/v1/checkpointing", {"incremental": False}, ["incremental"]),
        ("GET", "/v1/checkpoints/latest", None, ["checkpoint_id"]),
    ],
)
def test_an_invalid_request_names_its_fields(
    http: httpx.Client, job: ServedJob, method: str, path: str, body: object, fields: list[str]
) -> None:
    answer = http.request(method, path, json=body) if body is not None else http.request(method, path)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == PROBLEM
    assert [error["field"] for error in answer.json()["errors"]] == fields
    assert all(error["message"] for error in answer.json()["errors"])
    assert job.asked == []


def test_a_body_that_is_no_json_is_invalid(http: httpx.Client) -> None:
    answer = http.post("/v1/stop", content=b"{", headers={"Content-Type": "application/json"})

    assert answer.status_code == 422
    assert "is not JSON" in answer.json()["detail"]


def test_only_the_fields_that_are_sent_change(http: httpx.Client, job: ServedJob) -> None:
    answer = http.patch("/v1/checkpointing", json={"interval": "30s", "numRetained": 5})

    assert answer.status_code == 200
    assert answer.json() == {
        "interval": "30s",
        "timeout": "10m",
        "minPause": "0s",
        "mode": "aligned",
        "alignedCheckpointTimeout": None,
        "tolerableFailedCheckpoints": 10,
        "numRetained": 5,
    }
    assert job.policy.interval == 30.0


def test_periodic_checkpoints_are_switched_off_by_null(http: httpx.Client, job: ServedJob) -> None:
    assert http.patch("/v1/checkpointing", json={"interval": None}).json()["interval"] is None
    assert job.policy.interval is None


def test_a_defect_is_a_500_problem_without_its_traceback(
    http: httpx.Client, job: ServedJob, caplog: pytest.LogCaptureFixture
) -> None:
    job.runtime.coordination.status = None  # type: ignore[method-assign, assignment]

    answer = http.get("/v1/job")

    assert answer.status_code == 500
    assert answer.headers["content-type"] == PROBLEM
    assert "Traceback" not in answer.text
    assert "GET /v1/job failed" in caplog.text


def test_metrics_are_served_as_prometheus_reads_them(http: httpx.Client) -> None:
    answer = http.get("/metrics")

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.content == metrics_text()


def test_the_schema_describes_every_route_its_errors_and_who_may_ask(http: httpx.Client) -> None:
    schema = http.get("/openapi.json").json()

    described = {
        (method.upper(), _named(path)) for path, operations in schema["paths"].items() for method in operations
    }
    pages = {route for route in ROUTES if route[1].startswith("/ui")}
    assert described == set(ROUTES) - pages - {("GET", "/openapi.json"), ("GET", "/"), ("GET", "/no/such/page")}
    assert schema["security"] == [{"token": []}]
    assert schema["paths"]["/healthz"]["get"]["security"] == []
    assert "401" in schema["paths"]["/v1/job"]["get"]["responses"]
    assert "end_to_end_duration" in schema["components"]["schemas"]["CheckpointStatistics"]["properties"]
    assert "HTTPValidationError" not in schema["components"]["schemas"]
    conflict = schema["paths"]["/v1/stop"]["post"]["responses"]["409"]
    assert list(conflict["content"]) == [PROBLEM]
