"""Answers HTTP requests with one socket and one thread."""

from __future__ import annotations

import os
import socket
import threading
from types import TracebackType
from typing import Self

from starlette.types import ASGIApp

from streamjob.errors import InvalidInput, StreamJobError
from streamjob_runtime.control.api.admission import LIMITS, Limits
from streamjob_runtime.control.api.guard import GuardedServer

HOST_VARIABLE = "STREAMJOB_HOST"
LOOPBACK = "127.0.0.1"
ALL_ADDRESSES = "*"

_LOOK_SECONDS = 0.01
_BACKLOG = 1024


class ServerNotStarted(StreamJobError):
    """A server of the job could not be started, so the job does not start either."""


class Server:
    """Serves an application in its own thread, from `start` to `stop`; a context manager does both.

    Args:
        name: its name in messages: `control API`.
        variable: the environment variable of the port, for messages.
    """

    def __init__(self, name: str, variable: str) -> None:
        self._url = ""
        self._name = name
        self._variable = variable
        self._server: GuardedServer | None = None
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    @property
    def url(self) -> str:
        """Its URL without a slash at the end; empty while it is stopped."""
        return self._url

    def start(self) -> None:
        """Start the server."""
        raise NotImplementedError

    def serve(self, app: ASGIApp, port: int, limits: Limits = LIMITS) -> None:
        """Serve an application at the address of `listening_host`; return once it answers requests.

        Args:
            port: port; 0 for any free one.

        Raises:
            InvalidInput: the port is taken, or the address does not exist.
            ServerNotStarted: the server ended before it could answer.
        """
        address = listening_host()
        self._socket = self._listen(address, port)
        self._server = server = GuardedServer(app, self._socket, limits)
        thread_name = f"streamjob-{self._name.lower().replace(' ', '-')}"
        self._thread = threading.Thread(target=server.run, name=thread_name, daemon=True)
        self._thread.start()
        while self._thread.is_alive() and not server.started:
            self._thread.join(_LOOK_SECONDS)
        if not server.started:
            self.stop()
            raise ServerNotStarted(f"the {self._name} could not be served", "Look for the cause in the job's log.")
        self._url = f"http://{_reachable(address)}:{self._socket.getsockname()[1]}"

    def stop(self) -> None:
        """Stop the server; on return its thread has ended and its socket is closed."""
        self._url = ""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
            self._server = self._thread = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _listen(self, host: str, port: int) -> socket.socket:
        everywhere = host in (ALL_ADDRESSES, "::")
        # A pod may have IPv4 addresses, IPv6 addresses or both.
        dual = everywhere and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual or (":" in host and not everywhere) else socket.AF_INET
        address = ("" if everywhere else host, port)
        try:
            return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=dual)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise InvalidInput(
                f"the {self._name} cannot listen on {host} port {port}: {reason}",
                f"Set {self._variable} to a free port, or unset it; set {HOST_VARIABLE} to an address of this machine,"
                " or to * for all.",
            ) from None


def listening_host() -> str:
    """Return the address of the job's servers, `*` for all: STREAMJOB_HOST, or else loopback.

    Connections are not encrypted, so anyone on the network path can read the token: set the variable in a pod, not on a
    shared machine.
    """
    return os.environ.get(HOST_VARIABLE) or LOOPBACK


def port_of(variable: str) -> int | None:
    """Return the port in an environment variable, 0 for any free one; None if the variable is not set.

    Raises:
        InvalidInput: it is not a port.
    """
    text = os.environ.get(variable, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > 65535:
        raise InvalidInput(f"{variable} is {text!r}", "Set it to a number from 0 (any free port) to 65535.")
    return int(text)


def _reachable(host: str) -> str:
    """Return the host under which local clients reach an address."""
    if host in (ALL_ADDRESSES, "0.0.0.0", "::"):
        return LOOPBACK
    return f"[{host}]" if ":" in host else host
