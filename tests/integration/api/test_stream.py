"""Live updates of the job's page over real HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from tests.integration.api.served import ServedJob, metrics_text, token_of
from tests.unit.page.test_merging import patched

from streamjob.client.models import JobState
from streamjob_runtime.control.api.admission import Limits
from streamjob_runtime.control.api.app import create_app
from streamjob_runtime.control.api.listener import Server
from streamjob_runtime.control.api.server import ControlServer
from streamjob_runtime.control.api.streams import MOST

Event = tuple[str, str, Any]
TOKEN = "the-token-of-the-test"


def events_of(answer: httpx.Response) -> Iterator[Event]:
    """Yield the id, the name and the data of each event."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
            fields = {}


def null_in(value: Any) -> bool:
    if isinstance(value, dict):
        return any(null_in(each) for each in value.values())
    return any(null_in(each) for each in value) if isinstance(value, list) else value is None


def test_the_first_event_is_all_that_the_page_shows(http: httpx.Client, job: ServedJob) -> None:
    with http.stream("GET", "/v1/stream") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        _, name, document = next(events_of(answer))

    assert name == "job"
    assert document.keys() == {"job", "diagnosis", "checkpoints", "checkpointing", "point"}
    assert not null_in(document)
    assert document["job"]["graph"]["sinks"][0]["uid"] == "report"
    shown = patched({}, http.get("/v1/job").json())
    assert document["job"].keys() == shown.keys()
    assert document["diagnosis"]["sentence"] == http.get("/v1/diagnosis").json()["sentence"]
    assert document["checkpoints"]["counts"] == http.get("/v1/checkpoints").json()["counts"]


def test_what_changes_comes_as_a_patch_and_what_happens_as_an_event(http: httpx.Client, job: ServedJob) -> None:
    with http.stream("GET", "/v1/stream") as answer:
        events = events_of(answer)
        _, _, document = next(events)
        job.enter(JobState.STOPPING)
        http.post("/v1/checkpoints")
        job.events.add(1.0, "state", "by hand")
        seen: dict[str, tuple[str, Any]] = {}
        while len(seen) < 2:
            number, name, data = next(events)
            seen[name] = number, data

    patch = seen["patch"][1]
    assert patch["job"]["state"] == "STOPPING"
    assert "graph" not in patch["job"]
    assert patched(document, patch)["diagnosis"]["sentence"].startswith("Stopping")
    assert seen["log"][0] == str(job.events.last_id)
    assert seen["log"][1]["sentence"] == "by hand"


def test_a_reader_that_comes_back_gets_what_it_missed(http: httpx.Client, job: ServedJob) -> None:
    for sentence in ("one", "two", "three"):
        job.events.add(1.0, "state", sentence)

    with http.stream("GET", "/v1/stream", headers={"Last-Event-ID": "1"}) as answer:
        events = events_of(answer)
        logged = [next(events) for _ in range(3)]

    assert [data["sentence"] for _, name, data in logged if name == "log"] == ["two", "three"]


def test_the_ninth_stream_is_refused_until_a_page_is_closed(http: httpx.Client) -> None:
    answers = [http.stream("GET", "/v1/stream") for _ in range(MOST)]
    reading = [events_of(each.__enter__()) for each in answers]
    for events in reading:
        next(events)

    refused = http.get("/v1/stream")

    assert (refused.status_code, refused.json()["title"]) == (429, "Too many requests")
    answers[0].__exit__(None, None, None)
    deadline = time.monotonic() + 10
    while True:
        with http.stream("GET", "/v1/stream") as again:
            if again.status_code == 200:
                break
        assert time.monotonic() < deadline
    for each in answers[1:]:
        each.__exit__(None, None, None)


def test_an_open_page_does_not_delay_the_end_of_the_job(job: ServedJob, tmp_path: Path) -> None:
    server = ControlServer(job, tmp_path, metrics=metrics_text)
    server.start()
    headers = {"Authorization": f"Bearer {token_of(tmp_path)}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60.0, trust_env=False) as http:  # noqa: SIM117
        with http.stream("GET", "/v1/stream") as answer:
            events = events_of(answer)
            next(events)
            stopping = threading.Thread(target=server.stop, kwargs={"linger": 0.0})
            stopping.start()
            assert [name for _, name, _ in events][-1] == "bye"
            stopping.join(10)
            assert not stopping.is_alive()


def test_a_stream_outlives_the_deadline_of_other_answers(job: ServedJob) -> None:
    app = create_app(job, TOKEN, metrics=metrics_text)
    server = Server("control API", "PORT")
    server.serve(app, 0, Limits(request_seconds=1.5))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    try:
        with httpx.stream("GET", f"{server.url}/v1/stream", headers=headers, trust_env=False, timeout=10) as answer:
            events = events_of(answer)
            began = time.monotonic()
            while time.monotonic() < began + 3:
                next(events)
                job.runtime.clock.now += 1
    finally:
        server.stop()
