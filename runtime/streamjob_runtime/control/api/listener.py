"""One socket and one thread that answers HTTP requests on it."""

from __future__ import annotations

import os
import socket
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from starlette.types import ASGIApp

from streamjob.errors import InvalidInput, StreamJobError
from streamjob_runtime.control.api.guard import GuardedServer

HOST_VARIABLE = "STREAMJOB_HOST"
LOOPBACK = "127.0.0.1"
ALL_ADDRESSES = "*"

_START_SECONDS = 30.0
_BACKLOG = 1024


class ServerNotStarted(StreamJobError):
    """A server of the job could not be started; the job must not run without it."""


class Server(ABC):
    """A server of a job, from `start` to `stop`; as a context manager it does both."""

    def __init__(self) -> None:
        self._url = ""

    @property
    def url(self) -> str:
        """Where it is served, without a slash at its end; empty while it is not."""
        return self._url

    @abstractmethod
    def start(self) -> None:
        """Serve."""

    @abstractmethod
    def stop(self) -> None:
        """End the server: its thread has ended and its socket is closed on return."""

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


class Listener:
    """Serves an application in a thread of its own, from `start` to `stop`.

    Args:
        name: what is served, for messages: `control API`.
        variable: the environment variable of the port, for messages.
    """

    def __init__(self, name: str, variable: str) -> None:
        self._name = name
        self._variable = variable
        self._server: GuardedServer | None = None
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None

    def start(self, app: ASGIApp, port: int, host: str | None = None) -> str:
        """Serve an application; return where, without a slash at its end, once requests are answered.

        Args:
            app: the application.
            port: port to listen on; 0 for any free one.
            host: address to listen on, `*` for all; None: STREAMJOB_HOST, or else loopback alone.

        Raises:
            InvalidInput: the port is taken, or there is no such address.
            ServerNotStarted: the server ended before it answered.
        """
        host = host or os.environ.get(HOST_VARIABLE) or LOOPBACK
        self._socket = self._listen(host, port)
        self._server = server = GuardedServer(app)
        thread_name = f"streamjob-{self._name.lower().replace(' ', '-')}"
        self._thread = threading.Thread(target=server.run, args=([self._socket],), name=thread_name, daemon=True)
        self._thread.start()
        if not server.answering.wait(_START_SECONDS) or not server.started:
            self.stop()
            raise ServerNotStarted(f"the {self._name} could not be served", "Look for the cause in the job's log.")
        return f"http://{_reachable(host)}:{self._socket.getsockname()[1]}"

    def stop(self) -> None:
        """End the server: its thread has ended and its socket is closed on return."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
            self._server = self._thread = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _listen(self, host: str, port: int) -> socket.socket:
        everywhere = host in (ALL_ADDRESSES, "::")
        # A pod may have addresses of either kind, or of one.
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


def port_of(variable: str) -> int | None:
    """Return the port that an environment variable names, 0 for any free one; None if it is not set.

    Raises:
        InvalidInput: it names no port.
    """
    text = os.environ.get(variable, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > 65535:
        raise InvalidInput(f"{variable} is {text!r}", "Set it to a number from 0 (any free port) to 65535.")
    return int(text)


def _reachable(host: str) -> str:
    """Return what stands for an address in the URL of this machine's own clients."""
    if host in (ALL_ADDRESSES, "0.0.0.0", "::"):
        return LOOPBACK
    return f"[{host}]" if ":" in host else host
