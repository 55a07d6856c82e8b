"""Servers for the functions of the guide to upserts, and the functions as the page prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.architecture.documents import blocks
from tests.servers.mariadb import MariadbServer, find_programs
from tests.servers.process import required
from tests.servers.redis import RedisServer, find_program

PAGE = "docs/how-to/upsert-into-other-databases.md"


def code(*parts: str) -> str:
    """Return the blocks of the page in Python that have these texts, one after the other."""
    texts = [each.text for each in blocks() if each.document == PAGE and each.language == "python"]
    return "\n\n\n".join(text for part in parts for (text,) in [[each for each in texts if part in each]])


def module(*parts: str) -> dict[str, Any]:
    """Return the names that these blocks define."""
    found: dict[str, Any] = {}
    exec(compile(code(*parts), PAGE, "exec"), found)
    return found


def login(server: MariadbServer) -> dict[str, str]:
    """Return the variables that the function reads."""
    return {
        "MYSQL_HOST": server.host,
        "MYSQL_PORT": str(server.port),
        "MYSQL_USER": server.user,
        "MYSQL_PASSWORD": server.password,
        "MYSQL_DATABASE": server.database,
    }


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariadbServer]:
    """Return a server that is not to be stopped."""
    if find_programs() is None and not required():
        pytest.skip("there is no MariaDB on this machine")
    with MariadbServer() as server:
        yield server


@pytest.fixture
def mariadb(mariadb_server: MariadbServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[MariadbServer]:
    """Return a server without tables, which the environment names."""
    for name, value in login(mariadb_server).items():
        monkeypatch.setenv(name, value)
    yield mariadb_server
    mariadb_server.execute("DROP TABLE IF EXISTS departures")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """Return a server that is not to be stopped."""
    if find_program() is None and not required():
        pytest.skip("there is no Redis on this machine")
    with RedisServer() as server:
        yield server
