"""The control API's server: one thread, one socket, and the file by which clients find it."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from pydantic import ValidationError

from streamjob.client.models import ControlFile
from streamjob.errors import InvalidInput, StreamJobError
from streamjob_runtime.api.app import Triggering, create_app
from streamjob_runtime.api.auth import read_token, token_file
from streamjob_runtime.api.control import JobControl

PORT_VARIABLE = "STREAMJOB_PORT"
HOST_VARIABLE = "STREAMJOB_HOST"
LOOPBACK = "127.0.0.1"
ALL_ADDRESSES = "*"
CONTROL_FILE = "control.json"

_START_SECONDS = 30.0
_SHUTDOWN_SECONDS = 5


class ServerNotStarted(StreamJobError):
    """The control API could not be served; the job must not run without it."""


class ControlServer:
    """Serves the control API of one job from `start` to `stop`; a context manager does both.

    Args:
        control: the job.
        workdir: where `control.json` and the token go; it exists.
        metrics: returns the metrics in Prometheus' text form.
        host: address to listen on, `*` for all; None: STREAMJOB_HOST, or else loopback alone. Over the network anyone
            may knock, and whoever listens there sees the token: set it in a pod, not on a machine with others.
        port: port to listen on; None: STREAMJOB_PORT, or else any free one.
    """

    def __init__(
        self,
        control: JobControl,
        workdir: Path,
        *,
        metrics: Callable[[], bytes],
        host: str | None = None,
        port: int | None = None,
    ) -> None:
        self._control = control
        self._workdir = workdir.resolve()
        self._metrics = metrics
        self._host = host or os.environ.get(HOST_VARIABLE) or LOOPBACK
        self._port = port
        self._triggering = Triggering(control)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """Where the API is served, without a slash at its end; empty before `start`."""
        return self._url

    def start(self) -> None:
        """Serve, and write `control.json` once requests are answered.

        Raises:
            InvalidInput: the port is taken or no number, there is no such address, or the token file cannot be used.
            ServerNotStarted: the server ended before it answered.
        """
        token_path = token_file(self._workdir)
        app = create_app(self._control, read_token(token_path), metrics=self._metrics, triggering=self._triggering)
        self._socket = _listen(self._host, _port(self._port))
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        self._server = server = _EmbeddedServer(config)
        self._thread = threading.Thread(
            target=server.run, args=([self._socket],), name="streamjob-control-api", daemon=True
        )
        self._thread.start()
        if not server.answering.wait(_START_SECONDS) or not server.started:
            self.stop(linger=0.0)
            raise ServerNotStarted("the control API could not be served", "Look for the cause in the job's log.")
        self._url = f"http://{_reachable(self._host)}:{self._socket.getsockname()[1]}"
        _write_atomically(
            self._workdir / CONTROL_FILE,
            ControlFile(url=self._url, pid=os.getpid(), token_file=str(token_path)).model_dump_json(),
        )

    def stop(self, *, linger: float = 1.0) -> None:
        """Remove `control.json` and end the server: its thread has ended and its socket is closed on return.

        Args:
            linger: seconds to wait at most for callers that have not yet seen the outcome of their requests, so that
                whoever asked for a stop learns how it went.
        """
        if self._url:
            self._triggering.wait_until_seen(linger)
            self._remove_control_file()
            self._url = ""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
            self._server = self._thread = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _remove_control_file(self) -> None:
        """Remove the file, unless a process that has taken this one's place wrote another one meanwhile."""
        path = self._workdir / CONTROL_FILE
        with contextlib.suppress(FileNotFoundError, ValidationError):
            if ControlFile.model_validate_json(path.read_bytes()).url == self._url:
                path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


class _EmbeddedServer(uvicorn.Server):
    """A server in a thread: signals stay the job's, and whoever started it learns when it answers or has failed."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answering = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answering.set()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            super().run(sockets)
        finally:
            self.answering.set()


def _port(configured: int | None) -> int:
    if configured is not None:
        return configured
    text = os.environ.get(PORT_VARIABLE, "0")
    if not (text.isascii() and text.isdigit()) or int(text) > 65535:
        raise InvalidInput(f"{PORT_VARIABLE} is {text!r}", "Set it to a number from 0 (any free port) to 65535.")
    return int(text)


def _reachable(host: str) -> str:
    """Return what stands for an address in the URL of this machine's own clients."""
    if host in (ALL_ADDRESSES, "0.0.0.0", "::"):
        return LOOPBACK
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> socket.socket:
    everywhere = host in (ALL_ADDRESSES, "::")
    # A pod may have addresses of either kind, or of one.
    dual = everywhere and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or (":" in host and not everywhere) else socket.AF_INET
    try:
        return socket.create_server(("" if everywhere else host, port), family=family, backlog=128, dualstack_ipv6=dual)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise InvalidInput(
            f"the control API cannot listen on {host} port {port}: {reason}",
            f"Set {PORT_VARIABLE} to a free port, or unset it; set {HOST_VARIABLE} to an address of this machine, or"
            " to * for all.",
        ) from None


def _write_atomically(path: Path, text: str) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
