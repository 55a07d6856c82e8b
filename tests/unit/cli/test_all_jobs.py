"""`streamjob ui --namespace` brings a token to the controller's page, and shows it to nobody else."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streamjob.cli.main import app

TOKEN = "eyJ.service-account.token"


@contextmanager
def controller() -> Iterator[tuple[int, list[tuple[str, str | None]]]]:
    """Serve codes, and give the port and what was asked."""
    asked: list[tuple[str, str | None]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.dumps({"code": "only-once", "expiresAt": 1.0}).encode()
            self.send_response(201)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a kubectl on the PATH that notes its arguments; return what sets what it does."""
    calls = tmp_path / "calls"

    def does(token: str, forward: str) -> Path:
        script = tmp_path / "kubectl"
        script.write_text(f'#!/bin/sh\necho "$@" >> {calls}\ncase "$1" in create) {token};; *) {forward};; esac\n')
        script.chmod(0o755)
        return calls

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return does


def test_a_code_for_a_token_of_the_page_alone_is_in_the_address(kubectl: Any) -> None:
    with controller() as (port, asked):
        forward = f'echo "Forwarding from 127.0.0.1:{port} -> 8082"'
        calls = kubectl(f"echo {TOKEN}", forward)
        ran = CliRunner().invoke(app, ["ui", "-n", "shop", "--no-open"])

    assert ran.output.splitlines()[0] == f"http://127.0.0.1:{port}/ui/#code=only-once"
    assert asked == [("/v1/sessions/codes", f"Bearer {TOKEN}")]
    assert TOKEN not in ran.output
    assert calls.read_text().splitlines() == [
        "create token streamjob-viewer --namespace shop --audience streamjob.io/page/read --duration 8h",
        "port-forward --namespace streamjob service/streamjob-page :80",
    ]


def test_a_page_behind_an_ingress_needs_no_port(kubectl: Any) -> None:
    with controller() as (port, _):
        calls = kubectl(f"echo {TOKEN}", "exit 1")
        arguments = ["ui", "-n", "shop", "--url", f"http://127.0.0.1:{port}", "--write", "--no-open"]
        ran = CliRunner().invoke(app, [*arguments, "--service-account", "releases"])

    assert ran.exit_code == 0, ran.output
    assert calls.read_text() == (
        "create token releases --namespace shop --audience streamjob.io/page/write --duration 8h\n"
    )


@pytest.mark.parametrize(
    ("token", "forward", "said"),
    [
        ('echo "serviceaccounts streamjob-viewer not found" >&2; exit 1', "exit 1", "--service-account"),
        (f"echo {TOKEN}", 'echo "services streamjob-page not found" >&2; exit 1', "page.enabled"),
    ],
)
def test_a_refusal_says_what_to_do(kubectl: Any, token: str, forward: str, said: str) -> None:
    kubectl(token, forward)
    ran = CliRunner().invoke(app, ["ui", "-n", "shop", "--no-open"])

    assert ran.exit_code != 0
    assert said in ran.output
    assert "not found" in ran.output


def test_without_kubectl_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = CliRunner().invoke(app, ["ui", "-n", "shop"])

    assert ran.exit_code != 0
    assert "kubectl" in ran.output
