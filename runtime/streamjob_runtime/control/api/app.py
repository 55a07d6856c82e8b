"""The routes of the control API."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any, get_args

from fastapi import Body, FastAPI, Header, HTTPException, Path, Query, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import StreamingResponse
from pydantic import StringConstraints
from starlette.concurrency import run_in_threadpool

from streamjob.client.models import (
    Accepted,
    CheckpointDetail,
    CheckpointingChanges,
    CheckpointingView,
    CheckpointRequest,
    CheckpointsView,
    CodeRequest,
    ExecutorsView,
    HealthView,
    JobPart,
    JobReport,
    NewSession,
    Problem,
    ProfileRequest,
    SavepointRequest,
    SessionCode,
    SessionRequest,
    SessionView,
    SparkPageRequest,
    SparkPageView,
    StartView,
    StopRequest,
    TriggerView,
)
from streamjob.client.page_models import Diagnosis, EventsView, HistoryView
from streamjob.client.profile_models import ProfilesView, ProfileView
from streamjob.clock import steady_clock
from streamjob.ids import CheckpointId, TriggerId
from streamjob.page.files import HEADERS, PAGE, page_files
from streamjob_runtime.control.api import problems
from streamjob_runtime.control.api.auth import OPEN_PATHS, SESSIONS_PATH, SPARK_PAGE_PATH, BearerToken, access_of
from streamjob_runtime.control.api.guard import BoundedBody, trust_connection
from streamjob_runtime.control.api.refusals import (
    InvalidChange,
    InvalidCode,
    NotTheJobsToken,
    StateConflict,
)
from streamjob_runtime.control.api.sessions import Sessions
from streamjob_runtime.control.api.spark_page import PREFIX as SPARK_PREFIX
from streamjob_runtime.control.api.spark_page import SparkPages
from streamjob_runtime.control.api.streams import StreamResponse, Streams
from streamjob_runtime.control.requests import MOST_AWAITED, RequestKind
from streamjob_runtime.control.running_job import RunningJob

METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"

_PARTS: tuple[JobPart, ...] = get_args(JobPart)


def create_app(
    control: RunningJob,
    token: str,
    *,
    metrics: Callable[[], bytes],
    expect: Callable[[TriggerId, str], None] = lambda _trigger, _parent: None,
    hosts: frozenset[str] | None = None,
    streams: Streams | None = None,
) -> FastAPI:
    """Return the control API of a job, and its page.

    Args:
        token: the token that callers must show.
        metrics: returns the metrics in Prometheus' text form.
        expect: receives the W3C `traceparent` that comes with a request, before the job receives the request.
        hosts: the names under which the server is reached; None for any.
        streams: the streams to the pages; None for new ones.
    """
    sessions = Sessions(steady_clock(), lambda: secrets.token_urlsafe(32))
    app = FastAPI(
        title="streamjob control API",
        summary="Watch and steer one running job.",
        version=version("streamjob"),
        docs_url=None,
        redoc_url=None,
        responses={401: _problem("No valid token.")},
    )
    problems.install(app)
    # Middleware added last runs first: no body is read without the token.
    app.add_middleware(BoundedBody)
    app.add_middleware(BearerToken, token=token, sessions=sessions, hosts=hosts)
    _add_views(app, control)
    _add_requests(app, control, expect)
    _add_profiles(app, control)
    _add_sessions(app, sessions)
    _add_spark_page(app, SparkPages(control.spark_page, steady_clock(), lambda: secrets.token_urlsafe(32)))
    _add_page(app)
    _add_stream(app, streams or Streams(control.live, control.events, steady_clock()))
    add_probes(app, control, lambda: run_in_threadpool(metrics))
    _describe(app)
    return app


def _problem(description: str) -> dict[str, Any]:
    return {"description": description, "model": Problem}


_CONFLICT: dict[int | str, dict[str, Any]] = {409: _problem("The job's state, or an earlier request, forbids it.")}
_FORBIDDEN: dict[int | str, dict[str, Any]] = {403: _problem("The caller's session may not do this.")}
_TOO_MANY: dict[int | str, dict[str, Any]] = {429: _problem("Too many requests have no outcome yet.")}
_INVALID: dict[int | str, dict[str, Any]] = {422: _problem("The request is malformed; it names the fields.")}
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: _problem("There is nothing with this id."), **_INVALID}


_Include = Annotated[
    str,
    Query(
        max_length=200, description=f"Parts that are to be in the answer too, with commas between: {', '.join(_PARTS)}."
    ),
]
_Wanted = Annotated[
    Sequence[Annotated[str, StringConstraints(max_length=128)]],
    Query(
        max_length=MOST_AWAITED,
        description="Trigger id of a request whose outcome is to be in the answer too; may be repeated.",
    ),
]


_Parent = Annotated[
    str,
    Header(max_length=256, description="W3C trace context: the span that the snapshot's trace belongs to."),
]


_Since = Annotated[
    float | None,
    Query(allow_inf_nan=False, description="Only points later than this time, in seconds since 1970."),
]


def _add_views(app: FastAPI, control: RunningJob) -> None:
    @app.get("/v1/job", tags=["job"], responses=_INVALID)
    def job(include: _Include = "", trigger: _Wanted = ()) -> JobReport:
        """State, graph, attempt, epoch, restarts, chains, the last checkpoint, and the parts that `include` and
        `trigger` request."""
        asked = {part.strip() for part in include.split(",")}
        return control.report(
            [part for part in _PARTS if part in asked], [TriggerId(trigger_id) for trigger_id in trigger]
        )

    @app.get("/v1/diagnosis", tags=["job"])
    def diagnosis() -> Diagnosis:
        """The condition of the job in one sentence, with every finding."""
        return control.diagnosis()

    @app.get("/v1/history", tags=["job"], responses=_INVALID)
    def history(since: _Since = None) -> HistoryView:
        """The figures of the last hour, every five seconds."""
        return control.history.since(since)

    @app.get("/v1/executors", tags=["job"])
    def executors() -> ExecutorsView:
        """The executors in processes of their own, and the state that each has."""
        return control.executors()

    @app.get("/v1/events", tags=["job"])
    def events() -> EventsView:
        """The last 500 events of this process: states, restarts, checkpoints, requests, ends of inputs."""
        return control.events.view()

    @app.get("/v1/checkpoints", tags=["checkpoints"])
    def checkpoints() -> CheckpointsView:
        """Counts, summary, the latest of each kind and the history, under Flink's REST names."""
        return control.checkpoints()

    @app.get("/v1/checkpoints/{checkpoint_id}", tags=["checkpoints"], responses=_UNKNOWN)
    def checkpoint(checkpoint_id: Annotated[int, Path(ge=0, lt=1 << 63)]) -> CheckpointDetail:
        """One checkpoint of the history, with the part of every chain."""
        found = control.checkpoint(CheckpointId(checkpoint_id))
        if found is None:
            raise HTTPException(404, f"checkpoint {checkpoint_id} is not in the history")
        return found


