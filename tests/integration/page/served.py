"""A server of the page with recorded states; each state has a prefix of its own, as behind a proxy."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.integration.page.answers import profile
from tests.integration.page.files import HEADERS, UI

TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
CODE = "only-once"
TOKEN = "a-session"


@dataclass
class Driver:
    """One driver, which answers with a recorded state.

    Args:
        state: its answers.
        write: whether its sessions may change the job.
        lacks: paths that it does not offer, as drivers of older versions.
    """

    state: dict[str, Any]
    write: bool = False
    lacks: frozenset[str] = frozenset()
    away: bool = False
    code: str | None = CODE
    token: str | None = TOKEN
    profiles: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    streams: list[asyncio.Queue[str | None]] = field(default_factory=list)
    loop: asyncio.AbstractEventLoop | None = None

    def send(self, event: str, data: Any, number: int | None = None) -> None:
        """Send an event to all pages."""
        text = (f"id: {number}\n" if number is not None else "") + f"event: {event}\ndata: {json.dumps(data)}\n\n"
        self._put(text)

    def hang_up(self) -> None:
        """End all streams."""
        self._put(None)

    def _put(self, text: str | None) -> None:
        assert self.loop is not None
        for queue in self.streams:
            self.loop.call_soon_threadsafe(queue.put_nowait, text)

    def document(self) -> dict[str, Any]:
        """Return the stream's document."""
        return {name: self.state[name] for name in ("job", "diagnosis", "checkpoints", "point", "checkpointing")}


class PageServer:
    """Serves drivers below `/<name>/`."""

    def __init__(self) -> None:
        self.drivers: dict[str, Driver] = {}
        self.port = 0

    def url(self, name: str, code: str | None = CODE) -> str:
        """Return the address of a driver's page."""
        return f"http://127.0.0.1:{self.port}/{name}/ui/" + (f"#code={code}" if code else "")

    def app(self) -> Starlette:
        """Return the application."""
        routes = [
            Route("/{name}/ui/", self._file),
            Route("/{name}/ui/{file}", self._file),
            Route("/{name}/v1/{path:path}", self._api, methods=["GET", "POST", "PATCH"]),
        ]
        return Starlette(routes=routes)

    async def _file(self, request: Request) -> Response:
        driver = self.drivers[request.path_params["name"]]
        file = UI / request.path_params.get("file", "index.html")
        if driver.away:
            return Response(status_code=503)
        if not file.is_file():
            return Response(status_code=404)
        return Response(file.read_bytes(), headers=HEADERS | {"Content-Type": TYPES[file.suffix[1:]]})

    async def _api(self, request: Request) -> Response:
        driver, path = self.drivers[request.path_params["name"]], request.path_params["path"]
        driver.loop = asyncio.get_running_loop()
        body: Any = await request.json() if request.method != "GET" else {}
        driver.requests.append((request.method, path, body))
        if driver.away:
            return Response("no endpoints available", status_code=503)
        if path in driver.lacks or path.split("/")[0] in driver.lacks:
            return _problem(404, "Not Found")
        if path == "sessions":
            if driver.code is None or body["code"] != driver.code:
                return _problem(401, "The code is not valid")
            driver.code = None
            return JSONResponse({"token": driver.token, "expiresAt": None, "write": driver.write}, 201)
        if driver.token is None or request.headers.get("X-Streamjob-Token") != driver.token:
            return _problem(401, "The session is not valid")
        if path == "spark-page":
            return JSONResponse({"path": f"{body['base']}/ui/spark/t/", "expiresAt": None}, 201)
        if request.method != "GET":
            if not driver.write:
                return _problem(403, "The session may only read")
            if path == "profiles":
                driver.profiles.insert(0, profile("asked", "RECORDING"))
            return JSONResponse({"triggerId": "a-request"}, 202)
        return self._read(driver, path)

    def _read(self, driver: Driver, path: str) -> Response:
        state = driver.state
        if path == "session":
            return JSONResponse({"write": driver.write, "expiresAt": None})
        if path == "stream":
            return StreamingResponse(_events(driver), media_type="text/event-stream")
        if path.startswith("checkpoints/"):
            wanted = int(path.removeprefix("checkpoints/"))
            found = next((each for each in state["checkpoints"]["history"] if each["id"] == wanted), None)
            return JSONResponse(found) if found else _problem(404, "Not Found")
        if path.startswith("triggers/"):
            done = {"triggerId": "a-request", "kind": "checkpoint", "state": "COMPLETED", "checkpoint": 807}
            return JSONResponse(done | {"result": "s3://state/807/manifest.json", "failure": None})
        answers = {
            "job": state["job"] | {"checkpoints": state["checkpoints"], "checkpointing": state["checkpointing"]},
            "diagnosis": state["diagnosis"],
            "history": {"intervalSeconds": 5, "points": state["points"]},
            "events": {"events": state["events"]},
            "executors": state["executors"],
            "profiles": {"profiles": [{**each, "processes": []} for each in driver.profiles]},
            **{f"profiles/{each['id']}": each for each in driver.profiles},
        }
        return JSONResponse(answers[path]) if path in answers else _problem(404, "Not Found")


def without_null(value: Any) -> Any:
    """Return a document as the stream sends it: in merge patches null removes a field, so that no field is null."""
    if isinstance(value, dict):
        return {name: without_null(each) for name, each in value.items() if each is not None}
    return [without_null(each) for each in value] if isinstance(value, list) else value


def _problem(status: int, title: str) -> Response:
    return JSONResponse({"title": title, "status": status, "detail": "", "fix": ""}, status)


async def _events(driver: Driver) -> AsyncIterator[str]:
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    driver.streams.append(queue)
    try:
        # As in the statistics' history, the parts of chains are left out.
        document = driver.document()
        entries = [{**each, "tasks": {}} for each in document["checkpoints"]["history"]]
        document["checkpoints"] = document["checkpoints"] | {"history": entries}
        yield f"event: job\ndata: {json.dumps(without_null(document))}\n\n"
        while (text := await queue.get()) is not None:
            yield text
    finally:
        driver.streams.remove(queue)


@contextmanager
def page_server() -> Iterator[PageServer]:
    """Serve until the block ends."""
    pages = PageServer()
    server = uvicorn.Server(uvicorn.Config(pages.app(), host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    server.config.load()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.01)
    pages.port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield pages
    finally:
        for driver in pages.drivers.values():
            if driver.loop is not None:
                driver.hang_up()
        server.should_exit = True
        thread.join(10)
