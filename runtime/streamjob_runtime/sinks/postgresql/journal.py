"""The journal of a sink that publishes each batch: a table beside that of commits, with a row for each batch."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

from psycopg.sql import SQL, Composed, Identifier

from streamjob.ids import BatchId
from streamjob_runtime.sinks.errors import OthersPublish
from streamjob_runtime.sinks.postgresql.sessions import Connection

JOURNAL = "journal"
_ID, _OWNER = -1, -2
"""Rows that are no batches: the id of the journal, and the process that may publish."""


class Journal:
    """The journal of one sink; its methods run in the caller's transaction.

    Args:
        label: the sink's name in messages.
        schema: the staging schema.
        names: namespace, job and sink.
    """

    def __init__(self, label: str, schema: str, names: tuple[str, str, str]) -> None:
        self._label = label
        self._schema = schema
        self._names = names
        self._token = uuid.uuid4().hex
        self._has_taken = False

    def set_up(self, connection: Connection, check_right: Callable[[str, str], None]) -> None:
        """Make the table and the journal's id, unless they exist.

        Args:
            check_right: is called with the name of the table and each right that is needed; raises its error.
        """
        create = (
            "CREATE TABLE IF NOT EXISTS {} (namespace text, job text, sink text, batch bigint, record text NOT NULL, "
            "PRIMARY KEY (namespace, job, sink, batch))"
        )
        name = Identifier(self._schema, JOURNAL)
        connection.execute(SQL(create).format(name))
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE"):
            check_right(name.as_string(connection), right)
        insert = self._statement("INSERT INTO {} VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING")
        connection.execute(insert, (*self._names, _ID, uuid.uuid4().hex))

    def id(self, connection: Connection) -> str | None:
        """Return the journal's id; None if there is no journal, or the role may not read it: another job made it."""
        name = Identifier(self._schema, JOURNAL).as_string(connection)
        readable = "SELECT has_table_privilege(oid, 'SELECT') FROM pg_class WHERE oid = to_regclass(%s)"
        if (found := connection.execute(readable, (name,)).fetchone()) is None or not found[0]:
            return None
        return self._record_of(connection, _ID)

    def take(self, connection: Connection) -> None:
        """Let this process alone publish from here on."""
        statement = "INSERT INTO {} VALUES (%s, %s, %s, %s, %s) ON CONFLICT (namespace, job, sink, batch) DO UPDATE"
        values = (*self._names, _OWNER, self._token)
        connection.execute(self._statement(statement + " SET record = excluded.record"), values)
        self._has_taken = True

    def records(self, connection: Connection) -> Mapping[BatchId, str]:
        """Return the records of batches."""
        query = "SELECT batch, record FROM {} WHERE namespace = %s AND job = %s AND sink = %s AND batch >= 0"
        return dict(connection.execute(self._statement(query), self._names).fetchall())

    def add(self, connection: Connection, batch: BatchId, record: str) -> None:
        """Add the record of a batch. Raises OthersPublish."""
        self._check_owner(connection)
        statement = self._statement("INSERT INTO {} VALUES (%s, %s, %s, %s, %s)")
        connection.execute(statement, (*self._names, batch, record))

    def forget(self, connection: Connection, batches: Sequence[BatchId]) -> None:
        """Delete the records of batches. Raises OthersPublish: they may be records of other batches by now."""
        if self._has_taken:
            self._check_owner(connection)
        statement = "DELETE FROM {} WHERE namespace = %s AND job = %s AND sink = %s AND batch = ANY(%s)"
        connection.execute(self._statement(statement), (*self._names, list(batches)))

    def _check_owner(self, connection: Connection) -> None:
        if self._record_of(connection, _OWNER) != self._token:
            raise OthersPublish(self._label)

    def _record_of(self, connection: Connection, batch: int) -> str | None:
        query = "SELECT record FROM {} WHERE namespace = %s AND job = %s AND sink = %s AND batch = %s"
        row = connection.execute(self._statement(query), (*self._names, batch)).fetchone()
        return None if row is None else str(row[0])

    def _statement(self, text: str) -> Composed:
        # In the name, a placeholder would be read as one.
        return SQL(text).format(SQL(Identifier(self._schema, JOURNAL).as_string(None).replace("%", "%%")))