def _add_requests(app: FastAPI, control: RunningJob, expect: Callable[[TriggerId, str], None]) -> None:
    def ask(
        response: Response,
        kind: RequestKind,
        requested: TriggerId | None,
        call: Callable[[TriggerId], None],
        traceparent: str,
    ) -> Accepted:
        def announced(trigger_id: TriggerId) -> None:
            if traceparent:
                expect(trigger_id, traceparent)
            call(trigger_id)

        trigger_id = control.requests.ask(kind, requested, announced)
        response.headers["Location"] = f"/v1/triggers/{trigger_id}"
        return Accepted(trigger_id=trigger_id)

    @app.post("/v1/checkpoints", status_code=202, tags=["checkpoints"], responses=_CONFLICT | _INVALID | _TOO_MANY)
    def trigger_checkpoint(
        response: Response, request: Annotated[CheckpointRequest | None, Body()] = None, traceparent: _Parent = ""
    ) -> Accepted:
        """Request a checkpoint."""
        wanted = request or CheckpointRequest()
        return ask(response, "checkpoint", wanted.trigger_id, control.trigger_checkpoint, traceparent)

    @app.post("/v1/savepoints", status_code=202, tags=["savepoints"], responses=_CONFLICT | _INVALID | _TOO_MANY)
    def trigger_savepoint(
        response: Response, request: Annotated[SavepointRequest | None, Body()] = None, traceparent: _Parent = ""
    ) -> Accepted:
        """Request a savepoint."""
        wanted = request or SavepointRequest()
        call = partial(control.trigger_savepoint, wanted.location)
        return ask(response, "savepoint", wanted.trigger_id, call, traceparent)

    @app.post("/v1/stop", status_code=202, tags=["job"], responses=_CONFLICT | _INVALID)
    def stop(
        response: Response, request: Annotated[StopRequest | None, Body()] = None, traceparent: _Parent = ""
    ) -> Accepted:
        """Request a stop with a savepoint or a last checkpoint."""
        wanted = request or StopRequest()
        call = partial(control.stop, savepoint=wanted.savepoint, location=wanted.location, drain=wanted.drain)
        return ask(response, "stop", wanted.trigger_id, call, traceparent)

    @app.post("/v1/start", status_code=202, tags=["job"])
    def start() -> StartView:
        """Start a process that runs with `--wait-for-start`. A process that has started goes on."""
        control.gate.open()
        return StartView(attempt=control.job().attempt)

    @app.patch("/v1/checkpointing", tags=["checkpoints"], responses=_CONFLICT | _INVALID)
    def patch_checkpointing(changes: CheckpointingChanges) -> CheckpointingView:
        """Change the checkpointing policy; omitted fields keep their values."""
        return control.patch_checkpointing(changes)

    @app.get("/v1/triggers/{trigger_id}", tags=["triggers"], responses=_UNKNOWN)
    def trigger(trigger_id: str) -> TriggerView:
        """The outcome of a request."""
        found = control.trigger(TriggerId(trigger_id))
        if found is None:
            raise HTTPException(404, f"no request has the trigger id {trigger_id}")
        return found


