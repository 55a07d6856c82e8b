"""Clients without the token that mean harm: the job's own client is answered, and the process keeps its descriptors."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from tests.integration.api.served import ServedJob, serving, token_of

from streamjob_runtime.control.api import guard
from streamjob_runtime.control.api.admission import LIMITS, Limits

HEAD = b"GET /v1/job HTTP/1.1\r\nHost: localhost\r\n"
QUICK = Limits(head_seconds=0.3, request_seconds=0.6)


def connect(server: httpx.Client) -> socket.socket:
    assert server.base_url.port is not None
    return socket.create_connection((server.base_url.host, server.base_url.port), timeout=10)


def said(connection: socket.socket) -> bytes:
    """Return all that the server says until it closes the connection."""
    answer = bytearray()
    try:
        while received := connection.recv(65_536):
            answer += received
    except ConnectionResetError:
        pass
    return bytes(answer)


def trickle(connection: socket.socket) -> None:
    """Send a head that never ends, a header at a time."""
    while True:
        connection.sendall(b"a: b\r\n")
        time.sleep(0.02)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@contextmanager
def attacking(server: httpx.Client, behaviour: Callable[[socket.socket], None], clients: int) -> Iterator[None]:
    """Let clients connect, misbehave and connect again; all have ended afterwards."""
    ended = threading.Event()

    def attack() -> None:
        while not ended.is_set():
            try:
                with connect(server) as connection:
                    connection.settimeout(1)
                    behaviour(connection)
            except OSError:
                pass

    threads = [threading.Thread(target=attack) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_a_caller_with_the_token_is_answered_beside_hundreds_of_half_open_connections(tmp_path: Path) -> None:
    with serving(ServedJob(), tmp_path) as server, ExitStack() as stack:
        before = open_files()
        for number in range(400):
            connection = stack.enter_context(connect(server))
            if number % 2:
                connection.sendall(HEAD)
            if number % 40 == 0:
                assert server.get("/v1/job").status_code == 200
        ours = 400
        assert open_files() - before - ours <= LIMITS.connections + 1
        with httpx.Client(base_url=server.base_url, headers=server.headers) as fresh:
            assert fresh.get("/v1/job").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "behaviour",
    [
        said,
        lambda connection: (connection.sendall(HEAD), said(connection)),
        lambda connection: (connection.sendall(b"\0" * 100_000), said(connection)),
        lambda connection: (connection.sendall(HEAD + b"\r\n"), said(connection)),
        lambda connection: None,
    ],
    ids=["silent", "half a head", "zeros", "no token", "gone at once"],
)
def test_a_caller_with_the_token_is_answered_beside_clients_that_come_again_and_again(
    tmp_path: Path, behaviour: Callable[[socket.socket], None]
) -> None:
    with serving(ServedJob(), tmp_path) as server, attacking(server, behaviour, 40):
        for _ in range(5):
            with httpx.Client(base_url=server.base_url, headers=server.headers, timeout=20) as fresh:
                assert fresh.get("/v1/job").status_code == 200


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    original = guard.GuardedServer.__init__
    monkeypatch.setattr(guard.GuardedServer, "__init__", lambda self, app, at, _: original(self, app, at, QUICK))


@pytest.mark.usefixtures("quick")
def test_a_connection_ends_at_the_deadline_of_its_head_although_bytes_arrive(tmp_path: Path) -> None:
    with serving(ServedJob(), tmp_path) as server, connect(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            trickle(connection)


@pytest.mark.usefixtures("quick")
def test_a_connection_ends_at_the_deadline_of_its_body(tmp_path: Path) -> None:
    with serving(ServedJob(), tmp_path) as server, connect(server) as connection:
        token = token_of(tmp_path).encode()
        head = b"POST /v1/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\nAuthorization: Bearer "
        connection.sendall(head + token + b"\r\n\r\n{")
        assert said(connection) == b""


def test_the_token_is_asked_for_before_the_body_is_read(tmp_path: Path) -> None:
    with serving(ServedJob(), tmp_path) as server, connect(server) as connection:
        connection.sendall(b"POST /v1/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
        assert said(connection).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("path", ["/healthz", "/v1/job"])
def test_a_stranger_gets_one_answer_on_a_connection(tmp_path: Path, path: str) -> None:
    with serving(ServedJob(), tmp_path) as server, connect(server) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 50)
        assert said(connection).count(b"HTTP/1.1 ") == 1


def test_a_caller_with_the_token_keeps_its_connection(tmp_path: Path) -> None:
    with serving(ServedJob(), tmp_path) as server, connect(server) as connection:
        request = HEAD + b"Authorization: Bearer " + token_of(tmp_path).encode() + b"\r\n"
        connection.sendall((request + b"\r\n") * 2 + request + b"Connection: close\r\n\r\n")
        assert said(connection).count(b"HTTP/1.1 200") == 3


MALFORMED = {
    "NUL": b"\0\0\0\0\r\n\r\n",
    "NUL in the target": b"GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "bad UTF-8 in the target": b"GET /v1/triggers/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "a header without end": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000,
    "headers without end": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 30_000,
    "a target without end": b"GET /" + b"x" * 200_000,
    "two lengths": b"POST /v1/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a length that is none": b"POST /v1/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "a chunk that is none": b"POST /v1/stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + b"\x01" * 160,
    "an upgrade": HEAD + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_of_strangers_are_refused(tmp_path: Path, name: str) -> None:
    with serving(ServedJob(), tmp_path) as server, connect(server) as connection:
        # It may answer and close the connection before all is sent.
        with suppress(OSError):
            connection.sendall(MALFORMED[name])
        assert said(connection)[:10] in (b"HTTP/1.1 4", b"")
        assert server.get("/v1/job").status_code == 200


BODIES: dict[str, tuple[str, str, bytes, int]] = {
    "NUL in a location": ("POST", "/v1/savepoints", b'{"location": "file:///a\\u0000b"}', 422),
    "half a character": ("POST", "/v1/savepoints", b'{"location": "file:///a\\ud800"}', 422),
    "bad UTF-8": ("POST", "/v1/savepoints", b'{"location": "\xff"}', 400),
    "levels": ("POST", "/v1/savepoints", b"[" * 60_000, 400),
    "digits": ("PATCH", "/v1/checkpointing", b'{"numRetained": ' + b"9" * 5_000 + b"}", 400),
    "a large number": ("PATCH", "/v1/checkpointing", b'{"numRetained": 1' + b"0" * 30 + b"}", 422),
    "a boolean for a number": ("PATCH", "/v1/checkpointing", b'{"numRetained": true}', 422),
    "an infinite number": ("PATCH", "/v1/checkpointing", b'{"interval": 1e999}', 422),
    "no number": ("PATCH", "/v1/checkpointing", b'{"timeout": NaN}', 422),
    "a negative number": ("PATCH", "/v1/checkpointing", b'{"minPause": -1}', 422),
    "a tiny number": ("PATCH", "/v1/checkpointing", b'{"interval": 1e-300}', 422),
    "a list": ("POST", "/v1/stop", b"[]", 422),
    "a body that is too large": ("POST", "/v1/stop", b" " * 70_000, 413),
    "an id that is too large": ("GET", "/v1/checkpoints/" + "9" * 5_000, b"", 422),
    "NUL as an id": ("GET", "/v1/triggers/%00", b"", 404),
    "many ids": ("GET", "/v1/job?" + "trigger=a&" * 1_000, b"", 422),
}


@pytest.mark.parametrize("name", BODIES)
def test_malformed_requests_with_the_token_get_an_answer_of_their_own(tmp_path: Path, name: str) -> None:
    method, path, body, status = BODIES[name]
    with serving(ServedJob(), tmp_path) as server:
        answer = server.request(method, path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == status
        assert answer.headers["Content-Type"] == "application/problem+json"


def test_requests_that_have_no_outcome_are_limited_and_a_stop_is_taken(tmp_path: Path) -> None:
    job = ServedJob()
    with serving(job, tmp_path) as server:
        answers = [server.post("/v1/checkpoints").status_code for _ in range(LIMITS.waiting_triggers + 5)]
        repeated = server.post("/v1/checkpoints", json={"triggerId": job.asked[0][1]}).status_code
        stop = server.post("/v1/stop").status_code

    assert answers == [202] * LIMITS.waiting_triggers + [429] * 5
    assert (repeated, stop) == (202, 202)


def test_answers_tell_browsers_to_keep_and_guess_nothing(tmp_path: Path) -> None:
    with serving(ServedJob(), tmp_path) as server:
        for answer in (server.get("/v1/job"), httpx.get(f"{server.base_url}/v1/job"), server.get("/none")):
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cache-Control"] == "no-store"
