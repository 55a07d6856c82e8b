"""Events on their way to a receiver, which may be away."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState

from streamjob.errors import InvalidInput
from streamjob.extras import MissingExtra
from streamjob_runtime.job.runner import Runner
from streamjob_runtime.lineage.sending import Sender
from streamjob_runtime.lineage.settings import Parent, lineage_settings
from streamjob_runtime.lineage.starting import lineage_of


class Receiver:
    """Takes events, or answers with an error.

    Args:
        answers: status codes of the first answers; 201 afterwards. 0 for no answer.
    """

    def __init__(self, *answers: int) -> None:
        self.taken: list[str] = []
        self.requests: list[tuple[str, str | None]] = []
        self.free = threading.Event()
        self.free.set()
        waiting, receiver = list(answers), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.free.wait(30)
                receiver.taken.append(event["job"]["name"])
                receiver.requests.append((self.path, self.headers["Authorization"]))
                if status := waiting.pop(0) if waiting else 201:
                    self.send_response(status)
                    self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/v1/lineage"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.free.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    found = Receiver(*getattr(request, "param", ()))
    yield found
    found.close()


def event(number: int) -> RunEvent:
    run = Run("3f5e83fa-3480-44ff-99c5-ff943904e5e8")
    return RunEvent(eventType=RunState.RUNNING, eventTime="2026-11-22T23:26:40Z", run=run, job=Job("shop", str(number)))


def test_events_arrive_in_their_order_with_the_key(receiver: Receiver) -> None:
    sender = Sender(receiver.url, "the-key")
    for number in range(20):
        sender.send(event(number))
    sender.close(30.0)

    assert receiver.taken == [str(number) for number in range(20)]
    assert receiver.requests[0] == ("/api/v1/lineage", "Bearer the-key")


@pytest.mark.parametrize("receiver", [(0, 503, 201, 422, 201, 503, 503, 503)], indirect=True)
def test_an_event_is_tried_again_unless_the_receiver_refuses_it(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    sender = Sender(receiver.url, None)
    for number in range(5):
        sender.send(event(number))
    with caplog.at_level(logging.WARNING):
        sender.close(30.0)

    assert receiver.taken == list("000123334")
    assert caplog.messages == [
        "The receiver of OpenLineage events does not take them: status 422. The job goes on without."
    ]
    assert receiver.requests[0][1] is None


def test_a_receiver_that_hangs_holds_up_nobody_and_what_is_too_much_is_dropped(receiver: Receiver) -> None:
    receiver.free.clear()
    sender = Sender(receiver.url, None)
    started = time.monotonic()
    for number in range(1000):
        sender.send(event(number))
    sender.close(0.1)

    assert time.monotonic() - started < 20


@pytest.mark.parametrize("url", ["http://", "http://a b", "http://marquez:port", "http://[::1"])
def test_an_address_that_is_none_is_refused_before_the_job_starts(url: str) -> None:
    with pytest.raises(InvalidInput, match="OPENLINEAGE_URL"):
        Sender(f"{url}/api/v1/lineage", None)


def test_without_the_client_lineage_is_refused_with_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "streamjob_runtime.lineage.events", raising=False)
    monkeypatch.setitem(sys.modules, "openlineage.client.event_v2", None)
    nobody = cast("Runner", None)

    with pytest.raises(MissingExtra) as refused, lineage_of(nobody, {"OPENLINEAGE_URL": "http://marquez:5000"}):
        pass

    assert refused.value.what.startswith("OPENLINEAGE_URL needs the extra 'lineage'")
    assert refused.value.fix == "pip install 'streamjob[lineage]'"
    with lineage_of(nobody, {}) as nothing:
        assert nothing is None


def test_settings_come_from_openlineages_variables() -> None:
    found = lineage_settings(
        {
            "OPENLINEAGE_URL": "http://marquez:5000/",
            "OPENLINEAGE_API_KEY": "k",
            "OPENLINEAGE_NAMESPACE": "shop",
            "OPENLINEAGE_PARENT_ID": "airflow/dag.task/3f5e83fa-3480-44ff-99c5-ff943904e5e8",
            "STREAMJOB_LINEAGE_INTERVAL": "10m",
        }
    )

    assert found is not None
    assert (found.url, found.namespace, found.interval) == ("http://marquez:5000/api/v1/lineage", "shop", 600.0)
    assert found.parent == Parent("airflow", "dag.task", "3f5e83fa-3480-44ff-99c5-ff943904e5e8")
    assert "'k'" not in repr(found)


@pytest.mark.parametrize(
    "environ", [{}, {"OPENLINEAGE_URL": " "}, {"OPENLINEAGE_URL": "http://m", "OPENLINEAGE_DISABLED": "True"}]
)
def test_without_an_address_there_is_no_lineage(environ: dict[str, str]) -> None:
    assert lineage_settings(environ) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENLINEAGE_URL", "marquez:5000"),
        ("OPENLINEAGE_URL", "file:///tmp/x"),
        ("STREAMJOB_LINEAGE_INTERVAL", "often"),
        ("STREAMJOB_LINEAGE_INTERVAL", "1ms"),
        ("OPENLINEAGE_PARENT_ID", "dag/no-uuid"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_before_the_job_starts(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        lineage_settings({"OPENLINEAGE_URL": "http://marquez:5000", name: value})
