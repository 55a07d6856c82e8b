"""Agents ask the driver over HTTP, and neither talks to a stranger."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Thread

import httpx
import pytest
from starlette.responses import PlainTextResponse
from tests.unit.executors.test_fleet import OFFER, fleet

from streamjob_runtime.control.api.admission import LIMITS, Limits
from streamjob_runtime.control.api.guard import trust_connection
from streamjob_runtime.control.api.listener import Server
from streamjob_runtime.executors.agent.client import DriverAway, DriverClient, Refused
from streamjob_runtime.executors.credentials import Credentials
from streamjob_runtime.executors.driver.fleet import Fleet
from streamjob_runtime.executors.driver.routes import AgentRoutes
from streamjob_runtime.executors.messages import CONNECTIONS, Commands, Leave, Nothing, Poll, Welcome

SECRET = "0123456789abcdef0123456789abcdef"


class Driver:
    """A driver's control API with nothing but its routes for agents."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.fleet: Fleet = fleet()
        self.routes = AgentRoutes(self.fleet, Credentials.derive(SECRET, "attempt-1"), {"slowly": _slowly})
        self._server = Server("control API", "PORT")
        app = self.routes.beside(PlainTextResponse("not for agents"), trust_connection)
        self._server.serve(app, 0, limits)
        self.url = self._server.url

    def close(self) -> None:
        self.fleet.close()
        self._server.stop()


def _slowly(name: str, instance: str, body: bytes) -> Nothing:
    time.sleep(0.05)
    return Nothing()


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()


def client(driver: Driver, secret: str = SECRET) -> DriverClient:
    made = DriverClient(driver.url, "a", secret)
    made.meet()
    return made


def test_an_agent_registers_polls_and_leaves(driver: Driver) -> None:
    asking = client(driver)
    welcome = asking.ask("register", OFFER, Welcome)
    driver.fleet.registered_in_spark(welcome.executor, "10.0.0.1")
    driver.fleet.tell(welcome.executor, "hold", {"checkpoint": 3})

    polled = asking.ask("poll", Poll(executor=welcome.executor, registered=False), Commands)
    assert [command.kind for command in polled.commands] == ["hold"]
    assert polled.registered

    asking.ask("leave", Leave(executor=welcome.executor, reason="told to end"), Nothing)
    assert driver.fleet.live() == ()


def test_an_agent_has_no_more_connections_than_the_driver_has_room_for() -> None:
    driver = Driver(replace(LIMITS, connections=CONNECTIONS))
    try:
        asking = client(driver)
        with ThreadPoolExecutor(5 * CONNECTIONS) as pool:
            answers = list(pool.map(lambda _: asking.ask("slowly", Nothing(), Nothing), range(5 * CONNECTIONS)))
    finally:
        driver.close()

    assert len(answers) == 5 * CONNECTIONS
    assert driver.routes.connections == driver.fleet.wanted * CONNECTIONS


def test_a_waiting_agent_gets_a_command_at_once(driver: Driver) -> None:
    asking = client(driver)
    welcome = asking.ask("register", OFFER, Welcome)
    polled = []

    poll = Poll(executor=welcome.executor, registered=False)
    waiting = Thread(target=lambda: polled.append(asking.ask("poll", poll, Commands)))
    waiting.start()
    driver.fleet.tell(welcome.executor, "hold", {})
    waiting.join(10.0)

    assert [command.kind for command in polled[0].commands] == ["hold"]


def test_an_agent_with_another_secret_is_refused(driver: Driver) -> None:
    with pytest.raises(Refused, match="not signed") as refused:
        client(driver, secret="f" * 32).ask("register", OFFER, Welcome)

    assert refused.value.status == 401
    assert driver.fleet.live() == ()


def test_an_agent_trusts_no_answer_without_the_secret(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    asking = client(driver)
    monkeypatch.setattr(Credentials, "sign", lambda self, *parts: "0" * 64)
    monkeypatch.setattr(Credentials, "proves", lambda self, signature, *parts: len(parts) != 3)

    with pytest.raises(DriverAway, match="does not know the secret"):
        asking.ask("register", OFFER, Welcome)


def test_a_request_cannot_be_made_twice(driver: Driver) -> None:
    sent: list[httpx.Request] = []
    asking = client(driver)
    asking._http.event_hooks["request"].append(sent.append)
    asking.ask("register", OFFER, Welcome)

    with httpx.Client() as attacker:
        again = attacker.send(sent[0])

    assert again.status_code == 409
    assert "made before" in again.text


def test_an_agent_learns_that_its_executor_is_not_one_of_the_jobs(driver: Driver) -> None:
    with pytest.raises(Refused) as refused:
        client(driver).ask("poll", Poll(executor="7", registered=True), Commands)

    assert refused.value.status == 410


def test_a_path_that_is_not_for_agents_goes_to_the_control_api(driver: Driver) -> None:
    assert httpx.get(f"{driver.url}/v1/job").text == "not for agents"


def test_an_unknown_path_is_refused(driver: Driver) -> None:
    with pytest.raises(Refused, match="there is no POST /v1/agents/nothing"):
        client(driver).ask("nothing", OFFER, Nothing)


def test_a_driver_that_does_not_answer_is_away() -> None:
    with pytest.raises(DriverAway):
        DriverClient("http://127.0.0.1:9", "a", SECRET).meet()
