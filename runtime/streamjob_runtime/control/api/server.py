"""The control API's server: one thread, one socket, and the file with its address for clients."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError
from starlette.types import ASGIApp

from streamjob.client.models import ControlFile
from streamjob.clock import steady_clock
from streamjob.ids import TriggerId
from streamjob.page.files import names_of
from streamjob_runtime.control.api.admission import LIMITS
from streamjob_runtime.control.api.app import create_app
from streamjob_runtime.control.api.auth import read_token, token_file
from streamjob_runtime.control.api.guard import trust_connection
from streamjob_runtime.control.api.listener import Server, listening_host, port_of
from streamjob_runtime.control.api.streams import Streams
from streamjob_runtime.control.running_job import RunningJob
from streamjob_runtime.executors.driver.routes import AgentRoutes

PORT_VARIABLE = "STREAMJOB_PORT"
CONTROL_FILE = "control.json"


class ControlServer(Server):
    """Serves the control API of one job.

    Args:
        workdir: existing directory for `control.json` and the token.
        metrics: returns the metrics in Prometheus' text form.
        port: port; None for STREAMJOB_PORT, or else any free one.
        agents: answers the agents of executors; None if the job has none.
        expect: receives the W3C `traceparent` that comes with a request.
    """

    def __init__(
        self,
        control: RunningJob,
        workdir: Path,
        *,
        metrics: Callable[[], bytes],
        port: int | None = None,
        agents: AgentRoutes | None = None,
        expect: Callable[[TriggerId, str], None] = lambda _trigger, _parent: None,
    ) -> None:
        super().__init__("control API", PORT_VARIABLE)
        self._control = control
        self._workdir = workdir.resolve()
        self._metrics = metrics
        self._port = port
        self._agents = agents
        self._expect = expect
        self._streams = Streams(control.live, control.events, steady_clock())

    def start(self) -> None:
        """Start the server, and write `control.json` once it answers requests.

        Raises:
            InvalidInput: the port is taken or not a number, the address does not exist, or the token file is unusable.
            ServerNotStarted: the server ended before it could answer.
        """
        token_path = token_file(self._workdir)
        app: ASGIApp = create_app(
            self._control,
            read_token(token_path),
            metrics=self._metrics,
            expect=self._expect,
            streams=self._streams,
            hosts=names_of(listening_host()),
        )
        limits = LIMITS
        if self._agents is not None:
            app = self._agents.beside(app, trust_connection)
            # Beside theirs, there is as much room as without.
            limits = replace(LIMITS, connections=LIMITS.connections + self._agents.connections)
        port = self._port if self._port is not None else port_of(PORT_VARIABLE) or 0
        self.serve(app, port, limits)
        _write_atomically(
            self._workdir / CONTROL_FILE,
            ControlFile(url=self._url, pid=os.getpid(), token_file=str(token_path)).model_dump_json(),
        )

    def stop(self, *, linger: float = 1.0) -> None:
        """Remove `control.json` and stop the server; on return its thread has ended and its socket is closed.

        Args:
            linger: maximum seconds to wait for callers that have not seen the outcome of their requests, so that the
                caller of a stop learns its result.
        """
        if self._url:
            self._control.requests.wait_until_seen(linger)
            self._remove_control_file()
        self._streams.close()
        super().stop()

    def _remove_control_file(self) -> None:
        """Remove the file, unless a successor of this process has replaced it meanwhile."""
        path = self._workdir / CONTROL_FILE
        with contextlib.suppress(FileNotFoundError, ValidationError):
            if ControlFile.model_validate_json(path.read_bytes()).url == self._url:
                path.unlink(missing_ok=True)


def _write_atomically(path: Path, text: str) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
