"""Serves an application to possibly hostile callers, with deadlines and limits for their connections.

uvicorn itself closes only connections that are idle between two requests. It waits for ever for the rest of a head or
body and for a response to be read, and accepts connections until the process has no more file descriptors.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Mapping, MutableMapping
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamjob.client.models import Problem
from streamjob_runtime.control.api.admission import LIMITS, Admission, Limits, Pace
from streamjob_runtime.control.api.problems import problem_response

_SHUTDOWN_SECONDS = 5
_OUT_OF_DESCRIPTORS_SECONDS = 0.2
_COST_OF_THE_GONE = 0.1
_CONNECTION = "streamjob.connection"
_SAFE_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class GuardedServer(uvicorn.Server):
    """A server with limits, in its own thread.

    It leaves signals to the job, and reports to its creator when it is ready or has failed.

    Args:
        app: the application.
        limits: limits on the resources that callers can use.
    """

    def __init__(self, app: ASGIApp, limits: Limits = LIMITS) -> None:
        super().__init__(
            uvicorn.Config(
                Guarded(app),
                http=_GuardedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                h11_max_incomplete_event_size=limits.head_bytes,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
        )
        # uvicorn warns about each malformed request, so callers could fill the log.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self.answering = threading.Event()
        self.limits = limits
        self.admission: Admission[_GuardedProtocol] = Admission(limits)
        self._accepting: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections on the socket."""
        await super().startup([])
        (listener,) = sockets or []
        self._accepting = asyncio.create_task(self._accept(listener))
        self.answering.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and close the open ones."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        await super().shutdown(sockets)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `should_exit` is set."""
        try:
            super().run(sockets)
        finally:
            self.answering.set()

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections one by one, which limits the use of file descriptors and of the processor."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        pace = Pace(self.limits.per_second, self.limits.burst)
        while True:
            cost = _COST_OF_THE_GONE
            try:
                connection, _ = await loop.sock_accept(listener)
                if _is_gone(connection):
                    connection.close()
                else:
                    cost = 1.0
                    await loop.connect_accepted_socket(self._protocol, connection)
            except OSError:
                # The caller has left already, or the process has no free file descriptor.
                await asyncio.sleep(_OUT_OF_DESCRIPTORS_SECONDS)
            if wait := pace.take(loop.time(), cost):
                await asyncio.sleep(wait)

    def _protocol(self) -> _GuardedProtocol:
        return _GuardedProtocol(self)


def _is_gone(connection: socket.socket) -> bool:
    """Return whether a caller has left before its turn; a thousand of them must not delay the next one."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


class _GuardedProtocol(H11Protocol):
    def __init__(self, server: GuardedServer) -> None:
        super().__init__(server.config, server.server_state, {_CONNECTION: self})
        self._limits = server.limits
        self._admission = server.admission
        self._deadline: asyncio.TimerHandle | None = None
        self._begun: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._end_in(self._limits.head_seconds)
        excess = self._admission.admit(self, self.client[0] if self.client else "")
        if excess is not None:
            excess.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._admission.leave(self)
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        # The body has its own deadline, which arriving bytes do not extend.
        if self.cycle is not None and self.cycle is not self._begun and not self.cycle.response_complete:
            self._begun = self.cycle
            self._end_in(self._limits.request_seconds)

    def on_response_complete(self) -> None:
        self._end_in(self.timeout_keep_alive + self._limits.head_seconds)
        super().on_response_complete()

    def trust(self) -> None:
        self._admission.trust(self)

    def keep_open(self) -> None:
        """Give the reader of a stream time for its next part; the parts before it are sent."""
        self._end_in(self._limits.request_seconds)

    @property
    def trusted(self) -> bool:
        return self._admission.is_trusted(self)

    def _end_in(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)


def trust_connection(scope: Scope) -> None:
    """Record that the request of `scope` has shown the token."""
    if (connection := _connection(scope)) is not None:
        connection.trust()


def keep_open(scope: Scope) -> None:
    """Prolong the deadline of an answer that goes on; call it before each part."""
    if (connection := _connection(scope)) is not None:
        connection.keep_open()


def _connection(scope: Scope) -> _GuardedProtocol | None:
    state = cast("Mapping[str, Any]", scope.get("state") or {})
    return cast("_GuardedProtocol | None", state.get(_CONNECTION))


class Guarded:
    """Middleware that closes the connection after responding to a stranger, and adds security headers for browsers.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        connection = _connection(scope)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), *_SAFE_HEADERS]
                if connection is not None and not connection.trusted:
                    # A stranger must queue among the new connections for each further request.
                    headers.append((b"connection", b"close"))
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, sending)


class WholeBody:
    """Middleware that reads the whole body before the request is handled; answers 413 if it is too large.

    Args:
        app: the application.
        limit: maximum size in bytes.
    """

    def __init__(self, app: ASGIApp, limit: int = LIMITS.body_bytes) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = bytearray()
        more = True
        while more:
            message: MutableMapping[str, Any] = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._limit:
                await _too_large(self._limit)(scope, receive, send)
                return
        given = False

        async def receiving() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self._app(scope, receiving, send)


def _too_large(limit: int) -> ASGIApp:
    problem = Problem(title="Content Too Large", status=413, detail=f"the request's body has more than {limit} bytes")
    return problem_response(problem, {"Connection": "close"})
