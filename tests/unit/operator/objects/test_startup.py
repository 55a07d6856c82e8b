"""The probes that wait for a process: their commands run here, as the node runs them in a container."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.unit.operator.objects.samples import container, pod

from streamjob_operator.objects.startup import driver_startup, executor_startup

BRIEF = "1"
"""Seconds that a test waits in vain."""


@contextmanager
def answering(*answers: dict[str, int]) -> Iterator[str]:
    """Serve a port, and return it; each question gets its path's status from the next answers, or from the last."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(left[0][self.path])
            self.end_headers()
            if len(left) > 1:
                left.pop(0)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("localhost", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield str(server.server_port)
        server.shutdown()
        thread.join()


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


STARTING, READY = {"/readyz": 503, "/healthz": 200}, {"/readyz": 200, "/healthz": 200}
FAILED = {"/readyz": 503, "/healthz": 503}


@pytest.mark.parametrize(
    ("answers", "code"), [((STARTING, READY), 0), ((STARTING,), 0), ((FAILED,), 1)], ids=["ready", "slow", "failed"]
)
def test_a_drivers_probe_waits_until_the_job_is_ready(answers: tuple[dict[str, int], ...], code: int) -> None:
    *command, _port, _seconds = driver_startup()["exec"]["command"]

    with answering(*answers) as port:
        done = run([*command, port, "30" if READY in answers else BRIEF])

    assert done.returncode == code, done.stderr
    assert done.stderr == ("the process is not healthy after 1 s\n" if code else "")


def test_a_drivers_probe_fails_where_nobody_answers() -> None:
    *command, _port, _seconds = driver_startup()["exec"]["command"]
    with answering(READY) as port:
        pass

    assert run([*command, port, BRIEF]).returncode == 1


def test_an_executors_probe_ends_once_the_executor_is_registered_or_after_a_while(tmp_path: Path) -> None:
    *command, _seconds = executor_startup(str(tmp_path / "registered"))["exec"]["command"]

    assert run([*command, BRIEF]).returncode == 0
    (tmp_path / "registered").touch()
    assert run([*command, "1000"]).returncode == 0


def test_a_probe_ends_before_kubernetes_ends_it() -> None:
    for probe in (driver_startup(), executor_startup("registered")):
        assert int(probe["exec"]["command"][-1]) < probe["timeoutSeconds"] == 300
        assert probe["failureThreshold"] == 1


def test_a_drivers_probe_asks_at_the_port_of_its_pod() -> None:
    (metrics,) = (each for each in container(pod())["ports"] if each["name"] == "metrics")

    assert driver_startup()["exec"]["command"][-2] == str(metrics["containerPort"])
