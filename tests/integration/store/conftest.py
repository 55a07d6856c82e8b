"""The S3 server of these tests, stores on it, and a proxy that makes it fail."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers.faulty import FaultyProxy
from tests.servers.s3 import S3Server, which_server

from streamjob.store import LocalStore, Store
from streamjob.store.s3 import S3Store
from streamjob.store.s3_connection import S3Connection, S3Settings


def pytest_report_header() -> str:
    return which_server()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # The header is printed before this folder's conftest is read when the whole of tests/ runs.
    terminalreporter.write_line(which_server())


@pytest.fixture
def s3_credentials(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def s3_store(s3_server: S3Server, s3_credentials: None) -> Iterator[S3Store]:
    settings = S3Settings(endpoint=s3_server.endpoint, part_size=5 << 20)
    store = S3Store(S3Connection(settings), s3_server.bucket, f"suite/{uuid.uuid4().hex}")
    yield store
    store.close()


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.server)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "s3":
        yield request.getfixturevalue("s3_store")
    else:
        local = LocalStore(tmp_path / "store")
        yield local
        local.close()


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultyProxy]:
    with FaultyProxy(s3_server.port) as running:
        yield running


@pytest.fixture
def faulty_store(proxy: FaultyProxy, s3_server: S3Server, s3_credentials: None) -> Iterator[S3Store]:
    settings = S3Settings(
        endpoint=proxy.endpoint, attempts=3, backoff=0.01, connect_timeout=2, read_timeout=1, part_size=5 << 20
    )
    store = S3Store(S3Connection(settings), s3_server.bucket, f"faulty/{uuid.uuid4().hex}")
    yield store
    store.close()
