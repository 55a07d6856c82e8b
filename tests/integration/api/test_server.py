"""The server's life: its file, its token, its port, its end."""

from __future__ import annotations

import os
import socket
import stat
import threading
from pathlib import Path

import httpx
import pytest
from tests.integration.api.served import ServedJob, metrics_text, serving, token_of

from streamjob.client.models import ControlFile, TriggerState
from streamjob.errors import InvalidInput
from streamjob.ids import TriggerId
from streamjob_runtime.control.api.server import ControlServer


def _server(workdir: Path, job: ServedJob | None = None) -> ControlServer:
    return ControlServer(job or ServedJob(), workdir, metrics=metrics_text)


def test_the_control_file_says_where_the_job_is_while_it_runs(tmp_path: Path) -> None:
    with _server(tmp_path) as server:
        control = ControlFile.model_validate_json((tmp_path / "control.json").read_bytes())

    assert control == ControlFile(url=control.url, pid=os.getpid(), token_file=str(tmp_path / "token"))
    assert control.url.startswith("http://127.0.0.1:")
    assert server.url == ""
    assert not (tmp_path / "control.json").exists()


def test_the_control_file_of_a_successor_in_the_same_directory_is_left_alone(tmp_path: Path) -> None:
    with _server(tmp_path):
        successor = _server(tmp_path)
        successor.start()

    try:
        control = ControlFile.model_validate_json((tmp_path / "control.json").read_bytes())
        assert control.url == successor.url
    finally:
        successor.stop()
    assert not (tmp_path / "control.json").exists()


def test_a_token_is_made_that_only_its_owner_may_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("left behind by an earlier run")
    (tmp_path / "token").chmod(0o644)

    with _server(tmp_path):
        token = token_of(tmp_path)

    assert len(token) >= 32
    assert token != "left behind by an earlier run"
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_a_given_token_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "given"
    given.write_text("a-token-of-the-controller\n")
    monkeypatch.setenv("STREAMJOB_TOKEN_FILE", str(given))

    with _server(tmp_path) as server:
        answer = httpx.get(
            f"{server.url}/v1/job", headers={"Authorization": "Bearer a-token-of-the-controller"}, trust_env=False
        )

    assert answer.status_code == 200
    assert not (tmp_path / "token").exists()


@pytest.mark.parametrize("host", ["*", "0.0.0.0"])
def test_a_pod_is_reached_at_all_its_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("STREAMJOB_HOST", host)

    with _server(tmp_path) as server:
        port = server.url.rpartition(":")[2]
        answers = [
            httpx.get(f"http://{address}:{port}/healthz", trust_env=False).status_code
            for address in ("127.0.0.1", "127.0.0.2")
        ]

    assert answers == [200, 200]


def test_without_being_told_to_nothing_but_loopback_is_served(tmp_path: Path) -> None:
    with _server(tmp_path) as server:
        port = server.url.rpartition(":")[2]

        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.2:{port}/healthz", trust_env=False)


def test_an_address_of_another_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMJOB_HOST", "192.0.2.1")

    with pytest.raises(InvalidInput, match=r"(?s)cannot listen on 192\.0\.2\.1.*STREAMJOB_HOST") as refused:
        _server(tmp_path).start()

    assert refused.value.exit_code == 2


@pytest.mark.parametrize("content", [None, "", "s3cret", "two words in one file", "ümlaut-ümlaut-ümlaut"])
def test_a_token_file_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    given = tmp_path / "given"
    if content is not None:
        given.write_text(content)
    monkeypatch.setenv("STREAMJOB_TOKEN_FILE", str(given))

    with pytest.raises(InvalidInput, match="token file") as caught:
        _server(tmp_path).start()

    assert not content or content not in str(caught.value)
    assert not (tmp_path / "control.json").exists()


def test_a_port_that_is_taken_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setenv("STREAMJOB_PORT", str(port))

        with pytest.raises(InvalidInput, match=f"port {port}"):
            _server(tmp_path).start()


@pytest.mark.parametrize("port", ["http", "-1", "65536", "8080.0"])
def test_a_port_that_is_no_port_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv("STREAMJOB_PORT", port)

    with pytest.raises(InvalidInput, match="STREAMJOB_PORT"):
        _server(tmp_path).start()


def test_nothing_is_left_of_a_stopped_server(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    sockets_before = _open_sockets()
    with serving(ServedJob(), tmp_path) as http:
        url = str(http.base_url)
        http.get("/v1/job")

    # Connections that have answered a request are closed without waiting.
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(30)
    assert [thread for thread in left if thread.is_alive()] == []
    assert _open_sockets() == sockets_before
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_a_connection_that_idles_does_not_hold_up_the_end(tmp_path: Path) -> None:
    server = _server(tmp_path)
    server.start()
    address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
    with socket.create_connection(address) as idle:
        server.stop()
        idle.settimeout(10)
        assert idle.recv(1) == b""


def test_stopping_twice_and_before_the_start_is_harmless(tmp_path: Path) -> None:
    server = _server(tmp_path)
    server.stop()
    server.start()
    server.stop()
    server.stop()

    assert not (tmp_path / "control.json").exists()


def test_a_server_can_be_started_again_in_the_same_place(tmp_path: Path) -> None:
    for _ in range(2):
        with serving(ServedJob(), tmp_path) as http:
            assert http.get("/v1/job").status_code == 200


def test_whoever_waits_for_an_outcome_still_sees_it_at_the_end(tmp_path: Path) -> None:
    job = ServedJob()
    server = _server(tmp_path, job)
    server.start()
    headers = {"Authorization": f"Bearer {token_of(tmp_path)}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60.0, trust_env=False) as http:
        http.post("/v1/stop", json={"triggerId": "last"})
        ending = threading.Thread(target=server.stop, kwargs={"linger": 60.0})
        ending.start()
        assert http.get("/v1/triggers/last").json()["state"] == "QUEUED"
        job.resolve(TriggerId("last"))
        outcome = http.get("/v1/triggers/last").json()["state"]
        ending.join(timeout=30)

    assert outcome == TriggerState.COMPLETED
    assert not ending.is_alive()


def test_a_process_that_is_killed_leaves_a_file_that_says_so(tmp_path: Path) -> None:
    server = _server(tmp_path)
    server.start()
    left = (tmp_path / "control.json").read_bytes()
    server.stop()

    assert ControlFile.model_validate_json(left).pid == os.getpid()


def _open_sockets() -> int:
    links = (path for path in Path("/proc/self/fd").iterdir())
    count = 0
    for link in links:
        try:
            count += str(link.readlink()).startswith("socket:")
        except FileNotFoundError:
            continue
    return count
