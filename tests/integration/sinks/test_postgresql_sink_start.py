"""Unusable settings are refused before a job with a PostgreSQL sink starts; on a real server."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.integration.sinks.by_hand import opened
from tests.integration.sinks.databases import Database

from streamjob.errors import StreamJobError
from streamjob_runtime.sinks.errors import DatabaseRefuses, DatabaseUnreachable, UnusableTable
from streamjob_runtime.sinks.postgresql.sink import PostgresqlSink

pytestmark = pytest.mark.server


@pytest.fixture
def table(database: Database) -> Database:
    database.execute("CREATE TABLE report (id bigint PRIMARY KEY, note text)")
    return database


REFUSED = {
    "no table": ({"table": "reprt"}, UnusableTable, "there is no table reprt in database test_"),
    "no table in the schema": ({"table": "other.report"}, UnusableTable, "there is no table other.report"),
    "a view": ({"table": "shown"}, UnusableTable, "table public.shown is a view"),
    "no right to read": ({"table": "theirs"}, UnusableTable, "does not give the role the right to SELECT, INSERT"),
    "wrong password": ({"password": "wrong"}, DatabaseRefuses, "password authentication failed"),
    "no database": ({"url": "{server}/nowhere"}, DatabaseRefuses, 'database "nowhere" does not exist'),
    "no server": ({"url": "postgresql://127.0.0.1:1/x"}, DatabaseUnreachable, "Connection refused"),
    "a staging schema of others": (
        {"stagingSchema": "hidden"},
        DatabaseRefuses,
        "GRANT CREATE, USAGE ON SCHEMA hidden",
    ),
}


@pytest.mark.parametrize(("change", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_work_is_refused_at_the_start(
    table: Database, change: Mapping[str, str], error: type[StreamJobError], message: str
) -> None:
    table.execute("CREATE VIEW shown AS SELECT * FROM report")
    table.execute("CREATE TABLE public.theirs (id bigint); CREATE SCHEMA hidden", role=table.server.superuser)
    options = {key: value.format(server=table.server.url("")[:-1]) for key, value in change.items()}

    with pytest.raises(error, match=message.replace("(", r"\(")) as raised:
        opened(PostgresqlSink("report"), {**table.options("report"), **options})
    assert raised.value.fix
    assert table.server.password not in str(raised.value)


def test_a_role_needs_rights_to_the_journal_of_other_jobs_only_if_its_own_job_publishes_each_batch(
    database: Database,
) -> None:
    server = database.server
    database.execute("CREATE TABLE report (id bigint)")
    opened(PostgresqlSink("report", publishes_batches=True), database.options("report")).close()
    server.execute(f"CREATE ROLE modest LOGIN PASSWORD '{server.password}'")
    try:
        for right in ("CREATE, USAGE ON SCHEMA streamjob", "ALL ON streamjob.commits", "SELECT, INSERT ON report"):
            database.execute(f"GRANT {right} TO modest", role=server.superuser)
        options = {**database.options("report"), "user": "modest"}
        opened(PostgresqlSink("report"), options).close()
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE"):
            with pytest.raises(DatabaseRefuses, match=f"role modest lacks the right to {right} ON") as raised:
                opened(PostgresqlSink("report", publishes_batches=True), options)
            database.execute(raised.value.fix, role=server.superuser)
        opened(PostgresqlSink("report", publishes_batches=True), options).close()
    finally:
        database.execute("DROP OWNED BY modest", role=server.superuser)
        server.execute("DROP ROLE modest")


def test_a_role_that_may_not_make_the_staging_schema_is_told_how_to_get_it(database: Database) -> None:
    server = database.server
    database.execute("CREATE TABLE report (id bigint)")
    server.execute(f"CREATE ROLE modest LOGIN PASSWORD '{server.password}'")
    try:
        database.execute("GRANT SELECT, INSERT ON report TO modest", role=server.superuser)
        options = {**database.options("report"), "user": "modest"}
        with pytest.raises(DatabaseRefuses, match="CREATE SCHEMA streamjob AUTHORIZATION modest") as raised:
            opened(PostgresqlSink("report"), options)
        database.execute(raised.value.fix.partition(": ")[2], role=server.superuser)
        opened(PostgresqlSink("report"), options).close()
    finally:
        database.execute("DROP OWNED BY modest", role=server.superuser)
        server.execute("DROP ROLE modest")
