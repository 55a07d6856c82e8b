"""Events on their way to a receiver, which may be away."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any

import httpx
import pytest

from streamjob.errors import InvalidInput
from streamjob_runtime.lineage.events import Parent
from streamjob_runtime.lineage.sending import Sender
from streamjob_runtime.lineage.settings import lineage_settings

URL = "http://receiver:5000/api/v1/lineage"


class Receiver(httpx.BaseTransport):
    """Takes events, or answers with an error.

    Args:
        answers: status codes of the first answers; 201 afterwards. 0 for no answer.
    """

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.free = threading.Event()
        self.free.set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.free.wait(30)
        self.requests.append(request)
        status = self.answers.pop(0) if self.answers else 201
        if status == 0:
            raise httpx.ConnectError("refused")
        return httpx.Response(status)

    @property
    def taken(self) -> list[Any]:
        return [json.loads(each.content)["n"] for each in self.requests]


def test_events_arrive_in_their_order_with_the_key() -> None:
    receiver = Receiver()
    sender = Sender(URL, "the-key", transport=receiver, pause=0.0)
    for number in range(20):
        sender.send({"n": number})
    sender.close(30.0)

    assert receiver.taken == list(range(20))
    assert str(receiver.requests[0].url) == URL
    assert receiver.requests[0].headers["Authorization"] == "Bearer the-key"


def test_an_event_is_tried_again_unless_the_receiver_refuses_it(caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver(0, 503, 201, 422, 201)
    sender = Sender(URL, None, transport=receiver, pause=0.0)
    for number in range(3):
        sender.send({"n": number})
    with caplog.at_level(logging.WARNING, "streamjob"):
        sender.close(30.0)

    assert receiver.taken == [0, 0, 0, 1, 2]
    assert caplog.messages == [
        "The receiver of OpenLineage events does not take them: status 422. The job goes on without."
    ]
    assert "Authorization" not in receiver.requests[0].headers


def test_a_receiver_that_hangs_holds_up_nobody_and_what_is_too_much_is_dropped() -> None:
    receiver = Receiver()
    receiver.free.clear()
    sender = Sender(URL, None, transport=receiver, pause=0.0)
    started = time.monotonic()
    for number in range(1000):
        sender.send({"n": number})
    sender.close(0.1)

    assert time.monotonic() - started < 20
    receiver.free.set()


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
