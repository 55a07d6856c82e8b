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
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier
from tests.servers.s3 import LOOPBACK, free_port

from streamjob_runtime.connectors.artifacts import read_pins
from streamjob_runtime.connectors.fetching import Repositories, fetch
from streamjob_runtime.connectors.finding import cache_directory

_READY_WITHIN = 60.0
_NOBODY = "nobody"
_JDBC_DRIVER = read_pins(
    "org.postgresql:postgresql:42.7.8 2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7"
)


class PostgresqlMissing(Exception):
    """No PostgreSQL server can be started here."""


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


def required() -> bool:
    """Return whether a run without a server must fail."""
    return os.environ.get("CI") == "true"


class PostgresqlServer:
    """A server with one role, started on entry and ended on exit.

    Args:
        settings: of the server, as in `postgresql.conf`.
    """

    superuser = "admin"
    role = "writer"
    password = "only-for-tests-9f2c"

    def __init__(self, **settings: str) -> None:
        self._settings = settings
        self._cleanup = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = Path()
        self.port = 0

    def __enter__(self) -> PostgresqlServer:
        programs = find_programs()
        if programs is None:
            raise PostgresqlMissing("put PostgreSQL's initdb and postgres on the PATH, or set POSTGRESQL_BIN")
        self._programs = programs
        # Not below pytest's directories: those of root are closed to others.
        self._directory = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="postgresql-server-")))
        try:
            self._make_cluster()
            self.port = free_port()
            self.start()
            self.execute(f"CREATE ROLE {self.role} LOGIN PASSWORD '{self.password}'")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(signal.SIGINT)
        self._cleanup.close()

    @property
    def pid(self) -> int:
        """Its first process."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        """Return where a client finds a database."""
        return f"postgresql://{LOOPBACK}:{self.port}/{database}"

    def start(self) -> None:
        """Start it, at its port."""
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",
            "shared_buffers": "64MB",
            "fsync": "on",
            **self._settings,
        }
        arguments = [str(self._programs / "postgres"), "-D", str(self._directory / "data")]
        arguments += [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **_as_no_root()
            )
        self._wait_until_ready()

    def end(self, how: signal.Signals) -> None:
        """End it: SIGINT ends its sessions first, SIGQUIT is a crash of the whole server."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

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
        """Drop a database, whoever uses it."""
        with self.connect() as connection:
            connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))

    def open_transactions(self, database: str) -> list[Any]:
        """Return the sessions of the role that are in a transaction, and the prepared transactions."""
        sessions = "SELECT pid, state, query FROM pg_stat_activity WHERE datname = %s AND usename = %s"
        found = self.execute(f"{sessions} AND xact_start IS NOT NULL", database, self.role)
        return found + self.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", database)

    def _end_sessions(self, database: str) -> None:
        self.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", database)

    def _make_cluster(self) -> None:
        secret = self._directory / "password"
        secret.write_text(self.password)
        owner = _owner()
        if owner is not None:
            for path in (self._directory, secret):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        made = subprocess.run(
            [
                *(str(self._programs / "initdb"), "--pgdata", str(self._directory / "data")),
                *("--username", self.superuser, "--pwfile", str(secret), "--auth", "scram-sha-256"),
                *("--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"),
            ],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
            **_as_no_root(),
        )
        if made.returncode != 0:
            raise PostgresqlMissing(f"initdb failed:\n{made.stderr[-2000:]}")

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_WITHIN
        assert self._process is not None
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(psycopg.OperationalError), self.connect():
                return
            time.sleep(0.05)
        raise PostgresqlMissing(f"no server started:\n{(self._directory / 'server.log').read_text()[-2000:]}")


def _owner() -> pwd.struct_passwd | None:
    """Return who the server runs as: PostgreSQL refuses to run as root."""
    return pwd.getpwnam(_NOBODY) if os.geteuid() == 0 else None


def _as_no_root() -> dict[str, Any]:
    owner = _owner()
    return {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
