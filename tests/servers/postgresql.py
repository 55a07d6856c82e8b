"""A real PostgreSQL server on loopback: its own cluster in a temporary directory, run by a user who is not root.

    with PostgresqlServer() as server:
        server.execute("CREATE TABLE report (id bigint PRIMARY KEY)")
        options = {"url": server.url(), "user": server.role, "password": "${env:PGPASSWORD}", "table": "report"}

The programs are taken from `$POSTGRESQL_BIN`, from where Debian puts them, or from the PATH. With `CI=true` they are
required.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier
from tests.servers.process import ServerMissing, ServerProcess

from streamjob_runtime.spark.connectors.artifacts import read_pins
from streamjob_runtime.spark.connectors.fetching import Repositories, fetch
from streamjob_runtime.spark.connectors.finding import cache_directory

_NOBODY = "nobody"
_JDBC_DRIVER = read_pins(
    "org.postgresql:postgresql:42.7.8 2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7"
)


def find_programs() -> Path | None:
    """Return the directory that holds `initdb` and `postgres`, None where there is none."""
    named = os.environ.get("POSTGRESQL_BIN")
    if named:
        return Path(named)
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: int(file.parts[-3]))
    found = str(debian[-1]) if debian else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def jdbc_driver(environment: Mapping[str, str]) -> Path:
    """Return PostgreSQL's JDBC driver, fetched the first time. Raises CannotFetch."""
    directory = cache_directory(environment)
    fetch(_JDBC_DRIVER, directory, environment, Repositories())
    return directory / _JDBC_DRIVER[0].file


class PostgresqlServer(ServerProcess):
    """A server with one role, started on entry and ended on exit.

    Args:
        settings: of the server, as in `postgresql.conf`.
    """

    kind = "PostgreSQL"
    # A crash of the whole server, and an end that ends its sessions first.
    crash = signal.SIGQUIT
    last = signal.SIGINT

    superuser = "admin"
    role = "writer"
    password = "only-for-tests-9f2c"

    def __init__(self, **settings: str) -> None:
        super().__init__()
        self._settings = settings

    def url(self, database: str = "postgres") -> str:
        """Return where a client finds a database."""
        return f"postgresql://{self.host}:{self.port}/{database}"

    def make(self) -> None:
        """Make its cluster."""
        if (self.directory / "data").exists():
            return
        secret = self.directory / "password"
        secret.write_text(self.password)
        owner = _owner()
        if owner is not None:
            for path in (self.directory, secret):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        self.prepare(
            *(str(_programs() / "initdb"), "--pgdata", str(self.directory / "data")),
            *("--username", self.superuser, "--pwfile", str(secret), "--auth", "scram-sha-256"),
            *("--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"),
        )

    def command(self) -> list[str]:
        """Return the command that starts it at its port."""
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": "",
            "shared_buffers": "64MB",
            "fsync": "on",
            **self._settings,
        }
        arguments = [str(_programs() / "postgres"), "-D", str(self.directory / "data")]
        return [*arguments, *(part for key, value in settings.items() for part in ("-c", f"{key}={value}"))]

    def how_to_run(self) -> dict[str, Any]:
        """Return its user and directory."""
        owner = _owner()
        user = {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        return {"cwd": "/", **user}

    def answers(self) -> bool:
        """Return whether it takes connections."""
        with contextlib.suppress(psycopg.OperationalError), self.connect():
            return True
        return False

    def furnish(self) -> None:
        """Make its role."""
        self.execute(f"CREATE ROLE {self.role} LOGIN PASSWORD '{self.password}'")

    def execute(self, statement: str, *values: object, database: str = "postgres", role: str = "") -> list[Any]:
        """Run a statement as the superuser, or as another role, and return its rows."""
        with self.connect(database, role) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def connect(self, database: str = "postgres", role: str = "") -> psycopg.Connection[Any]:
        """Return a session of the superuser, or of another role; each statement is a transaction."""
        user = role or self.superuser
        return psycopg.connect(self.url(database), user=user, password=self.password, autocommit=True)

    def make_database(self, name: str, *, template: str = "template0") -> None:
        """Make a database that belongs to the role, as a copy of another one."""
        self._end_sessions(template)
        with self.connect() as connection:
            statement = SQL("CREATE DATABASE {} OWNER {} TEMPLATE {}")
            connection.execute(statement.format(Identifier(name), Identifier(self.role), Identifier(template)))

    def drop_database(self, name: str) -> None:
        """Drop a database, even if it is in use."""
        with self.connect() as connection:
            connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))

    def open_transactions(self, database: str) -> list[Any]:
        """Return the sessions of the role that are in a transaction, and the prepared transactions."""
        sessions = "SELECT pid, state, query FROM pg_stat_activity WHERE datname = %s AND usename = %s"
        found = self.execute(f"{sessions} AND xact_start IS NOT NULL", database, self.role)
        return found + self.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", database)

    def _end_sessions(self, database: str) -> None:
        self.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", database)


def _programs() -> Path:
    programs = find_programs()
    if programs is None:
        raise ServerMissing("put PostgreSQL's initdb and postgres on the PATH, or set POSTGRESQL_BIN")
    return programs


def _owner() -> pwd.struct_passwd | None:
    """Return who the server runs as: PostgreSQL refuses to run as root."""
    return pwd.getpwnam(_NOBODY) if os.geteuid() == 0 else None
