"""The routes of the page of all jobs, and of the jobs' own pages behind it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from streamjob.client.jobs_models import ControllerSession, ScaleRequest, SuspendRequest
from streamjob.client.models import (
    CheckpointRequest,
    NewSession,
    Problem,
    Request,
    SavepointRequest,
    SessionCode,
    SessionRequest,
)
from streamjob.errors import StreamJobError
from streamjob.page.files import HEADERS, LOOPBACK_NAMES, host_name, page_files
from streamjob.page.merging import merge_patch, server_sent
from streamjob_operator.cluster.api import Conflict, NotFound, Refused
from streamjob_operator.cluster.kinds import Object
from streamjob_operator.serving import BoundedSite
from streamjob_operator.web.actions import Actions
from streamjob_operator.web.board import Board
from streamjob_operator.web.codes import Codes
from streamjob_operator.web.figures import AskedFigures
from streamjob_operator.web.jobs import Jobs
from streamjob_operator.web.proxy import MOST_STREAMS, SAFE, DriverAway, Proxy, TokenRefused, event_stream
from streamjob_operator.web.rights import Verb, Viewer, Way, from_another_site, need_of
from streamjob_operator.web.rows import resource_of
from streamjob_operator.web.viewers import TooManyReviews, Viewers

_LARGEST_BODY = 65_536
_MOST_CONNECTIONS = 512
_EVERY = 2.0
_HEARTBEATS = 7
"""A stream without news shows every 14 seconds that it is alive."""
_CLOSING = 1.0
_WRITE_SECONDS = 30.0
_TOKEN_HEADER: Final = "X-Streamjob-Token"
_OPEN = frozenset({("POST", "/v1/sessions")})
_VIEWER: Final = web.RequestKey("viewer", Viewer)
_Body = TypeVar("_Body", bound=BaseModel)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the page.

    Args:
        now: seconds since 1970.
    """

    jobs: Jobs
    viewers: Viewers
    board: Board
    figures: AskedFigures
    codes: Codes
    proxy: Proxy
    actions: Actions
    now: Callable[[], float]


class _Answer(Exception):
    """Ends a request with a problem."""

    def __init__(self, status: HTTPStatus, detail: str, fix: str = "") -> None:
        super().__init__(detail)
        self.problem = Problem(title=status.phrase, status=int(status), detail=detail, fix=fix)