def _add_profiles(app: FastAPI, control: RunningJob) -> None:
    @app.post("/v1/profiles", status_code=202, tags=["profiles"], responses=_CONFLICT | _INVALID)
    def start_profile(response: Response, request: Annotated[ProfileRequest | None, Body()] = None) -> Accepted:
        """Record where the processes of the job spend their CPU time; one profile at a time."""
        wanted = request or ProfileRequest()
        profile = wanted.trigger_id or TriggerId(str(uuid.uuid4()))
        control.profiles.start(profile, wanted.seconds)
        response.headers["Location"] = f"/v1/profiles/{profile}"
        return Accepted(trigger_id=profile)

    @app.get("/v1/profiles", tags=["profiles"])
    def profiles() -> ProfilesView:
        """The last five profiles of this process, without their stacks."""
        return control.profiles.view()

    @app.get("/v1/profiles/{profile_id}", tags=["profiles"], responses=_UNKNOWN)
    def profile(profile_id: Annotated[str, Path(max_length=128)]) -> ProfileView:
        """A profile, with the stacks of each process once it has completed."""
        found = control.profiles.get(TriggerId(profile_id))
        if found is None:
            raise HTTPException(404, f"there is no profile {profile_id}")
        return found


def _add_sessions(app: FastAPI, sessions: Sessions) -> None:
    # Coroutines: nothing here waits, and strangers may call the first.
    @app.post(SESSIONS_PATH, status_code=201, tags=["sessions"], responses=_INVALID)
    async def new_session(request: SessionRequest) -> NewSession:
        """Exchange a code for a session of the job's page; needs no token."""
        issued = sessions.exchange(request.code)
        if issued is None:
            raise InvalidCode("the code is unknown, was used before, or is too old", "Run `streamjob ui` again.")
        return NewSession(token=issued.secret, expires_at=issued.access.expires or 0.0, write=issued.access.write)

    @app.post(f"{SESSIONS_PATH}/codes", status_code=201, tags=["sessions"], responses=_FORBIDDEN | _INVALID)
    async def new_code(http: Request, request: Annotated[CodeRequest | None, Body()] = None) -> SessionCode:
        """Issue a code for one session, to be used within a minute; needs the job's own token."""
        if access_of(http.scope).expires is not None:
            raise NotTheJobsToken("a session cannot begin another one", "Use the job's own token.")
        issued = sessions.new_code(write=(request or CodeRequest()).write)
        return SessionCode(code=issued.secret, expires_at=issued.access.expires or 0.0)

    @app.get("/v1/session", tags=["sessions"])
    async def session(http: Request) -> SessionView:
        """The rights of the caller."""
        access = access_of(http.scope)
        return SessionView(write=access.write, expires_at=access.expires)


