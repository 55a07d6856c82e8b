"""Serves an application to possibly hostile callers, with deadlines and limits for their connections.

uvicorn itself closes only connections that are idle between two requests. It waits for ever for the rest of a head or
body and for a response to be read, and accepts connections until the process has no more file descriptors.
"""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from streamjob_runtime.control.api.admission import LIMITS, Limits, next_turn, surplus

_SHUTDOWN_SECONDS = 5
_OUT_OF_DESCRIPTORS_SECONDS = 0.2
_COST_OF_THE_GONE = 0.1
_CONNECTION = "streamjob.connection"


class GuardedServer(uvicorn.Server):
    """A server with limits, for a thread of its own: it leaves signals to the job."""

    def __init__(self, app: ASGIApp, listener: socket.socket, limits: Limits = LIMITS) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_GuardedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                # uvicorn warns about each malformed request, so callers could fill the log.
                log_level="error",
                access_log=False,
                server_header=False,
                headers=[("x-content-type-options", "nosniff"), ("cache-control", "no-store")],
                h11_max_incomplete_event_size=limits.head_bytes,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
        )
        self.limits = limits
        self.strangers: dict[_GuardedProtocol, str] = {}
        self._listener = listener

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `should_exit` is set."""
        super().run(sockets or [])

    async def main_loop(self) -> None:
        """Accept connections until the server stops."""
        accepting = asyncio.create_task(self._accept())
        await super().main_loop()
        accepting.cancel()
        await asyncio.wait([accepting])

    async def _accept(self) -> None:
        """Accept connections one by one, which limits the use of file descriptors and of the processor."""
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        turn = float("-inf")
        while True:
            cost = _COST_OF_THE_GONE
            try:
                connection, _ = await loop.sock_accept(self._listener)
                if _is_gone(connection):
                    connection.close()
                else:
                    cost = 1.0
                    await loop.connect_accepted_socket(lambda: _GuardedProtocol(self), connection)
            except OSError:
                # The caller has left already, or the process has no free file descriptor.
                await asyncio.sleep(_OUT_OF_DESCRIPTORS_SECONDS)
            turn = next_turn(turn, loop.time(), self.limits, cost)
            if (wait := turn - loop.time()) > 0:
                await asyncio.sleep(wait)


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
        self.limits = server.limits
        self._strangers = server.strangers
        self._deadline: asyncio.TimerHandle | None = None
        self._begun: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.end_in(self.limits.head_seconds)
        self._strangers[self] = peer = self.client[0] if self.client else ""
        if (excess := surplus(self._strangers, peer, len(self.connections), self.limits)) is not None:
            excess.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._strangers.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not self._begun:
            self._begun = self.cycle
            # The body has its own deadline, which arriving bytes do not extend.
            self.end_in(self.limits.request_seconds)
            if self in self._strangers:
                # A stranger must queue among the new connections for each further request.
                self.cycle.default_headers = [*self.cycle.default_headers, CLOSE_HEADER]

    def on_response_complete(self) -> None:
        self.end_in(self.timeout_keep_alive + self.limits.head_seconds)
        super().on_response_complete()

    def trust(self) -> None:
        self._strangers.pop(self, None)
        self.cycle.default_headers = self.server_state.default_headers

    def end_in(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)


def trust_connection(scope: Scope) -> None:
    """Record that the request of `scope` has shown the token."""
    if (connection := _connection(scope)) is not None:
        connection.trust()


def keep_open(scope: Scope) -> None:
    """Prolong the deadline of an answer that goes on, as its parts so far are sent; call it before each part."""
    if (connection := _connection(scope)) is not None:
        connection.end_in(connection.limits.request_seconds)


def _connection(scope: Scope) -> _GuardedProtocol | None:
    found: _GuardedProtocol | None = scope.get("state", {}).get(_CONNECTION)
    return found


class BoundedBody:
    """Middleware that refuses a body that is too large while it is read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        size = 0

        async def receiving() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > LIMITS.body_bytes:
                detail = f"the request's body has more than {LIMITS.body_bytes} bytes"
                raise HTTPException(413, detail, {"Connection": "close"})
            return message

        await self._app(scope, receiving, send)
