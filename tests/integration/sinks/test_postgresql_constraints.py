"""Rows that a table of PostgreSQL takes in one order of writing, and refuses in another."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

import psycopg
import pytest
from pyspark.sql import SparkSession
from tests.integration.sinks.databases import Database

from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.sink import SinkContext
from streamjob.snapshot.manifest import SinkState
from streamjob_runtime.chain.emissions.outputs import Outputs
from streamjob_runtime.sinks.errors import DatabaseUnreachable, RowsRefused, UnusableTable
from streamjob_runtime.sinks.postgresql.sink import PostgresqlSink

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

INSERT, UPDATE, DELETE = "insert", "update_postimage", "delete"
FIRST = CheckpointId(1)
Row = tuple[object, ...]


class Job:
    """Sinks of one job with `_change_type`, in the order of the job file, each named after its table."""

    def __init__(self, spark: SparkSession, database: Database, *tables: str, epoch: int = 1) -> None:
        self._spark = spark
        self.sinks = {table: PostgresqlSink(table) for table in tables}
        for table, sink in self.sinks.items():
            options = database.options(table, mode="upsert", key="id")
            sink.open(SinkContext("job", "default", OperatorUid(table), Epoch(epoch), options))

    def stage(self, table: str, columns: str, *batches: Sequence[Row]) -> SinkState:
        """Stage batches of rows, each of which begins with its kind."""
        staged = []
        for number, rows in enumerate(batches):
            frame = self._spark.createDataFrame(list(rows), f"_change_type string, id bigint, {columns}").coalesce(1)
            staged.append(self.sinks[table].stage(frame, BatchId(number)).committable)
        return SinkState(uid=OperatorUid(table), committables=tuple(json.loads(json.dumps(staged))))

    def commit(self, *output: SinkState) -> None:
        Outputs({OperatorUid(name): sink for name, sink in self.sinks.items()}).commit(FIRST, output)


def rows_of(database: Database, table: str) -> list[Row]:
    return database.execute(f"SELECT * FROM {table} ORDER BY id")


@pytest.fixture
def users(database: Database) -> Database:
    database.execute("CREATE TABLE users (id bigint PRIMARY KEY, email text NOT NULL UNIQUE, made text DEFAULT 'then')")
    return database


@pytest.mark.core
def test_rows_exchange_the_values_of_a_unique_column_whatever_the_batches_and_tables(
    spark: SparkSession, users: Database
) -> None:
    users.execute("INSERT INTO users VALUES (1, 'y', 'early'), (2, 'x', 'early'), (3, 'w', 'early'), (4, 'v', 'early')")
    job = Job(spark, users, "users")
    # Each batch alone would be refused: 1 takes what 2 has, 2 what 3 has, 3 what 1 has, 5 what 4 has had.
    job.sinks["users"]._tables._capacity = 1
    output = job.stage(
        "users",
        "email string",
        [(UPDATE, 1, "x"), (INSERT, 5, "v")],
        [(UPDATE, 2, "w"), (DELETE, 4, "v")],
        [(UPDATE, 3, "y")],
    )
    assert len(users.staging_tables()) == 3
    job.commit(output)
    job.commit(output)

    assert rows_of(users, "users") == [(1, "x", "early"), (2, "w", "early"), (3, "y", "early"), (5, "v", "then")]
    assert users.execute("SELECT rows FROM streamjob.commits") == [(5,)]
    assert users.staging_tables() == []


def test_a_unique_value_that_two_rows_have_in_the_end_is_refused_and_named(
    spark: SparkSession, users: Database
) -> None:
    users.execute("INSERT INTO users VALUES (1, 'x')")
    job = Job(spark, users, "users")

    with pytest.raises(RowsRefused, match=r"sink users: .*duplicate key.*\(email\)=\(x\)"):
        job.commit(job.stage("users", "email string", [(INSERT, 2, "x")]))
    assert rows_of(users, "users") == [(1, "x", "then")]


@pytest.mark.parametrize(
    "unique",
    [
        "CREATE UNIQUE INDEX ON seats (lower(place))",
        "CREATE UNIQUE INDEX ON seats (place) WHERE id < 100",
        "CREATE UNIQUE INDEX ON seats (level, place)",
        "ALTER TABLE seats ADD EXCLUDE (place WITH =)",
        "ALTER TABLE seats ADD UNIQUE (place) DEFERRABLE",
    ],
)
def test_random_exchanges_end_as_the_source_has_them(spark: SparkSession, database: Database, unique: str) -> None:
    """An oracle: each exchange is a permutation of places, with rows that come and go."""
    database.execute(
        "CREATE TABLE seats (id bigint PRIMARY KEY, place text NOT NULL, level int NOT NULL DEFAULT 1, "
        "number int GENERATED ALWAYS AS IDENTITY, twice text GENERATED ALWAYS AS (place || place) STORED)"
    )
    database.execute(unique)
    chance, job = random.Random(unique), Job(spark, database, "seats")
    seats: dict[int, str] = {}
    output, batches = [], []
    for _ in range(3):
        people = chance.sample(range(8), 6)
        new = dict(zip(people, chance.sample("abcdefgh", 6), strict=True))
        changes: list[Row] = [(DELETE, gone, "") for gone in seats if gone not in new]
        changes += [(UPDATE if who in seats else INSERT, who, place) for who, place in new.items()]
        chance.shuffle(changes)
        batches.append(changes)
        seats = new
        output.append(job.stage("seats", "place string", changes))
    numbers: dict[object, object] = {}
    for each in output:
        job.commit(each)
        found = dict(database.execute("SELECT id, number FROM seats"))
        assert all(found[who] == number for who, number in numbers.items() if who in found and who in seats)
        numbers = found

    assert dict(database.execute("SELECT id, place FROM seats")) == seats
    assert all(twice == place * 2 for place, twice in database.execute("SELECT place, twice FROM seats"))


def test_rows_that_others_refer_to_exchange_their_values_unless_that_would_reach_the_others(
    spark: SparkSession, users: Database
) -> None:
    users.execute("INSERT INTO users VALUES (1, 'y'), (2, 'x')")
    users.execute("CREATE TABLE orders (id bigint, customer bigint REFERENCES users)")
    users.execute("INSERT INTO orders VALUES (7, 1), (8, 2)")
    job = Job(spark, users, "users")
    job.commit(job.stage("users", "email string", [(UPDATE, 1, "x"), (UPDATE, 2, "y")]))
    assert rows_of(users, "users") == [(1, "x", "then"), (2, "y", "then")]

    users.execute("ALTER TABLE orders ADD CONSTRAINT follows FOREIGN KEY (customer) REFERENCES users ON DELETE CASCADE")
    output = job.stage("users", "email string", [(UPDATE, 1, "y"), (UPDATE, 2, "x")])
    with pytest.raises(UnusableTable, match="reach rows of other tables by follows of orders") as raised:
        job.commit(output)
    assert "DEFERRABLE" in raised.value.fix
    assert rows_of(users, "orders") == [(7, 1), (8, 2)]

    users.execute("ALTER TABLE users DROP CONSTRAINT users_email_key, ADD UNIQUE (email) DEFERRABLE")
    job.commit(output)
    assert rows_of(users, "users") == [(1, "y", "then"), (2, "x", "then")]
    assert rows_of(users, "orders") == [(7, 1), (8, 2)]


@pytest.fixture
def family(database: Database) -> Database:
    database.execute("CREATE TABLE parent (id bigint PRIMARY KEY, name text UNIQUE)")
    database.execute("CREATE TABLE child (id bigint PRIMARY KEY, parent bigint NOT NULL REFERENCES parent)")
    return database


@pytest.mark.core
@pytest.mark.parametrize("order", [("child", "parent"), ("parent", "child")])
def test_tables_that_refer_to_each_other_are_written_and_deleted_in_an_order_that_they_accept(
    spark: SparkSession, family: Database, order: tuple[str, str]
) -> None:
    job = Job(spark, family, *order)

    def commit(children: Sequence[Row], parents: Sequence[Row]) -> None:
        staged = {
            "child": job.stage("child", "parent bigint", children),
            "parent": job.stage("parent", "name string", parents),
        }
        job.commit(*(staged[table] for table in order))

    commit([(INSERT, 1, 10), (INSERT, 2, 11)], [(INSERT, 10, "a"), (INSERT, 11, "b")])
    # A child and its parent go; another one goes to a new parent, and its old one goes.
    commit([(DELETE, 1, None), (UPDATE, 2, 12)], [(DELETE, 10, None), (DELETE, 11, None), (INSERT, 12, "c")])
    assert (rows_of(family, "child"), rows_of(family, "parent")) == ([(2, 12)], [(12, "c")])

    # All rows go, and a new parent has the name of the old one.
    commit([(DELETE, 2, None), (INSERT, 3, 13)], [(DELETE, 12, None), (INSERT, 13, "c")])
    assert (rows_of(family, "child"), rows_of(family, "parent")) == ([(3, 13)], [(13, "c")])


def test_rows_may_refer_to_rows_of_their_own_table(spark: SparkSession, database: Database) -> None:
    database.execute("CREATE TABLE tree (id bigint PRIMARY KEY, above bigint REFERENCES tree)")
    database.execute("INSERT INTO tree VALUES (1, NULL), (2, 1)")
    job = Job(spark, database, "tree")
    job.commit(
        job.stage("tree", "above bigint", [(UPDATE, 2, 3), (INSERT, 3, 4), (INSERT, 4, None), (DELETE, 1, None)])
    )

    assert rows_of(database, "tree") == [(2, 3), (3, 4), (4, None)]


def test_tables_in_a_circle_need_one_constraint_that_can_be_deferred(spark: SparkSession, family: Database) -> None:
    family.execute("ALTER TABLE parent ADD favourite bigint")
    family.execute("ALTER TABLE parent ADD CONSTRAINT liked FOREIGN KEY (favourite) REFERENCES child")
    job = Job(spark, family, "child", "parent")
    output = [
        job.stage("child", "parent bigint", [(INSERT, 1, 10)]),
        job.stage("parent", "favourite bigint", [(INSERT, 10, 1)]),
    ]
    with pytest.raises(RowsRefused, match=r"sink child: .*foreign key"):
        job.commit(*output)
    family.execute("ALTER TABLE parent ALTER CONSTRAINT liked DEFERRABLE")
    family.execute("ALTER TABLE child ALTER CONSTRAINT child_parent_fkey DEFERRABLE")
    job.commit(*output)

    assert rows_of(family, "parent") == [(10, None, 1)]


def test_sinks_of_one_database_commit_all_or_nothing_and_the_error_names_the_one_at_fault(
    spark: SparkSession, family: Database
) -> None:
    job = Job(spark, family, "parent", "child")
    parents = job.stage("parent", "name string", [(INSERT, 10, "a")])
    orphans = job.stage("child", "parent bigint", [(INSERT, 1, 99)])
    with pytest.raises(RowsRefused, match=r"sink child: .*\(parent\)=\(99\) is not present"):
        job.commit(parents, orphans)
    assert rows_of(family, "parent") == []

    family.execute("INSERT INTO parent VALUES (99, 'found')")
    later = Job(spark, family, "parent", "child", epoch=2)
    later.commit(parents, orphans)
    assert rows_of(family, "child") == [(1, 99)]
    assert family.execute("SELECT sink, rows FROM streamjob.commits ORDER BY sink") == [("child", 1), ("parent", 1)]


def test_a_superseded_process_that_hangs_in_the_commit_of_several_sinks_holds_up_none_of_their_successors(
    spark: SparkSession, family: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(spark, family, "parent", "child")
    output = [
        job.stage("parent", "name string", [(INSERT, 10, "a")]),
        job.stage("child", "parent bigint", [(INSERT, 1, 10)]),
    ]
    real: Callable[[psycopg.Connection], None] = psycopg.Connection.commit
    hung: list[Job] = []

    def be_superseded_first(connection: psycopg.Connection) -> None:
        if not hung:
            hung.append(job)
            # The session has the name of the other sink.
            Job(spark, family, "child", epoch=2).commit(output[1])
        real(connection)

    family.execute("INSERT INTO parent VALUES (10, 'a')")
    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "commit", be_superseded_first)
        with pytest.raises(DatabaseUnreachable):
            job.commit(*output)
    assert rows_of(family, "child") == [(1, 10)]
