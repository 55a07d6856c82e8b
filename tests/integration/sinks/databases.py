"""A PostgreSQL server for the tests of a session, and a database for each test."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.servers.postgresql import PostgresqlServer, find_programs, jdbc_driver
from tests.servers.process import required

from streamjob_runtime.spark.connectors.fetching import CannotFetch
from streamjob_runtime.spark.gateway import java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Database:
    """A database of its own, which belongs to the server's role."""

    server: PostgresqlServer
    name: str

    def execute(self, statement: str, *values: object, role: str = "") -> list[Any]:
        """Run a statement as the role that owns the database, or as another one, and return its rows."""
        return self.server.execute(statement, *values, database=self.name, role=role or self.server.role)

    def options(self, table: str, **more: str) -> Mapping[str, str]:
        """Return the options of a sink that writes to a table."""
        server = self.server
        return {"url": server.url(self.name), "user": server.role, "password": server.password, "table": table, **more}

    def staging_tables(self) -> list[str]:
        """Return the staging tables."""
        found = self.execute("SELECT tablename FROM pg_tables WHERE starts_with(tablename, 'staged_')")
        return [name for (name,) in found]


@contextmanager
def _a_server() -> Iterator[PostgresqlServer]:
    if find_programs() is None and not required():
        pytest.skip("there is no PostgreSQL on this machine")
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """Return a server that is not to be stopped."""
    with _a_server() as server:
        yield server


@pytest.fixture
def fragile_database() -> Iterator[Database]:
    """Return an empty database on a server of its own, which the test may kill."""
    with _a_server() as server:
        server.make_database("fragile")
        yield Database(server, "fragile")


def add_driver(spark: SparkSession, driver: Path) -> None:
    """Let all threads of a session have a driver, as if `spark.jars` named it."""
    jvm = java_of(spark)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    while not loader.getClass().getName().endswith(".MutableURLClassLoader"):
        loader = loader.getParent()
    loader.addURL(jvm.java.io.File(str(driver)).toURI().toURL())


@pytest.fixture(scope="session")
def postgresql_driver() -> Path:
    """Return PostgreSQL's JDBC driver."""
    try:
        return jdbc_driver(os.environ)
    except CannotFetch:
        if required():
            raise
        pytest.skip("PostgreSQL's JDBC driver cannot be fetched")


@pytest.fixture
def database(postgresql_server: PostgresqlServer) -> Iterator[Database]:
    """Return an empty database."""
    name = f"test_{secrets.token_hex(6)}"
    postgresql_server.make_database(name)
    yield Database(postgresql_server, name)
    postgresql_server.drop_database(name)
