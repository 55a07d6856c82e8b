"""Moves staged rows to their tables in one transaction, in an order that the constraints of the tables accept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import psycopg
from psycopg.errors import ExclusionViolation, ForeignKeyViolation, UniqueViolation
from pydantic import BaseModel, ConfigDict

from streamjob_runtime.sinks.errors import RowsRefused, UnusableTable
from streamjob_runtime.sinks.postgresql import statements
from streamjob_runtime.sinks.postgresql.catalog import TargetTable, followers, references, stored_columns
from streamjob_runtime.sinks.postgresql.sessions import Connection, explained, message_of
from streamjob_runtime.sinks.rows.unavailable import nothing_to_keep


class StagedBatch(BaseModel):
    """The committable: a staging table, the task attempts whose rows in it count, and the columns of the rows.

    Format version 2 also tells whether the rows are changes, which an older version would take for rows to insert.
    Version 3 tells which columns a row may leave out, for which an older version would write NULL.
    """

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[1, 2, 3] = 1  # noqa: N815 - as it is stored
    id: str
    stagingSchema: str  # noqa: N815
    stagingTable: str  # noqa: N815
    tasks: tuple[int, ...]
    columns: tuple[str, ...]
    changes: bool = False
    leftOut: tuple[str, ...] = ()  # noqa: N815

    @property
    def staging(self) -> statements.Table:
        """The staging table."""
        return self.stagingSchema, self.stagingTable


@dataclass(frozen=True, slots=True)
class Move:
    """Staged rows of a sink that become part of its table.

    Args:
        label: the sink's name in messages.
        key: the columns that identify a row; empty if each row is added.
        batches: the batches, in order, with the same columns.
        replaces: whether the rows, of a single batch, replace all rows of the table.
    """

    label: str
    target: TargetTable
    key: Sequence[str]
    batches: Sequence[StagedBatch]
    replaces: bool = False

    @property
    def table(self) -> statements.Table:
        """The schema and name of the table."""
        return self.target.schema, self.target.name

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the rows."""
        return self.batches[0].columns

    @property
    def deletes(self) -> bool:
        """Whether rows may be deletions."""
        return bool(self.key) and self.batches[0].changes

    @property
    def rows(self) -> statements.StagedRows:
        """The rows, if they have a key."""
        first = self.batches[0]
        tables = tuple(dict.fromkeys(batch.staging for batch in self.batches))
        return statements.StagedRows(
            tables=tables, columns=first.columns, key=self.key, changes=first.changes, left_out=first.leftOut
        )

    @property
    def values(self) -> list[list[int]]:
        """The parameters of statements about the rows: for each table the tasks, and the numbers of their batches."""
        of: dict[statements.Table, tuple[list[int], list[int]]] = {}
        for number, batch in enumerate(self.batches):
            tasks, numbers = of.setdefault(batch.staging, ([], []))
            tasks += batch.tasks
            numbers += [number] * len(batch.tasks)
        return [values for pair in of.values() for values in pair]


def move_all(connection: Connection, moves: Sequence[Move]) -> list[int]:
    """Move rows in an open transaction; return the number of written and deleted rows for each move.

    Constraints that can be deferred are checked at the end. For the others, rows that are referred to are written
    before those that refer to them, and deleted after them. If the tables still refuse the rows, rows exchange their
    unique values, or deletions come last.

    Raises:
        RowsRefused: a table refuses rows in each of these orders.
        UnusableTable: rows exchange unique values, and rows of other tables would be lost with them.
        DatabaseUnreachable, DatabaseRefuses: see `explained`.
    """
    connection.execute("SET CONSTRAINTS ALL DEFERRED")
    order = _parents_first(connection, moves)
    exchange = deletions_last = False
    while True:
        try:
            with connection.transaction():
                return _moved(connection, moves, order, exchange=exchange, deletions_last=deletions_last)
        except RowsRefused as refused:
            match refused.__cause__:
                case UniqueViolation() | ExclusionViolation() if not exchange and any(move.key for move in moves):
                    exchange = True
                case ForeignKeyViolation() if not deletions_last and any(move.deletes for move in moves):
                    deletions_last = True
                case _:
                    raise