def _add_spark_page(app: FastAPI, pages: SparkPages) -> None:
    @app.post(SPARK_PAGE_PATH, status_code=201, tags=["sessions"], responses=_CONFLICT | _INVALID)
    def open_spark_page(http: Request, request: Annotated[SparkPageRequest | None, Body()] = None) -> SparkPageView:
        """Return an address of Spark's own page, if the job sets `spark.ui.enabled`. The address needs no token, shows
        nothing else, and is good for an hour, or until the session ends. Sessions that only read may ask, too."""
        if pages.page() is None:
            raise StateConflict(
                "Spark’s own page is not there",
                "Set `spark.ui.enabled: true` in the job's `sparkConf`, and start it again.",
            )
        try:
            ticket = pages.issue(access_of(http.scope), (request or SparkPageRequest()).base)
        except ValueError as error:
            raise InvalidChange("base", str(error)) from None
        return SparkPageView(path=f"{ticket.path}/", expires_at=ticket.expires)

    @app.api_route(SPARK_PREFIX + "{token}/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def spark_page(http: Request, token: str, path: str) -> Response:
        if pages.find(token) is not None:
            trust_connection(http.scope)
        return await pages.answer(http.method, token, path, http.url.query)


def _add_page(app: FastAPI) -> None:
    @app.api_route(PAGE.rstrip("/"), methods=["GET", "HEAD"], include_in_schema=False)
    async def page_without_slash() -> Response:
        # Relative, since a proxy may serve the page below a path of its own.
        return Response(status_code=308, headers={"Location": PAGE.strip("/") + "/", **HEADERS})

    @app.api_route(PAGE + "{name}", methods=["GET", "HEAD"], include_in_schema=False)
    async def page_file(name: str) -> Response:
        return _page_file(name)

    @app.api_route(PAGE, methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Response:
        return _page_file("index.html")


def _add_stream(app: FastAPI, streams: Streams) -> None:
    content: dict[str, Any] = {"text/event-stream": {}}

    @app.get(
        "/v1/stream",
        tags=["job"],
        response_class=StreamingResponse,
        responses={200: {"content": content}, 429: _problem("Too many streams are open."), **_INVALID},
    )
    async def stream(http: Request, last_event_id: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
        """Server-sent events, for the page: `job` is a document with the answers of `/v1/job`, `/v1/diagnosis` and
        `/v1/checkpoints`, the newest point of `/v1/history` and the checkpointing policy, without null fields; `patch`
        is a JSON Merge Patch of it, at most one a second; `log` is an event of `/v1/events`. With `Last-Event-ID`, the
        events after that one come first. At most 8 streams."""
        last = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else None
        return StreamResponse(streams.open(last, access_of(http.scope).expires))


def _page_file(name: str) -> Response:
    found = page_files().get(name)
    if found is None:
        raise HTTPException(404, f"the job's page has no file {name!r}")
    return Response(found.content, media_type=found.media_type, headers=dict(HEADERS))


def add_probes(app: FastAPI, control: RunningJob, metrics: Callable[[], Awaitable[bytes]]) -> None:
    """Add the monitoring routes `/healthz`, `/readyz` and `/metrics`.

    Anybody may call them, at the pace at which connections are accepted. They are coroutines, since a thread per
    response would double the cost.
    """
    unavailable: dict[int | str, dict[str, Any]] = {503: {"model": HealthView, "description": "It is not."}}

    def probe(response: Response, answer: tuple[bool, str]) -> HealthView:
        ok, reason = answer
        response.status_code = 200 if ok else 503
        return HealthView(ok=ok, reason=reason)

    @app.get("/healthz", tags=["probes"], responses=unavailable)
    async def healthz(response: Response) -> HealthView:
        """Whether the process is healthy; needs no token."""
        return probe(response, control.healthy())

    @app.get("/readyz", tags=["probes"], responses=unavailable)
    async def readyz(response: Response) -> HealthView:
        """Whether the job processes records, or stops or has ended in order; needs no token."""
        return probe(response, control.ready())

    @app.get("/metrics", tags=["probes"], response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def scrape() -> Response:
        """Metrics in Prometheus' text format."""
        return Response(await metrics(), media_type=METRICS_TEXT)


def _describe(app: FastAPI) -> None:
    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                routes=app.routes,
                # By default pydantic would describe a checkpoint, which omits missing fields, without any field.
                separate_input_output_schemas=False,
            )
            schema.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"token": []}]
            for path in OPEN_PATHS:
                probe = schema["paths"][path]["get"]
                probe["security"] = []
                del probe["responses"]["401"]
            schema["paths"][SESSIONS_PATH]["post"]["security"] = []
            for response in _error_responses(schema):
                response["content"] = {problems.PROBLEM_JSON: response["content"].pop("application/json")}
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _error_responses(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    problem = {"$ref": "#/components/schemas/Problem"}
    for path in schema["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                if response.get("content", {}).get("application/json", {}).get("schema") == problem:
                    yield response