class Page:
    """Answers requests.

    Args:
        hosts: names that the page is reached by, in addition to loopback's and to addresses.
        every: seconds from one look at the rows to the next.
    """

    def __init__(self, parts: Parts, hosts: Collection[str] = (), *, every: float = _EVERY) -> None:
        self._parts = parts
        self._hosts = frozenset(host_name(each) for each in hosts)
        self._every = every
        self._streams = 0
        self._closing = asyncio.Event()
        self.trust: Callable[[web.BaseRequest], None] = lambda _request: None

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/", _to("ui/")),
                web.get("/ui", _to("ui/")),
                web.get("/ui/", _file("jobs.html")),
                web.get("/ui/{file}", _file()),
                web.post("/v1/sessions", self._session_of_code),
                web.post("/v1/sessions/codes", self._new_code),
                web.get("/v1/session", self._session),
                web.get("/v1/jobs", self._jobs),
                web.get("/v1/stream", self._stream),
                web.get("/jobs/{namespace}/{name}/ui", _to("ui/")),
                web.get("/jobs/{namespace}/{name}/ui/", _file("index.html")),
                web.get("/jobs/{namespace}/{name}/ui/{file}", _file()),
                web.route("*", "/jobs/{namespace}/{name}/v1/{path:.+}", self._job),
            ]
        )
        app.cleanup_ctx.append(self._lifetime)
        app.on_shutdown.append(self._end)
        return app

    async def _lifetime(self, _app: web.Application) -> AsyncIterator[None]:
        yield
        await self._parts.figures.close()
        await self._parts.proxy.close()

    async def _end(self, _app: web.Application) -> None:
        self._closing.set()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            self._check_host(request)
            if not _is_file(request) and (request.method, request.path) not in _OPEN:
                request[_VIEWER] = await self._viewer(request)
                self.trust(request)
            response = await handler(request)
        except _Answer as answer:
            response = _problem(answer.problem)
        except web.HTTPException as error:
            response = _problem(Problem(title=error.reason, status=error.status))
        except StreamJobError as error:
            response = _problem(_of_error(error))
        if not response.prepared:
            response.headers.update({**HEADERS, **SAFE})
        return response

    def _check_host(self, request: web.Request) -> None:
        host = host_name(request.headers.get("Host", ""))
        if host not in self._hosts and host not in LOOPBACK_NAMES and not _is_address(host):
            raise _Answer(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"this server is not {host!r}",
                "Add the name to the value `page.hosts` of the chart.",
            )
        if not _is_file(request) and from_another_site(request.headers):
            raise _Answer(HTTPStatus.FORBIDDEN, "the request comes from a page of another site")

    async def _viewer(self, request: web.Request) -> Viewer:
        viewer = await self._parts.viewers.viewer(_token(request))
        if viewer is None:
            raise _Answer(
                HTTPStatus.UNAUTHORIZED,
                "the request carries no token that the cluster accepts",
                "Open the page with `streamjob ui --namespace NAMESPACE`.",
            )
        return viewer

    async def _new_code(self, request: web.Request) -> web.Response:
        """Hold the caller's token for the page that is about to be opened."""
        code, expires = self._parts.codes.put(_token(request))
        return _json(SessionCode(code=code, expires_at=expires), HTTPStatus.CREATED)

    async def _session_of_code(self, request: web.Request) -> web.Response:
        """Give the token to the page that shows its code."""
        token = self._parts.codes.take((await _body(request, SessionRequest)).code)
        viewer = await self._parts.viewers.viewer(token) if token is not None else None
        if token is None or viewer is None:
            raise _Answer(
                HTTPStatus.UNAUTHORIZED,
                "the code is unknown, was used before, or is too old",
                "Run `streamjob ui` again.",
            )
        return _json(
            NewSession(token=token, expires_at=viewer.expires or 0.0, write=viewer.may_write), HTTPStatus.CREATED
        )

    async def _session(self, request: web.Request) -> web.Response:
        viewer = _viewer_of(request)
        return _json(ControllerSession(write=False, expires_at=viewer.expires, viewer=viewer.name))

    async def _jobs(self, request: web.Request) -> web.Response:
        return web.json_response(await self._parts.board.document(_viewer_of(request)))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Send the viewer's jobs whole, and then as merge patches; the rights are checked again all the time."""
        if self._streams >= MOST_STREAMS:
            raise _Answer(HTTPStatus.TOO_MANY_REQUESTS, f"{MOST_STREAMS} streams are open already", "Close a page.")
        self._streams += 1
        try:
            sent = await self._parts.board.document(_viewer_of(request))
            response = event_stream()
            await response.prepare(request)
            await _write(response, server_sent("jobs", sent))
            await self._follow(request, response, sent)
        except (ConnectionError, TimeoutError):
            # The reader has left, or does not read.
            return response
        finally:
            self._streams -= 1
        return response

    async def _follow(self, request: web.Request, response: web.StreamResponse, sent: dict[str, Any]) -> None:
        token, quiet = _token(request), 0
        while not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._every)
            try:
                viewer = await self._parts.viewers.viewer(token)
                found = await self._parts.board.document(viewer) if viewer is not None else None
            except StreamJobError as error:
                _log.warning("the rows of the page could not be read: %s", error)
                return
            if found is None:
                return
            patch = merge_patch({**sent, "now": found["now"]}, found)
            sent, quiet = found, 0 if patch else quiet + 1
            if patch:
                await _write(response, server_sent("patch", {**patch, "now": found["now"]}))
            elif quiet % _HEARTBEATS == 0:
                await _write(response, server_sent("patch", {"now": found["now"]}))

    async def _job(self, request: web.Request) -> web.StreamResponse:
        """Answer a request for one job: here, or by its driver."""
        path, viewer = request.match_info["path"], _viewer_of(request)
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        need = need_of(request.method, path)
        if need is None:
            raise _Answer(HTTPStatus.NOT_FOUND, f"there is no {request.method} v1/{path} through the controller")
        job = await self._parts.jobs.find(namespace, name)
        # Whoever may not read a job does not learn whether it exists.
        if job is None or not await self._parts.viewers.may(viewer, Verb.GET, namespace, name):
            raise _Answer(HTTPStatus.NOT_FOUND, f"there is no StreamJob {namespace}/{name} that you may read")
        if need.verb is not Verb.GET and not await self._parts.viewers.may(viewer, need.verb, namespace, name):
            raise _Answer(
                HTTPStatus.FORBIDDEN,
                f"you may not {need.verb.value} StreamJob {namespace}/{name} with this token",
                "Open the page with `streamjob ui --write`, as a service account that may update StreamJobs.",
            )
        if need.verb is not Verb.GET:
            _log.info("%r asks for %s %s of %s/%s", viewer.name, request.method, path, namespace, name)
        return await self._answer(need.way, request, job, path)

    async def _answer(self, way: Way, request: web.Request, job: Object, path: str) -> web.StreamResponse:
        parts, viewer, meta = self._parts, _viewer_of(request), job["metadata"]
        if way is Way.SESSION:
            write = await parts.viewers.may(viewer, Verb.UPDATE, meta["namespace"], meta["name"])
            return _json(ControllerSession(write=write, expires_at=viewer.expires, viewer=viewer.name))
        if way is Way.RESOURCE:
            parts.figures.want([job])
            return _json(resource_of(job, parts.figures.of(meta["uid"]), parts.now()))
        if way is Way.SCALE:
            wanted = await _body(request, ScaleRequest)
            if resource_of(job, None, parts.now()).scaling_acts:
                raise _Answer(
                    HTTPStatus.CONFLICT,
                    "automatic scaling decides on the task slots of this job",
                    "Set `autoscaling.mode` to Advise or Off first.",
                )
            return _json(await parts.actions.scale(job, viewer, wanted.parallelism))
        if way is Way.SUSPEND:
            return _json(
                await parts.actions.suspend(job, viewer, suspend=(await _body(request, SuspendRequest)).suspend)
            )
        if way is Way.STREAM:
            return await self._driver_stream(request, job)
        body = await _checked_body(request, path) if request.method == "POST" else None
        query = f"?{request.query_string}" if request.query_string else ""
        return await self._from_driver(
            job, lambda address: parts.proxy.answer(request, address, f"/v1/{path}{query}", body)
        )

    async def _driver_stream(self, request: web.Request, job: Object) -> web.StreamResponse:
        parts, meta, token = self._parts, job["metadata"], _token(request)
        if parts.proxy.streams >= MOST_STREAMS:
            raise _Answer(HTTPStatus.TOO_MANY_REQUESTS, f"{MOST_STREAMS} streams are open already", "Close a page.")

        async def still_may() -> bool:
            try:
                viewer = await parts.viewers.viewer(token)
                return viewer is not None and await parts.viewers.may(viewer, Verb.GET, meta["namespace"], meta["name"])
            except StreamJobError:
                return False

        return await self._from_driver(
            job, lambda address: parts.proxy.stream(request, address, "/v1/stream", still_may)
        )

    async def _from_driver(
        self, job: Object, ask: Callable[[Any], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        meta = job["metadata"]
        for last in (False, True):
            address = await self._parts.jobs.driver(job)
            if address is None:
                raise _Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"StreamJob {meta['name']} has no driver that runs")
            try:
                return await ask(address)
            except TokenRefused:
                self._parts.jobs.refused(job)
                if last:
                    raise _Answer(HTTPStatus.BAD_GATEWAY, "the driver refuses the controller's token") from None
            except DriverAway as error:
                raise _Answer(HTTPStatus.BAD_GATEWAY, f"the driver does not answer: {error}") from None
        raise AssertionError("the second answer is the last")


async def serve_page(page: Page, host: str, port: int) -> web.AppRunner:
    """Start the server, and return a handle whose `cleanup()` closes it."""
    runner = web.AppRunner(page.app(), access_log=None, shutdown_timeout=_CLOSING)
    await runner.setup()
    try:
        site = BoundedSite(runner, host, port, most=_MOST_CONNECTIONS)
        page.trust = site.trust
        await site.start()
    except BaseException:
        await runner.cleanup()
        raise
    return runner


def _is_file(request: web.Request) -> bool:
    """Return whether a request is for a part of the page itself, which contains no data."""
    parts = request.path.split("/")
    return request.method == "GET" and (parts[1] in ("", "ui") or (parts[1] == "jobs" and parts[4:5] == ["ui"]))


def _is_address(host: str) -> bool:
    """Return whether a host is an address: only a name can be made to lead here by a stranger (DNS rebinding)."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _viewer_of(request: web.Request) -> Viewer:
    return request[_VIEWER]


def _token(request: web.Request) -> str:
    own = request.headers.get(_TOKEN_HEADER, "").strip()
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    return own or (credentials.strip() if scheme.lower() == "bearer" else "")


async def _body(request: web.Request, model: type[_Body]) -> _Body:
    try:
        return model.model_validate_json(await request.read())
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors())
        raise _Answer(HTTPStatus.UNPROCESSABLE_ENTITY, said) from None


async def _checked_body(request: web.Request, path: str) -> bytes:
    model: type[Request] = SavepointRequest if path == "savepoints" else CheckpointRequest
    wanted = await _body(request, model)
    if isinstance(wanted, SavepointRequest) and wanted.location is not None:
        raise _Answer(HTTPStatus.UNPROCESSABLE_ENTITY, "location: a savepoint of the page has the job's own location")
    return wanted.model_dump_json(exclude_none=True).encode()


async def _write(response: web.StreamResponse, text: bytes) -> None:
    async with asyncio.timeout(_WRITE_SECONDS):
        await response.write(text)


def _json(answer: BaseModel, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return web.Response(text=answer.model_dump_json(by_alias=True), status=status, content_type="application/json")


def _problem(problem: Problem) -> web.Response:
    return web.Response(
        text=problem.model_dump_json(exclude_defaults=True, exclude={"type"}),
        status=problem.status,
        content_type="application/problem+json",
        headers={"WWW-Authenticate": 'Bearer realm="streamjob"'} if problem.status == 401 else None,
    )


def _of_error(error: StreamJobError) -> Problem:
    statuses: dict[type[StreamJobError], HTTPStatus] = {
        TooManyReviews: HTTPStatus.TOO_MANY_REQUESTS,
        NotFound: HTTPStatus.NOT_FOUND,
        Conflict: HTTPStatus.CONFLICT,
        Refused: HTTPStatus.UNPROCESSABLE_ENTITY,
    }
    status = statuses.get(type(error), HTTPStatus.SERVICE_UNAVAILABLE)
    return Problem(title=status.phrase, status=int(status), detail=error.what, fix=error.fix)


def _to(place: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def redirect(_request: web.Request) -> web.Response:
        # Relative, since a proxy may serve the page below a path of its own.
        return web.Response(status=308, headers={"Location": place})

    return redirect


def _file(name: str | None = None) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def file(request: web.Request) -> web.Response:
        found = page_files().get(name or request.match_info["file"])
        if found is None:
            raise _Answer(HTTPStatus.NOT_FOUND, "the page has no such file")
        return web.Response(body=found.content, headers={"Content-Type": found.media_type})

    return file