def _moved(
    connection: Connection, moves: Sequence[Move], order: Sequence[int], *, exchange: bool, deletions_last: bool
) -> list[int]:
    rows = [0] * len(moves)

    def delete() -> None:
        for number in reversed(order):
            if (move := moves[number]).deletes:
                with _labelled(move):
                    rows[number] += _deleted(connection, move)

    if not deletions_last:
        delete()
    for number in order:
        with _labelled(moves[number]):
            rows[number] += _written(connection, moves[number], exchange=exchange)
    if deletions_last:
        delete()
    with _labelled(moves[0], *moves):
        # Now, so that the error names the sink.
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
    return rows


def _deleted(connection: Connection, move: Move) -> int:
    return connection.execute(statements.delete_staged(move.rows, move.table), move.values).rowcount


def refuse_followers(
    connection: Connection,
    label: str,
    target: TargetTable,
    why: str = "each checkpoint replaces them",
    fix: str = "let the foreign key have no action ON DELETE",
) -> None:
    """Refuse to delete and insert rows again that rows of other tables would follow. Raises UnusableTable."""
    if following := followers(connection, target):
        named = ", ".join(f"{name} of {table}" for name, table in following)
        raise UnusableTable(
            f"{label}: rows of {target.label} are deleted and inserted again, since {why}, and each deletion would "
            f"reach rows of other tables by {named}",
            fix,
        )


def _written(connection: Connection, move: Move, *, exchange: bool) -> int:
    if move.replaces:
        refuse_followers(connection, move.label, move.target)
        (batch,) = move.batches
        replace_all = statements.replace_all(batch.staging, move.table, move.columns)
        return connection.execute(replace_all, (list(batch.tasks),)).rowcount
    if not move.key:
        written = 0
        for staging, batches in groupby(move.batches, key=lambda batch: batch.staging):
            tasks = [task for batch in batches for task in batch.tasks]
            written += connection.execute(
                statements.insert_staged(staging, move.table, move.columns), (tasks,)
            ).rowcount
        return written
    rows, values = move.rows, move.values
    if rows.left_out:
        _check_kept(connection, move)
    if not exchange:
        written = connection.execute(statements.upsert_staged(rows, move.table), values).rowcount
        if rows.left_out:
            written += connection.execute(statements.update_staged(rows, move.table), values).rowcount
        return written
    fix = "make the unique constraint DEFERRABLE, or the foreign key without an action ON DELETE"
    refuse_followers(connection, move.label, move.target, "they exchange unique values", fix)
    kept = [name for name in stored_columns(connection, move.target) if name not in move.columns]
    found = connection.execute(statements.exchange_staged(rows, move.table, kept), values).fetchone()
    assert found is not None
    return int(found[0])


def _check_kept(connection: Connection, move: Move) -> None:
    rows = move.rows
    found = connection.execute(statements.unkept_staged(rows, move.table), move.values).fetchone()
    if found is not None:
        row = dict(zip(rows.key, found[: len(rows.key)], strict=True))
        flags = zip(rows.left_out, found[len(rows.key) :], strict=True)
        columns = [name for name, left_out in flags if left_out]
        raise nothing_to_keep(f"{move.label}: table {move.target.label}", row, columns)


def _parents_first(connection: Connection, moves: Sequence[Move]) -> list[int]:
    """Return the order of moves: as they are, but a table that another one refers to comes before it."""
    if len(moves) == 1:
        return [0]
    oids = [move.target.oid for move in moves]
    pairs = references(connection, (move.target for move in moves))
    waiting, order = list(range(len(moves))), list[int]()
    while waiting:
        ready = (
            number
            for number in waiting
            if not any((oids[number], oids[other]) in pairs for other in waiting if oids[other] != oids[number])
        )
        # Tables that refer to each other in a circle need constraints that can be deferred.
        following = next(ready, waiting[0])
        waiting.remove(following)
        order.append(following)
    return order


@contextmanager
def _labelled(move: Move, *others: Move) -> Iterator[None]:
    """Raise the server's errors under the name of the sink that they are about."""
    try:
        yield
    except psycopg.Error as error:
        about = (error.diag.schema_name, error.diag.table_name)
        label = next((other.label for other in others if other.table == about), move.label)
        raise explained(label, error.sqlstate, message_of(error)) from error
