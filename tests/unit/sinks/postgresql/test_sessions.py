"""The translation of the server's errors, and of addresses."""

from __future__ import annotations

from traceback import format_exception

import pytest

from streamjob.errors import InvalidInput, StreamJobError
from streamjob.job.connectors.postgresql import PostgresqlOptions
from streamjob_runtime.sinks.errors import DatabaseRefuses, DatabaseUnreachable, RowsRefused
from streamjob_runtime.sinks.postgresql.sessions import Server, explained


@pytest.mark.parametrize(
    ("sqlstate", "message", "kind"),
    [
        (None, "connection to server at x failed: Connection refused", DatabaseUnreachable),
        (None, "connection failed: FATAL:  the database system is starting up", DatabaseUnreachable),
        (None, "connection failed: FATAL:  sorry, too many clients already", DatabaseUnreachable),
        (None, 'connection failed: FATAL:  password authentication failed for user "x"', DatabaseRefuses),
        (None, 'connection failed: FATAL:  database "x" does not exist', DatabaseRefuses),
        ("57P01", "terminating connection due to administrator command", DatabaseUnreachable),
        ("40P01", "deadlock detected", DatabaseUnreachable),
        ("53100", "could not extend file: No space left on device", DatabaseUnreachable),
        ("42501", "permission denied for table x", DatabaseRefuses),
        ("25006", "cannot execute INSERT in a read-only transaction", DatabaseRefuses),
        ("22003", "numeric field overflow", RowsRefused),
        ("23505", "duplicate key value violates unique constraint", RowsRefused),
    ],
)
def test_what_passes_by_itself_is_told_from_what_someone_has_to_change(
    sqlstate: str | None, message: str, kind: type[StreamJobError]
) -> None:
    error = explained("sink report", sqlstate, message)

    assert type(error) is kind
    assert error.what.startswith("sink report: ")
    assert error.what.endswith(message)
    assert error.fix
    assert isinstance(error, InvalidInput) is (kind is DatabaseRefuses)


def test_an_address_that_cannot_be_read_is_not_quoted() -> None:
    options = PostgresqlOptions(url="postgresql://user:hunter2@[host/db", table="t")
    with pytest.raises(DatabaseRefuses) as raised:
        Server("sink report", options, "streamjob")

    assert "hunter2" not in "".join(format_exception(raised.value))
