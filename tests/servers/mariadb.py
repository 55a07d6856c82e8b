"""A real MariaDB server on loopback, with its own data directory, run by a user who is not root.

    with MariadbServer() as server:
        server.execute("CREATE TABLE report (id BIGINT PRIMARY KEY)")

The programs are those of Debian's package `mariadb-server`, on the PATH. With `CI=true` they are required.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from typing import Any

from tests.servers.process import ServerMissing, ServerProcess

_PROGRAMS = ("mariadb-install-db", "mariadbd", "mariadb")
_SBIN = "/usr/sbin"
_NOBODY = "nobody"


def find_programs() -> list[str] | None:
    """Return what makes a data directory, the server and its client, None if one of them is missing."""
    path = f"{os.environ.get('PATH', '')}:{_SBIN}"
    found = [program for name in _PROGRAMS if (program := shutil.which(name, path=path))]
    return found if len(found) == len(_PROGRAMS) else None


class MariadbServer(ServerProcess):
    """A server with one user and one database, started on entry and ended on exit."""

    kind = "MariaDB"
    last = signal.SIGTERM

    user = "writer"
    password = "only-for-tests-9f2c"
    database = "warehouse"

    def make(self) -> None:
        """Make its data directory; the first start makes its user."""
        if (self.directory / "data").exists():
            return
        owner = _owner()
        if owner is not None:
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
        install, _, _ = _programs()
        self.prepare(install, "--no-defaults", f"--datadir={self.directory / 'data'}", "--skip-test-db")
        (self.directory / "first.sql").write_text(
            f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4;\n"
            f"CREATE USER {self.user}@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON {self.database}.* TO {self.user}@'%';\n"
        )

    def command(self) -> list[str]:
        """Return the command that starts it at its port."""
        _, server, _ = _programs()
        first = self.directory / "first.sql"
        return [
            *(server, "--no-defaults", f"--datadir={self.directory / 'data'}"),
            *(f"--bind-address={self.host}", f"--port={self.port}", f"--socket={self.directory / 'socket'}"),
            # A server that is lax in both ways: sessions have to say what they need.
            *("--sql-mode=", "--default-time-zone=+05:30", "--innodb-buffer-pool-size=64M", "--skip-name-resolve"),
            *([f"--init-file={first}"] if not (self.directory / "data" / self.database).exists() else []),
        ]

    def how_to_run(self) -> dict[str, Any]:
        """Return its user and directory."""
        owner = _owner()
        user = {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        return {"cwd": "/", **user}

    def answers(self) -> bool:
        """Return whether it takes connections."""
        return self._run("SELECT 1").returncode == 0

    def execute(self, statement: str) -> list[list[str]]:
        """Run a statement by the server's own client, and return its rows as texts."""
        done = self._run(statement)
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def _run(self, statement: str) -> subprocess.CompletedProcess[str]:
        _, _, client = _programs()
        login = ("--host", self.host, "--port", str(self.port), "--user", self.user, self.database)
        return subprocess.run(
            [client, "--no-defaults", "--default-character-set=utf8mb4", "--batch", "--skip-column-names", *login],
            input=statement,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "MYSQL_PWD": self.password},
        )


def _programs() -> list[str]:
    programs = find_programs()
    if programs is None:
        raise ServerMissing("put MariaDB's mariadb-install-db, mariadbd and mariadb on the PATH")
    return programs


def _owner() -> pwd.struct_passwd | None:
    """Return who the server runs as: MariaDB refuses to run as root."""
    return pwd.getpwnam(_NOBODY) if os.geteuid() == 0 else None
