"""The PostgreSQL sink passes the kit on a real server, inserting and replacing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from tests.integration.sinks.databases import Database

from streamjob.sink import Sink
from streamjob.testing.sink_harness import Row
from streamjob.testing.sink_kit import SinkConformance
from streamjob_runtime.sinks.postgresql.sink import PostgresqlSink

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

TABLE = (
    "CREATE TABLE report (id bigint{key}, name text, amount numeric(10,2), ratio double precision, flag boolean, "
    "day date, at timestamp with time zone, note text DEFAULT 'none', CHECK (id >= 0 AND note <> ''))"
)


class TestInsert(SinkConformance):
    effects = ((psycopg.Connection, "execute"), (psycopg.Connection, "commit"))
    key = ""

    @pytest.fixture(autouse=True)
    def _table(self, database: Database) -> None:
        self.database = database
        database.execute(TABLE.format(key=self.key))

    def make_sink(self, place: Path) -> Sink:
        return PostgresqlSink("report")

    def options(self, place: Path) -> Mapping[str, str]:
        return self.database.options("report")

    def visible_rows(self, place: Path) -> Sequence[Row]:
        columns = "id, name, amount, ratio, flag, day, at AT TIME ZONE 'UTC'"
        return self.database.execute(f"SELECT {columns} FROM report")

    def consume(self, place: Path) -> None:
        self.database.execute("DELETE FROM report")

    def lose_staged(self, place: Path) -> None:
        for table in self.database.staging_tables():
            self.database.execute(f"DROP TABLE streamjob.{table}")

    def leftovers(self, place: Path) -> int:
        return len(self.database.staging_tables())

    def keep(self, place: Path) -> Callable[[], None]:
        server, name, kept = self.database.server, self.database.name, f"kept_{uuid4().hex[:12]}"
        server.make_database(kept, template=name)

        def bring_back() -> None:
            server.drop_database(name)
            server.make_database(name, template=kept)

        return bring_back


class TestUpsert(TestInsert):
    key = " PRIMARY KEY"

    def options(self, place: Path) -> Mapping[str, str]:
        return self.database.options("report", mode="upsert", key="id")
