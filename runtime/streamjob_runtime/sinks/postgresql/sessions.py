"""Sessions with the server: connection settings, transactions, and the translation of errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, LiteralString

import psycopg
from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from streamjob.errors import StreamJobError
from streamjob.ids import Epoch
from streamjob.job.connectors.postgresql import PostgresqlOptions
from streamjob_runtime.sinks.errors import DatabaseRefuses, DatabaseUnreachable, RowsRefused
from streamjob_runtime.sinks.postgresql.statements import lock_key

Connection = psycopg.Connection[tuple[Any, ...]]

_CONNECT_SECONDS = 15
_KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
_PASSING = ("starting up", "shutting down", "recovery", "too many", "remaining connection slots", "terminating")
# Defaults of a role or server that a sink must override.
_SETTINGS: LiteralString = (
    "SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true), "
    "set_config('idle_in_transaction_session_timeout', '0', true), "
    # Rows of a completed checkpoint must survive a crash of the server.
    "CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END"
)
_LOWER_SESSIONS: LiteralString = (
    "SELECT pid, split_part(application_name, ' ', 3) FROM pg_stat_activity "
    "WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid() "
    "AND split_part(application_name, ' ', 1) = 'streamjob' AND (split_part(application_name, ' ', 2) = %s OR pid IN ("
    # Sinks of one database commit together, in a session of one of them.
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
    "AND (classid::bigint << 32 | objid::bigint) = %s))"
)


class Server:
    """A server for a sink."""

    def __init__(self, label: str, options: PostgresqlOptions, application_name: str) -> None:
        self._label = label
        given = {"user": options.user, "password": options.password}
        try:
            self._conninfo = make_conninfo(options.url, **{key: value for key, value in given.items() if value})
            self._conninfo = _with_defaults(self._conninfo, application_name)
        except psycopg.ProgrammingError:
            # libpq's message about a connection string may quote it, including secrets.
            raise DatabaseRefuses(
                f"{label}: the option 'url' cannot be read", "write postgresql://host:5432/database"
            ) from None

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection in a transaction, which is committed if the context ends without an error.

        Raises:
            DatabaseUnreachable: no server answers, or it ended the session.
            DatabaseRefuses: the server refuses the role or an operation.
            RowsRefused: the server refuses a statement because of the content of rows.
        """
        with self._explained(), connected(self._conninfo) as connection:
            yield connection
            connection.commit()

    def portable(self, connection: Connection) -> str:
        """Return connection settings for any process, including a password that only this process's environment has.

        Args:
            connection: a connection to this server, which has resolved the environment and its files.
        """
        found = connection.info.get_parameters()
        secret = {"password": connection.info.password} if connection.info.password else {}
        # Given settings stay unchanged: of several hosts, another may be the right one next time.
        return make_conninfo("", **{**found, **secret, **conninfo_to_dict(self._conninfo)})

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise explained(self._label, error.sqlstate, message_of(error)) from error


@contextmanager
def connected(conninfo: str) -> Iterator[Connection]:
    """Yield a connection in a transaction; everything uncommitted is rolled back when the context ends."""
    connection: Connection = psycopg.connect(conninfo, prepare_threshold=None)
    try:
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        connection.execute(_SETTINGS)
        yield connection
    finally:
        with suppress(psycopg.Error):
            connection.close()


def explained(label: str, sqlstate: str | None, message: str) -> StreamJobError:
    """Return the error for the server's message, or for a missing answer.

    Args:
        sqlstate: PostgreSQL's error code; None if there is none.
    """
    kind = (sqlstate or "")[:2]
    if kind in ("22", "23", "P0"):
        return RowsRefused(
            f"{label}: the server refuses rows: {message}",
            "correct the job or the table; the job continues from its checkpoint",
        )
    refused = "FATAL" in message and not any(words in message for words in _PASSING) and not kind
    if refused or kind in ("28", "3D", "3F", "42", "0A", "25"):
        return DatabaseRefuses(f"{label}: {message}", "see to it that the role may do so; the how-to lists its rights")
    fix = "check why the server refuses" if kind else "start the server, or correct the address"
    return DatabaseUnreachable(f"{label}: {message}", f"{fix}; the job continues from its checkpoint")


def end_sessions_below(connection: Connection, identity: str, epoch: Epoch) -> int:
    """End sessions that lower epochs of a sink have left: a process that hangs in one holds locks.

    Returns:
        The number of sessions.
    """
    found = connection.execute(_LOWER_SESSIONS, (identity, lock_key(identity))).fetchall()
    lower = [pid for pid, other in found if other.isdecimal() and int(other) < epoch]
    for pid in lower:
        connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
    return len(lower)


def message_of(error: psycopg.Error) -> str:
    """Return the server's message of an error, in one line."""
    diagnosis = error.diag
    if diagnosis.message_primary is None:
        return " ".join(str(error).split())
    parts = [diagnosis.message_primary, diagnosis.message_detail, _place(diagnosis.context)]
    return "; ".join(part for part in parts if part)


def _place(context: str | None) -> str | None:
    """Return the column at which a COPY failed; the rest of the context quotes whole rows."""
    if context is None or ", column " not in context:
        return None
    return "column " + context.partition(", column ")[2].partition(":")[0]


def _with_defaults(conninfo: str, application_name: str) -> str:
    given = conninfo_to_dict(conninfo)
    defaults = {"connect_timeout": _CONNECT_SECONDS, **_KEEPALIVE}
    missing = {key: value for key, value in defaults.items() if key not in given}
    return make_conninfo(conninfo, **missing, application_name=application_name, client_encoding="UTF8")
