"""The lineage of a real job, sent to a server that validates each event."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.executor_processes import LONG
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import write_job
from tests.jobs import job_file, sink, source, sql
from tests.unit.lineage.validation import problems

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEY = "the-key-of-the-receiver"


class Receiver:
    """Takes events over HTTP, and validates them as they come."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.problems: list[str] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                authorized = self.headers["Authorization"] == f"Bearer {KEY}"
                receiver.problems += problems(event) if authorized else ["the key is wrong"]
                receiver.events.append(event)
                self.send_response(201)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


def test_a_job_that_finishes_tells_its_inputs_outputs_and_columns(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"id": 1, "price": 2.5}\n')
    job = job_file(
        sql("Euros", "items", "SELECT id, price * 2 AS Twice FROM items"),
        sources=[source("items", "json", "id BIGINT, price DOUBLE", "in", bounded=True)],
        sinks=[sink("Euros", "parquet", "out")],
        name="prices",
        checkpointing={"interval": "1s"},
    )
    file = write_job(tmp_path, job)
    environment = {"OPENLINEAGE_URL": receiver.url, "OPENLINEAGE_API_KEY": KEY, "OPENLINEAGE_NAMESPACE": "shop"}
    with job_runs(file, tmp_path / "snapshots", "prices") as runs:
        assert runs.start(environment=environment).wait(LONG) == 0

    assert receiver.problems == []
    kinds = [each["eventType"] for each in receiver.events]
    assert kinds[0] == "START"
    assert kinds[-1] == "COMPLETE"
    assert len({each["run"]["runId"] for each in receiver.events}) == 1
    last = receiver.events[-1]
    assert (last["job"]["namespace"], last["job"]["name"]) == ("shop", "prices")
    assert [(each["namespace"], each["name"]) for each in last["inputs"]] == [("file", str(tmp_path / "in"))]
    (out,) = last["outputs"]
    assert out["name"] == str(tmp_path / "out")
    assert [(each["name"], each["type"]) for each in out["facets"]["schema"]["fields"]] == [
        ("id", "bigint"),
        ("Twice", "double"),
    ]
    columns = out["facets"]["columnLineage"]["fields"]
    assert {name: [each["field"] for each in field["inputFields"]] for name, field in columns.items()} == {
        "id": ["id"],
        "Twice": ["price"],
    }


def test_a_receiver_that_is_not_there_does_not_disturb_the_job(tmp_path: Path) -> None:
    items = source("items", "json", "id BIGINT", "in", bounded=True)
    job = job_file(sources=[items], sinks=[sink("items", "parquet", "out")], name="alone")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"id": 1}\n')
    with job_runs(write_job(tmp_path, job), tmp_path / "snapshots", "alone") as runs:
        process = runs.start(environment={"OPENLINEAGE_URL": "http://127.0.0.1:9"})
        assert process.wait(LONG) == 0

    assert "does not take them: ConnectionError" in process.output()
    assert list((tmp_path / "out").rglob("*.parquet"))
