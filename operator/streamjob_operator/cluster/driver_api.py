"""The control API of many drivers, asked without threads.

Requests are not retried here: the next reconciliation repeats a failed one, under the same trigger id.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

import aiohttp
from pydantic import BaseModel, ValidationError

from streamjob.client.client import ControlApiError, RequestFailed, Unreachable, problem_in
from streamjob.client.models import (
    Accepted,
    CheckpointingChanges,
    CheckpointingView,
    CheckpointRequest,
    CheckpointsView,
    JobPart,
    JobReport,
    Request,
    SavepointRequest,
    StartView,
    StopRequest,
    TriggerView,
)
from streamjob.client.page_models import Diagnosis, HistoryView
from streamjob.telemetry.spans import TRACEPARENT_HEADER, SpanContext

_Model = TypeVar("_Model", bound=BaseModel)
_IDLE_SECONDS = 2.0
_ALL_PARTS = f"include={','.join(get_args(JobPart))}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A driver's answer; `reason` is HTTP's phrase for the status."""

    status: int
    reason: str
    content: bytes


Send = Callable[[str, str, dict[str, str], bytes | None], Awaitable[Answer]]
"""Sends a request, of a method, a URL, headers and a body. Raises aiohttp.ClientError, OSError or TimeoutError."""


@dataclass(frozen=True, slots=True)
class DriverAddress:
    """Address and token of a driver's control API."""

    url: str
    token: str = field(repr=False)


@dataclass(slots=True)
class Drivers:
    """Asks drivers; one pool of connections for all of them.

    Every method raises Unreachable when there is no answer, and RequestFailed when the answer is an error.

    Args:
        timeout: seconds that one request may take.
        send: how drivers are reached; by default over the network, never through a proxy.
        observe: called with the name and the seconds of each request.
    """

    timeout: float = 5.0
    send: Send | None = None
    observe: Callable[[str, float], None] = lambda _call, _seconds: None
    _session: aiohttp.ClientSession | None = None

    async def report(self, driver: DriverAddress, triggers: Iterable[str] = ()) -> JobReport:
        """Return the job with its checkpoints, its policy and the state of requests, all of the same moment.

        A runtime of an older version leaves all but the job out.
        """
        query = "&".join((_ALL_PARTS, *(f"trigger={each}" for each in triggers)))
        return await self._ask(driver, "job", "GET", f"/v1/job?{query}", JobReport)

    async def checkpoints(self, driver: DriverAddress) -> CheckpointsView:
        """Return the checkpoints' statistics."""
        return await self._ask(driver, "checkpoints", "GET", "/v1/checkpoints", CheckpointsView)

    async def diagnosis(self, driver: DriverAddress) -> Diagnosis:
        """Return the condition of the job in one sentence."""
        return await self._ask(driver, "diagnosis", "GET", "/v1/diagnosis", Diagnosis)

    async def history(self, driver: DriverAddress, since: float) -> HistoryView:
        """Return the figures after a time, in seconds since 1970."""
        return await self._ask(driver, "history", "GET", f"/v1/history?since={since:.3f}", HistoryView)

    async def trigger(self, driver: DriverAddress, trigger_id: str) -> TriggerView | None:
        """Return the outcome of a request, or None if the driver does not know it."""
        try:
            return await self._ask(driver, "trigger", "GET", f"/v1/triggers/{trigger_id}", TriggerView)
        except RequestFailed as error:
            if error.status == 404:
                return None
            raise

    async def trigger_checkpoint(self, driver: DriverAddress, request: CheckpointRequest) -> None:
        """Request a checkpoint."""
        await self._ask(driver, "checkpoint", "POST", "/v1/checkpoints", Accepted, request)

    async def trigger_savepoint(self, driver: DriverAddress, request: SavepointRequest) -> None:
        """Request a savepoint."""
        await self._ask(driver, "savepoint", "POST", "/v1/savepoints", Accepted, request)

    async def stop(self, driver: DriverAddress, request: StopRequest, parent: SpanContext | None = None) -> None:
        """Ask the job to stop; the trace of its last snapshot belongs to the parent."""
        await self._ask(driver, "stop", "POST", "/v1/stop", Accepted, request, parent)

    async def start(self, driver: DriverAddress) -> None:
        """Tell a driver to start that waits for it."""
        await self._ask(driver, "start", "POST", "/v1/start", StartView)

    async def patch_checkpointing(self, driver: DriverAddress, changes: CheckpointingChanges) -> CheckpointingView:
        """Change the checkpointing policy where fields are set, and return the one in force."""
        body = changes.model_dump(mode="json", exclude_unset=True)
        return await self._ask(driver, "policy", "PATCH", "/v1/checkpointing", CheckpointingView, body)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(
        self,
        driver: DriverAddress,
        call: str,
        method: str,
        path: str,
        model: type[_Model],
        body: Request | dict[str, Any] | None = None,
        parent: SpanContext | None = None,
    ) -> _Model:
        fields = body.model_dump(mode="json", exclude_none=True) if isinstance(body, Request) else body
        headers = {"Authorization": f"Bearer {driver.token}"}
        if fields is not None:
            headers["Content-Type"] = "application/json"
        if parent is not None:
            headers[TRACEPARENT_HEADER] = parent.traceparent
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            send = self.send or self._over_the_network
            content = None if fields is None else json.dumps(fields).encode()
            answer = await send(method, driver.url + path, headers, content)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(
                f"no answer from the control API at {driver.url}: {error or type(error).__name__}"
            ) from None
        finally:
            self.observe(call, loop.time() - started)
        if not 200 <= answer.status < 300:
            request = f"{method} {driver.url}{path}"
            raise RequestFailed(problem_in(answer.content, answer.status, answer.reason, request))
        try:
            return model.model_validate_json(answer.content)
        except ValidationError as error:
            raise ControlApiError(
                f"{driver.url} answered {path} with something that is not a {model.__name__}: {error.error_count()} "
                "fields do not fit",
                "See whether the runtime's image is of this version of streamjob.",
            ) from None

    async def _over_the_network(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> Answer:
        if self._session is None:
            # The requests of one reconciliation share one connection, which a driver need not keep until the next.
            connector = aiohttp.TCPConnector(keepalive_timeout=_IDLE_SECONDS)
            # A driver's API is plain HTTP inside the cluster; the token must not be shown to proxies.
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=self.timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        # Do not follow redirects: they would leak the token.
        async with self._session.request(method, url, headers=headers, data=body, allow_redirects=False) as response:
            return Answer(response.status, response.reason or "", await response.read())
