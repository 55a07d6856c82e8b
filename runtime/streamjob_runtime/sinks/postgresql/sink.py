"""The exactly-once PostgreSQL sink.

Each batch is copied into a staging table of the same database, in a separate schema, when it is computed. When the
checkpoint that covers it has completed, one transaction moves its rows to the table and records them as committed. So a
commit is quick and does not need the process that staged. A repeated commit finds the record and does nothing.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import psycopg
from psycopg.sql import SQL, Identifier
from pydantic import JsonValue

from streamjob.errors import StreamJobError, refuse
from streamjob.ids import BatchId, CheckpointId
from streamjob.job.connectors.changes import CHANGE_TYPE
from streamjob.job.connectors.postgresql import parse_options
from streamjob.journal import JournalRecord, published_batch
from streamjob.sink import Measured, SinkContext, Staged
from streamjob_runtime.sinks.committables import read_committable, read_journal_record, that_count
from streamjob_runtime.sinks.errors import DatabaseRefuses, StagedRowsGone, UnreadableCommittable, UnusableTable
from streamjob_runtime.sinks.identity import identity_of
from streamjob_runtime.sinks.postgresql import statements
from streamjob_runtime.sinks.postgresql.catalog import TargetTable, find_table, id_of
from streamjob_runtime.sinks.postgresql.column_types import Form, form_of, key_mismatches, mismatches
from streamjob_runtime.sinks.postgresql.copying import copy_batch
from streamjob_runtime.sinks.postgresql.journal import Journal
from streamjob_runtime.sinks.postgresql.moving import Move, StagedBatch, move_all, refuse_followers
from streamjob_runtime.sinks.postgresql.sessions import Connection, Server, end_sessions_below, explained
from streamjob_runtime.sinks.postgresql.staging import StagingTables
from streamjob_runtime.sinks.rows.changes import is_deletion, kind_mismatches
from streamjob_runtime.sinks.rows.column_mismatches import Mismatch
from streamjob_runtime.sinks.rows.readable_rows import readable_rows, unwritable
from streamjob_runtime.sinks.rows.unavailable import with_left_out

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_RECORDS_KEPT = 1000
_SETTING_UP = 0x73747265616D6A62
"""Advisory lock for creating the staging schema: "streamjb"."""

_IS_THERE = "SELECT 1 FROM pg_class WHERE oid = to_regclass(%s)"

log = logging.getLogger("streamjob")


class PostgresqlSink:
    """Inserts each batch's rows, or upserts them by key, once the checkpoint that covers them has completed.

    Or it replaces the table's content by the last batch that the checkpoint covers.

    Args:
        publishes_batches: whether its batches are published at once, so that it depends on its journal.
    """

    def __init__(self, name: str, *, publishes_batches: bool = False) -> None:
        self._label = f"sink {name}"
        self._publishes_batches = publishes_batches
        self._tables = StagingTables()
        self._journal_id: str | None = None

    def open(self, context: SinkContext) -> None:
        """Check the server, the table and the role's rights, and end sessions of former processes.

        Raises:
            UnusableOptions: an option is invalid.
            DatabaseUnreachable: no server answers.
            DatabaseRefuses: the server refuses the role or an operation.
            UnusableTable: the table does not exist, or cannot be written to.
        """
        self._context = context
        self._options = parse_options(context.options, self._label)
        self._identity = identity_of(context.namespace, context.job, context.uid)
        self._tables = StagingTables()
        application = statements.application_name(self._identity, context.epoch, context.job, context.uid)
        self._server = Server(self._label, self._options, application)
        with self._server.transaction() as connection:
            end_sessions_below(connection, self._identity, context.epoch)
            self._target = self._find_target(connection)
            self._target_id = id_of(connection, self._target)
            self._set_up(connection)
            self._journal = Journal(self._label, self._options.staging_schema, self._names)
            if self._publishes_batches:
                self._journal.set_up(connection, partial(self._check_table_right, connection))
            self._journal_id = self._journal.id(connection)
            self._conninfo = self._server.portable(connection)

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check server, table, rights and rows without ending any session. Raises the errors of `open`."""
        self._context = context
        self._options = parse_options(context.options, self._label)
        self._server = Server(self._label, self._options, f"check {context.job}")
        with self._server.transaction() as connection:
            self._target = self._find_target(connection)
        if schema is not None:
            self.check_schema(schema)

    def rehearse(self, context: SinkContext, rows: DataFrame) -> None:
        """Check server, table and rows, while tasks form lines. Without rows they connect to no server.

        Raises the errors of `preview`.
        """
        self.preview(context, rows.schema)
        copy_batch(rows, conninfo="", statement="")

    def check_schema(self, schema: StructType) -> None:
        """Check that rows with a schema fit the table.

        Raises:
            UnusableTable: they do not fit; lists all problems.
        """
        rows = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        found = []
        if self._applies_changes(schema.names):
            found += [*self._target.deletion_refusals(), *kind_mismatches(schema)]
            rows = [(name, kind) for name, kind in rows if name != CHANGE_TYPE]
        found += mismatches(rows, self._target.columns)
        as_json = (each for each in schema.fields if form_of(each.dataType.simpleString()) is Form.JSON)
        found += (Mismatch(f"cannot have the rows: {what}", fix) for what, fix in unwritable("json", as_json))
        if self._options.key:
            names = [name for name, _ in rows]
            found += key_mismatches(self._options.key, names, self._target.columns, self._target.unique)
        refuse(UnusableTable, f"{self._label}: table {self._target.label}", found)

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Copy the batch into a staging table, in one Spark action.

        Raises:
            RowsRefused: the server refuses a row.
            DatabaseUnreachable, DatabaseRefuses: see `open`.
        """
        staged, rows = self._staged(batch)
        if staged is None:
            return Staged(None, 0)
        return Staged(staged.model_dump(mode="json", exclude=None if staged.leftOut else {"leftOut"}), rows)

    def _staged(self, batch: DataFrame) -> tuple[StagedBatch | None, int]:
        """Copy a batch into a staging table; return None if it changes nothing, and the number of rows."""
        identity = secrets.token_hex(16)
        left_out: tuple[str, ...] = ()
        if self._options.key:
            batch, left_out = with_left_out(batch, self._label, self._options.key, statements.LEFT_OUT)
        changes = self._applies_changes(batch.columns)
        columns = [
            name for name in batch.columns if name != statements.LEFT_OUT and not (changes and name == CHANGE_TYPE)
        ]
        if changes:
            batch = batch.withColumn(statements.DELETED, is_deletion(self._label)).drop(CHANGE_TYPE)
        table = self._tables.take(identity) or self._make_table(identity, columns, changes, left_out)
        staging = (self._options.staging_schema, table)
        statement = statements.copy(staging, batch.columns).as_string(None)
        copied = copy_batch(readable_rows(batch, self._label, "postgresql"), self._conninfo, statement)
        for each in copied:
            if each.error is not None:
                raise explained(self._label, each.sqlstate, each.error)
        rows = sum(each.rows for each in copied)
        if not rows and not self._replaces:
            self._tables.empty(identity)
            return None, 0
        staged = StagedBatch(
            formatVersion=3 if left_out else 2 if changes else 1,
            id=identity,
            stagingSchema=staging[0],
            stagingTable=table,
            tasks=tuple(each.task for each in copied if each.rows),
            columns=tuple(columns),
            changes=changes,
            leftOut=left_out,
        )
        return staged, rows

    def take_journal(self) -> None:
        """Let no other process publish from here on. Raises the errors of `open`."""
        with self._server.transaction() as connection:
            self._lock(connection)
            self._journal.take(connection)

    def journal(self) -> Sequence[JournalRecord]:
        """Return the records of batches that no checkpoint covers.

        Raises:
            UnreadableRecord: a record is damaged, or of an unknown form.
            DatabaseUnreachable, DatabaseRefuses: see `open`.
        """
        with self._server.transaction() as connection:
            records = self._journal.records(connection)
        return [read_journal_record(text, self._label) for text in records.values()]

    def journal_id(self) -> str | None:
        """Return the id of the journal, as of `open`; None if there is none."""
        return self._journal_id

    def drop_journal(self) -> int:
        """Delete all records of the journal; return their number. Raises OthersPublish, and the errors of `open`."""
        with self._server.transaction() as connection:
            self._lock(connection)
            records = self._journal.records(connection)
            self._journal.forget(connection, list(records))
        return len(records)

    def measure(self, batch: DataFrame) -> Measured:
        """Compute a batch, in one Spark action; return the number of its rows and their hash. Raises as `stage`."""
        staged, rows = self._staged(batch)
        if staged is None:
            return Measured(rows, 0)
        with self._server.transaction() as connection:
            found = self._measured(connection, staged)
            dropped = self._let_go(connection, staged)
        self._tables.committed([staged.id], dropped)
        return found

    def publish(
        self, batch: DataFrame, record: Callable[[Measured], JournalRecord], *, always: bool = False
    ) -> JournalRecord | None:
        """Stage a batch, in one Spark action, and move its rows and add its record in one transaction.

        Raises:
            OthersPublish: another process publishes for the sink.
            RowsRefused, UnusableTable, DatabaseUnreachable, DatabaseRefuses: see `commit`.
        """
        staged, _ = self._staged(batch)
        if staged is None and not always:
            return None
        found = Measured(0, 0)
        if staged is not None:
            with self._server.transaction() as connection:
                found = self._measured(connection, staged)
        made, dropped = record(found), list[str]()
        with self._server.transaction() as connection:
            self._lock(connection)
            self._journal.add(connection, made.batch, made.model_dump_json())
            if staged is not None:
                key, replaces = self._options.key, self._replaces
                move_all(connection, [Move(self._label, self._target, key, [staged], replaces=replaces)])
                dropped = self._let_go(connection, staged)
        if staged is not None:
            self._tables.committed([staged.id], dropped)
        return made

    def _measured(self, connection: Connection, staged: StagedBatch) -> Measured:
        connection.execute(statements.STEADY_TEXT)
        marks = [*([statements.DELETED] if staged.changes else []), *([statements.LEFT_OUT] if staged.leftOut else [])]
        measure = statements.measure(staged.staging, [*staged.columns, *marks])
        rows, total = _one(connection.execute(measure, (list(staged.tasks),)))
        return Measured(int(str(rows)), int(str(total)) % 2**64)

    def _let_go(self, connection: Connection, staged: StagedBatch) -> list[str]:
        dropped = self._tables.close_for([staged.id])
        self._drop(connection, dropped)
        return dropped

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Move the rows of the checkpoint's batches to the table, and record this, in one transaction.

        Raises:
            UnreadableCommittable: a committable does not belong to this sink.
            StagedRowsGone: rows are neither staged nor recorded as committed.
            RowsRefused: the table refuses a row, for example a duplicate key.
            UnusableTable, DatabaseUnreachable, DatabaseRefuses: see `open`.
        """
        self.commit_together(checkpoint, [(self, committables)])

    @property
    def transaction(self) -> Hashable:
        """The database and the role."""
        return self._options.url, self._options.user, self._options.password

    def commit_together(
        self, checkpoint: CheckpointId, output: Sequence[tuple[PostgresqlSink, Sequence[JsonValue]]]
    ) -> None:
        """Move the rows of several sinks, and record this, in one transaction. Raises the errors of `commit`."""
        output = [(sink, committables) for sink, committables in output if committables]
        if not output:
            return
        numbered = [(sink, [(published_batch(each), each) for each in committables]) for sink, committables in output]
        published = [(sink, [number for number, _ in each if number is not None]) for sink, each in numbered]
        given = [(sink, [sink._parsed(one) for number, one in each if number is None]) for sink, each in numbered]
        dropped: list[list[str]] = []
        with self._server.transaction() as connection:
            # In one order for all, so that no two processes wait for each other.
            for sink, _ in sorted(given, key=lambda each: each[0]._identity):
                sink._lock(connection)
            counting = [(sink, that_count(batches, sink._options.mode)) for sink, batches in given]
            due = [(sink, sink._due(connection, checkpoint, batches)) for sink, batches in counting]
            due = [(sink, batches) for sink, batches in due if batches]
            moves = [
                Move(sink._label, sink._target, sink._options.key, batches, replaces=sink._replaces)
                for sink, batches in due
            ]
            for (sink, batches), rows in zip(due, move_all(connection, moves) if moves else (), strict=True):
                sink._record(connection, checkpoint, batches, rows)
            for sink, numbers in published:
                if numbers:
                    sink._journal.forget(connection, numbers)
                    sink._record(connection, checkpoint, (), 0)
            for sink, batches in given:
                dropped.append(sink._tables.close_for(batch.id for batch in batches))
                sink._drop(connection, dropped[-1])
        for (sink, batches), names in zip(given, dropped, strict=True):
            sink._tables.committed((batch.id for batch in batches), names)

    def rescue(self, checkpoint: CheckpointId, committables: Sequence[JsonValue], target: Path) -> int:
        """Write staged rows to a file, each as one JSON object.

        Raises:
            StagedRowsGone: rows are neither staged nor recorded as committed.
            DatabaseUnreachable, DatabaseRefuses: see `open`.
        """
        rows = 0
        staged = [self._parsed(each) for each in committables if published_batch(each) is None]
        counting = that_count(staged, self._options.mode)
        with self._server.transaction() as connection, target.open("a", encoding="utf-8") as file:
            for batch in self._due(connection, checkpoint, counting):
                # On the server, so that this process need not hold all rows.
                with connection.cursor("rescued") as cursor:
                    for (row,) in cursor.execute(statements.staged_rows(batch.staging), (list(batch.tasks),)):
                        file.write(f"{row}\n")
                        rows += 1
        return rows

    def target_id(self) -> str | None:
        """Return the ids of cluster, database and table, as of `open`; None if the role may not read them."""
        return self._target_id

    def newest_published(self) -> CheckpointId | None:
        """Return the checkpoint of the newest record in the table of commits. Raises the errors of `open`."""
        schema = self._options.staging_schema
        with self._server.transaction() as connection:
            commits = Identifier(schema, statements.COMMITS).as_string(connection)
            if not _has(connection, _IS_THERE, commits):
                return None
            row = connection.execute(statements.newest(schema), self._names).fetchone()
        return None if row is None else CheckpointId(row[0])

    def abort(self) -> None:
        """Drop the staging tables of lower epochs.

        Leave those of higher epochs alone: a superseded process that wakes up must not harm its successor.
        """
        with self._server.transaction() as connection:
            end_sessions_below(connection, self._identity, self._context.epoch)
            names = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s AND starts_with(tablename, %s)",
                (self._options.staging_schema, f"staged_{self._identity}_"),
            ).fetchall()
            epochs = {name: statements.epoch_of(name, self._identity) for (name,) in names}
            below = [name for name, epoch in epochs.items() if epoch is not None and epoch < self._context.epoch]
            self._drop(connection, below)

    def close(self) -> None:
        """Drop empty staging tables; the next epoch drops any that remain."""
        if unused := self._tables.unused():
            with suppress(StreamJobError), self._server.transaction() as connection:
                self._drop(connection, unused)

    def _find_target(self, connection: Connection) -> TargetTable:
        if connection.info.server_version < 120000:
            raise DatabaseRefuses(
                f"{self._label}: the server is older than PostgreSQL 12", "use PostgreSQL 12 or later"
            )
        (read_only,) = _one(connection.execute("SELECT current_setting('transaction_read_only')"))
        if read_only == "on":
            raise DatabaseRefuses(
                f"{self._label}: the server takes no writes; it may be a standby",
                "name the primary, or several hosts with ?target_session_attrs=read-write",
            )
        schema, name = self._options.table_name()
        target = find_table(connection, schema, name)
        if target is None:
            raise UnusableTable(
                f"{self._label}: there is no table {self._options.table} in database {connection.info.dbname}",
                "make it, or correct the option 'table'; names are compared exactly",
            )
        found = list(target.refusals(replace=bool(self._options.key)))
        if self._replaces and not found:
            found += target.deletion_refusals()
        refuse(UnusableTable, f"{self._label}: table {target.label}", found)
        if self._replaces:
            refuse_followers(connection, self._label, target)
        return target

    @property
    def _replaces(self) -> bool:
        return self._options.mode == "replace"

    def _set_up(self, connection: Connection) -> None:
        """Create the staging schema and the table of commits, unless they exist."""
        schema = self._options.staging_schema
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SETTING_UP,))
        if not _has(connection, "SELECT 1 FROM pg_namespace WHERE nspname = %s", schema):
            self._do_or_explain(connection, SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        self._check_right(
            connection, "SELECT has_schema_privilege(%s, 'CREATE, USAGE')", schema, "CREATE, USAGE ON SCHEMA"
        )
        commits = Identifier(schema, statements.COMMITS).as_string(connection)
        if not _has(connection, _IS_THERE, commits):
            connection.execute(statements.create_commits(schema))
        for right in ("SELECT", "INSERT", "DELETE"):
            self._check_table_right(connection, commits, right)

    def _check_table_right(self, connection: Connection, name: str, right: str) -> None:
        self._check_right(connection, f"SELECT has_table_privilege(%s, '{right}')", name, f"{right} ON")

    def _do_or_explain(self, connection: Connection, statement: psycopg.sql.Composed) -> None:
        try:
            connection.execute(statement)
        except psycopg.errors.InsufficientPrivilege as error:
            role = connection.info.user
            raise DatabaseRefuses(
                f"{self._label}: there is no schema {self._options.staging_schema}, and role {role} may not make one",
                f"make it: CREATE SCHEMA {self._options.staging_schema} AUTHORIZATION {role}",
            ) from error

    def _check_right(self, connection: Connection, query: str, name: str, right: str) -> None:
        (given,) = _one(connection.execute(query.encode(), (name,)))
        if not given:
            role = connection.info.user
            raise DatabaseRefuses(
                f"{self._label}: role {role} lacks the right to {right} {name}", f"GRANT {right} {name} TO {role}"
            )

    def _applies_changes(self, columns: Sequence[str]) -> bool:
        return bool(self._options.key) and CHANGE_TYPE in columns

    @property
    def keeps_unavailable(self) -> bool:
        """Whether rows may leave out columns: if they replace others."""
        return bool(self._options.key)

    def _make_table(self, batch: str, columns: Sequence[str], changes: bool, left_out: Sequence[str]) -> str:
        name = statements.staging_table(self._identity, self._context.epoch, secrets.token_hex(6))
        staging, target = (self._options.staging_schema, name), (self._target.schema, self._target.name)
        dropped = [column.name for column in self._target.columns if column.name not in columns]
        given = [column for column in self._target.columns if column.name in columns]
        optional = [column.name for column in given if column.not_null and column.name not in self._options.key]
        with self._server.transaction() as connection:
            for statement in statements.create_staging(
                staging, target, dropped, optional, changes=changes, left_out=left_out
            ):
                connection.execute(statement)
        self._tables.made(name, batch)
        return name

    def _lock(self, connection: Connection) -> None:
        """Lock out all other processes that commit for this sink, whether superseded or superseding."""
        key = statements.lock_key(self._identity)
        while not _one(connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,)))[0]:
            # The holder of the lock may hang. End it if it belongs to a lower epoch; wait for a higher one.
            if not end_sessions_below(connection, self._identity, self._context.epoch):
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (key,))
                return

    def _due(
        self, connection: Connection, checkpoint: CheckpointId, batches: Sequence[StagedBatch]
    ) -> list[StagedBatch]:
        """Return the uncommitted batches."""
        due: list[StagedBatch] = []
        for schema, group in groupby(batches, key=lambda batch: batch.stagingSchema):
            members = list(group)
            query = statements.recorded(schema)
            done = {
                batch
                for (batch,) in connection.execute(query, (*self._names, [batch.id for batch in members])).fetchall()
            }
            due += [batch for batch in members if batch.id not in done]
        for staging in dict.fromkeys(batch.staging for batch in due):
            name = Identifier(*staging).as_string(connection)
            if not _has(connection, _IS_THERE, name):
                self._rows_gone(checkpoint, name)
        return due

    def _rows_gone(self, checkpoint: CheckpointId, table: str) -> NoReturn:
        raise StagedRowsGone(
            f"{self._label}: rows of checkpoint {checkpoint} are neither committed nor staged in {table}",
            "bring the database to where it was when the checkpoint completed; or give these rows up, and start from "
            "that checkpoint (--from) at another --location",
        )

    def _record(self, connection: Connection, checkpoint: CheckpointId, due: Sequence[StagedBatch], rows: int) -> None:
        schema = due[0].stagingSchema if due else self._options.staging_schema
        values = (*self._names, self._context.epoch, checkpoint, [batch.id for batch in due], rows)
        connection.execute(statements.record(schema), values)
        connection.execute(statements.forget(schema), (*self._names, *self._names, _RECORDS_KEPT))

    def _drop(self, connection: Connection, names: Sequence[str]) -> None:
        if names:
            connection.execute(statements.drop([(self._options.staging_schema, name) for name in names]))

    @property
    def _names(self) -> tuple[str, str, str]:
        return self._context.namespace, self._context.job, self._context.uid

    def _parsed(self, committable: JsonValue) -> StagedBatch:
        batch = read_committable(StagedBatch, committable, self._label)
        if statements.epoch_of(batch.stagingTable, self._identity) is None:
            raise UnreadableCommittable(f"{self._label}: a committable names a table that is not this sink's")
        return batch


def _one(cursor: psycopg.Cursor[tuple[object, ...]]) -> tuple[object, ...]:
    row = cursor.fetchone()
    assert row is not None
    return row


def _has(connection: Connection, query: str, name: str) -> bool:
    return connection.execute(query.encode(), (name,)).fetchone() is not None
