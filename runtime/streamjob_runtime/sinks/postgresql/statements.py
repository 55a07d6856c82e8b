"""The sink's SQL statements; pure. Values are parameters, names are quoted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import ParamSpec

from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from streamjob.ids import Epoch

TASK = "_streamjob_task"
"""Column of a staging table: the task attempt that copied the row."""
POSITION = "_streamjob_position"
"""Column of a staging table: the row's position in its batch, increasing within a partition."""
DELETED = "_streamjob_deleted"
"""Column of a staging table for changes: whether the row with this key is to be deleted."""
LEFT_OUT = "_streamjob_left_out"
"""Column of a staging table for rows that may leave out columns: their names, as a JSON array."""
_BATCH, _LIFE = "_streamjob_batch", "_streamjob_life"
TASK_SETTING = "streamjob.task"
COMMITS = "commits"
STEADY_TEXT = (
    "SELECT set_config('timezone', 'UTC', true), set_config('DateStyle', 'ISO, MDY', true), "
    "set_config('extra_float_digits', '1', true), set_config('bytea_output', 'hex', true)"
)
"""Lets each value have the same text in a transaction as in that of another session, whatever its settings."""

_STAGING_TABLE = re.compile(r"staged_([0-9a-f]{16})_(\d+)_[0-9a-f]{12}")
_LONGEST_APPLICATION_NAME = 63
_P = ParamSpec("_P")

Table = tuple[str, str]
"""A schema and the name of a table in it."""


def _with_parameters(statement: Callable[_P, Composed]) -> Callable[_P, Composed]:
    """Double each % in the names of a statement: psycopg reads it as a placeholder if the statement has parameters."""

    def doubled(part: Composable) -> Composable:
        if isinstance(part, Composed):
            return Composed([doubled(inner) for inner in part])
        if isinstance(part, SQL):
            return part
        return SQL(part.as_string(None).replace("%", "%%"))

    @wraps(statement)
    def build(*args: _P.args, **kwargs: _P.kwargs) -> Composed:
        return Composed([doubled(part) for part in statement(*args, **kwargs)])

    return build


def lock_key(identity: str) -> int:
    """Return the key of the advisory lock for committing to a sink."""
    return int.from_bytes(bytes.fromhex(identity), signed=True)


def application_name(identity: str, epoch: Epoch, job: str, sink: str) -> str:
    """Return the name of a sink's sessions in `pg_stat_activity`."""
    # The server truncates longer names, and replaces characters outside ASCII.
    return f"streamjob {identity} {epoch} {job}/{sink}"[:_LONGEST_APPLICATION_NAME]


def staging_table(identity: str, epoch: Epoch, distinction: str) -> str:
    """Return the name of a staging table; `distinction` is 12 hexadecimal digits."""
    return f"staged_{identity}_{epoch}_{distinction}"


def epoch_of(table: str, identity: str) -> Epoch | None:
    """Return the epoch that created a staging table; None if the table is not this sink's."""
    match = _STAGING_TABLE.fullmatch(table)
    return Epoch(int(match[2])) if match and match[1] == identity else None


def create_commits(schema: str) -> Composed:
    """Return the statement that creates the table of commits: one row per checkpoint that committed rows."""
    return SQL(
        "CREATE TABLE IF NOT EXISTS {commits} ("
        "number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        "namespace text NOT NULL, job text NOT NULL, sink text NOT NULL, "
        "epoch bigint NOT NULL, checkpoint bigint NOT NULL, "
        "batches text[] NOT NULL, rows bigint NOT NULL, "
        "committed_at timestamptz NOT NULL DEFAULT clock_timestamp(), "
        "UNIQUE (namespace, job, sink, number))"
    ).format(commits=Identifier(schema, COMMITS))


def create_staging(
    staging: Table,
    target: Table,
    dropped: Sequence[str],
    optional: Sequence[str] = (),
    *,
    changes: bool = False,
    left_out: Sequence[str] = (),
) -> list[Composed]:
    """Return the statements that create a staging table with the target's columns and checks, to fail early.

    The task is a default value read from a setting, so that rows are sent exactly as Spark formed them.

    Args:
        dropped: the target's columns that the rows do not have.
        optional: the columns that refuse NULL, and that a deletion need not have.
        changes: whether a row may be a deletion.
        left_out: the columns that a row may leave out.
    """
    table, task = Identifier(*staging), Identifier(TASK)
    own = [SQL("ADD COLUMN {} bigint NOT NULL").format(name) for name in (task, Identifier(POSITION))]
    drops = [SQL("DROP COLUMN {}").format(Identifier(name)) for name in dropped]
    if changes:
        own.append(SQL("ADD COLUMN {} boolean NOT NULL").format(Identifier(DELETED)))
    if left_out:
        own.append(SQL("ADD COLUMN {} jsonb NOT NULL").format(Identifier(LEFT_OUT)))
    for name in optional:
        reasons: list[Composable] = [Identifier(DELETED)] if changes else []
        if name in left_out:
            reasons.append(SQL("jsonb_exists({}, {})").format(Identifier(LEFT_OUT), Literal(name)))
        if reasons:
            given = SQL("{} IS NOT NULL").format(Identifier(name))
            own.append(SQL("ALTER COLUMN {} DROP NOT NULL").format(Identifier(name)))
            own.append(SQL("ADD CHECK ({})").format(SQL(" OR ").join([*reasons, given])))
    default = SQL("ALTER TABLE {} ALTER COLUMN {} SET DEFAULT current_setting({})::bigint")
    return [
        SQL("CREATE TABLE {} (LIKE {} INCLUDING CONSTRAINTS)").format(table, Identifier(*target)),
        SQL("ALTER TABLE {} {}").format(table, SQL(", ").join([*drops, *own])),
        # A separate statement: a default in the column's definition would be evaluated at once.
        default.format(table, task, Literal(TASK_SETTING)),
    ]


def copy(staging: Table, columns: Sequence[str]) -> Composed:
    """Return the statement that receives rows as CSV: their position, then the columns."""
    names = SQL(", ").join([Identifier(POSITION), *map(Identifier, columns)])
    return SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(Identifier(*staging), names)


@_with_parameters
def insert_staged(staging: Table, target: Table, columns: Sequence[str]) -> Composed:
    """Return the statement that moves the rows of the tasks in its only parameter to the target."""
    names = _names(columns)
    return SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE {} = ANY(%s)").format(
        Identifier(*target), names, names, Identifier(*staging), Identifier(TASK)
    )


@_with_parameters
def replace_all(staging: Table, target: Table, columns: Sequence[str]) -> Composed:
    """Return the statement that puts the rows of the tasks in its only parameter in the place of all of the target.

    It is one statement, because the server checks at its end that rows of other tables find theirs. It is not TRUNCATE,
    after which a reader with an older snapshot finds an empty table.
    """
    # Counting makes the server delete all rows before it inserts the first.
    return SQL("WITH gone AS (DELETE FROM {} RETURNING 1) {} AND (SELECT count(*) FROM gone) >= 0").format(
        Identifier(*target), insert_staged(staging, target, columns)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """Staged rows that are written to a table by their key.

    The last row of a key counts: the one of the last batch, and within a batch the one with the highest position. The
    statements about them have two parameters for each staging table: the tasks whose rows count, and for each the
    number of its batch.

    Args:
        tables: the staging tables.
        columns: the columns of the rows.
        key: those that identify a row.
        changes: whether a row may be a deletion.
        left_out: the columns that a row may leave out. Such a column has the value of the key's row before, and in the
            end that of the target.
    """

    tables: Sequence[Table]
    columns: Sequence[str]
    key: Sequence[str]
    changes: bool = False
    left_out: Sequence[str] = ()


@_with_parameters
def upsert_staged(rows: StagedRows, target: Table) -> Composed:
    """Return the statement that lets rows replace those of the target, unless they leave out columns."""
    others = [Identifier(name) for name in rows.columns if name not in rows.key]
    action: Composed | SQL = SQL("DO NOTHING")
    if others:
        action = SQL("DO UPDATE SET {}").format(
            SQL(", ").join(SQL("{0} = excluded.{0}").format(name) for name in others)
        )
    last = _last(rows)
    if rows.changes or rows.left_out:
        last = SQL("SELECT {} FROM ({}) AS last WHERE {}").format(
            _names(rows.columns), last, _all(_not_deleted(rows) + _whole(rows))
        )
    return SQL("INSERT INTO {} ({}) {} ON CONFLICT ({}) {}").format(
        Identifier(*target), _names(rows.columns), last, _names(rows.key), action
    )


@_with_parameters
def update_staged(rows: StagedRows, target: Table) -> Composed:
    """Return the statement that lets rows that leave out columns replace the others of the target."""
    others = [name for name in rows.columns if name not in rows.key]
    return SQL("UPDATE {} AS target SET {} FROM ({}) AS last WHERE {}").format(
        Identifier(*target),
        SQL(", ").join(SQL("{} = {}").format(Identifier(name), _value(rows, name, "target")) for name in others),
        _last(rows),
        _all([*_not_deleted(rows), _leaves_out(rows), _same("target", rows.key)]),
    )


@_with_parameters
def unkept_staged(rows: StagedRows, target: Table) -> Composed:
    """Return the query for a row that leaves out columns which the target does not have.

    Its result has the columns of the key, then for each of the columns whether it is left out.
    """
    found = SQL("({} > 0 OR NOT EXISTS (SELECT FROM {} AS target WHERE {}))").format(
        Identifier(_LIFE), Identifier(*target), _same("target", rows.key)
    )
    return SQL("SELECT {} FROM ({}) AS last WHERE {} LIMIT 1").format(
        _names([*rows.key, *_flags(rows)]), _last(rows), _all([*_not_deleted(rows), _leaves_out(rows), found])
    )


@_with_parameters
def exchange_staged(rows: StagedRows, target: Table, kept: Sequence[str]) -> Composed:
    """Return the statement that writes rows, and lets rows of the target exchange unique values.

    It deletes the rows to replace before it inserts any, while an update would meet a value that another row still has.
    It is one statement, because the server checks at its end that rows of other tables find theirs. Its result is the
    number of written rows.

    Args:
        kept: the other columns of the target, which keep their values.
    """
    last = _last(rows)
    if rows.changes:
        last = SQL("SELECT * FROM ({}) AS last WHERE {}").format(last, _all(_not_deleted(rows)))
    # Counting makes the server delete all rows before it inserts the first.
    return SQL(
        "WITH last AS MATERIALIZED ({last}), "
        "gone AS (DELETE FROM {target} AS target USING last WHERE {same_target} RETURNING target.*), "
        "again AS (INSERT INTO {target} ({all}) OVERRIDING SYSTEM VALUE SELECT {values} FROM last JOIN gone ON {same} "
        "WHERE (SELECT count(*) FROM gone) > 0 RETURNING 1), "
        "added AS (INSERT INTO {target} ({names}) SELECT {names} FROM last "
        "WHERE (SELECT count(*) FROM again) >= 0 AND NOT EXISTS (SELECT FROM gone WHERE {same}) RETURNING 1) "
        "SELECT (SELECT count(*) FROM again) + (SELECT count(*) FROM added)"
    ).format(
        last=last,
        target=Identifier(*target),
        same_target=_same("target", rows.key),
        same=_same("gone", rows.key),
        all=_names([*rows.columns, *kept]),
        values=SQL(", ").join(
            [_value(rows, name, "gone") for name in rows.columns] + [Identifier("gone", name) for name in kept]
        ),
        names=_names(rows.columns),
    )


@_with_parameters
def delete_staged(rows: StagedRows, target: Table) -> Composed:
    """Return the statement that deletes the rows of the target whose last staged change is a deletion."""
    last = _last(replace(rows, columns=rows.key, left_out=()))
    return SQL("DELETE FROM {} AS target USING ({}) AS last WHERE last.{} AND {}").format(
        Identifier(*target), last, Identifier(DELETED), _same("target", rows.key)
    )


def _last(rows: StagedRows) -> Composed:
    """Return the query for the last row of each key, with whether it is a deletion and what it leaves out."""
    own = [DELETED] if rows.changes else []
    columns, source = [*rows.columns, *own], SQL("({})").format(_staged(rows, own))
    if rows.left_out:
        columns += [*_flags(rows), _LIFE]
        source = SQL("({})").format(_filled(rows, source))
    return SQL(
        "SELECT DISTINCT ON ({keys}) {names} FROM {source} AS staged ORDER BY {keys}, {batch} DESC, {position} DESC"
    ).format(
        keys=_names(rows.key),
        names=_names(columns),
        source=source,
        batch=Identifier(_BATCH),
        position=Identifier(POSITION),
    )


def _staged(rows: StagedRows, own: Sequence[str]) -> Composed:
    query = SQL(
        "SELECT {names}, {position}, counts.batch AS {batch} FROM {table} "
        "JOIN unnest(%s::bigint[], %s::bigint[]) AS counts (task, batch) ON {task} = counts.task"
    )
    names = _names([*rows.columns, *own, *([LEFT_OUT] if rows.left_out else [])])
    return SQL(" UNION ALL ").join(
        query.format(
            names=names,
            position=Identifier(POSITION),
            batch=Identifier(_BATCH),
            table=Identifier(*table),
            task=Identifier(TASK),
        )
        for table in rows.tables
    )


def _filled(rows: StagedRows, source: Composed) -> Composed:
    """Return rows in which a column that is left out has the value of the last row of its key that does not.

    A row has no value from before a deletion. Rows count the deletions before them; in the end, there is nothing to
    keep of a row that was deleted.
    """
    keys, batch, position = _names(rows.key), Identifier(_BATCH), Identifier(POSITION)
    deleted = Identifier(DELETED) if rows.changes else SQL("false")
    columns: list[Composable] = [Identifier(name) for name in rows.columns if name not in rows.left_out]
    for name, flag in zip(rows.left_out, _flags(rows), strict=True):
        left_out = SQL("jsonb_exists({}, {})").format(Identifier(LEFT_OUT), Literal(name))
        first = SQL(
            "first_value({value}) OVER (PARTITION BY {keys}, {life} "
            "ORDER BY {deleted} OR {left_out}, {batch} DESC, {position} DESC) AS {name}"
        )
        for value, named in ((Identifier(name), name), (left_out, flag)):
            columns.append(
                first.format(
                    value=value,
                    keys=keys,
                    life=Identifier(_LIFE),
                    deleted=deleted,
                    left_out=left_out,
                    batch=batch,
                    position=position,
                    name=Identifier(named),
                )
            )
    own = [Identifier(name) for name in (*([DELETED] if rows.changes else []), _LIFE, _BATCH, POSITION)]
    return SQL(
        "SELECT {columns} FROM (SELECT *, count(*) FILTER (WHERE {deleted}) "
        "OVER (PARTITION BY {keys} ORDER BY {batch}, {position}) AS {life} FROM {source} AS staged) AS numbered"
    ).format(
        columns=SQL(", ").join([*columns, *own]),
        deleted=deleted,
        keys=keys,
        batch=batch,
        position=position,
        life=Identifier(_LIFE),
        source=source,
    )


def _flags(rows: StagedRows) -> list[str]:
    return [f"_streamjob_left_out_{number}" for number in range(len(rows.left_out))]


def _value(rows: StagedRows, name: str, stored: str) -> Composable:
    """Return the new value of a column: the row's own, or the stored one if it leaves it out."""
    if name not in rows.left_out:
        return Identifier("last", name)
    flag = _flags(rows)[list(rows.left_out).index(name)]
    return SQL("CASE WHEN {} THEN {} ELSE {} END").format(
        Identifier("last", flag), Identifier(stored, name), Identifier("last", name)
    )


def _not_deleted(rows: StagedRows) -> list[Composable]:
    return [SQL("NOT last.{}").format(Identifier(DELETED))] if rows.changes else []


def _leaves_out(rows: StagedRows) -> Composable:
    return SQL("({})").format(SQL(" OR ").join(Identifier("last", flag) for flag in _flags(rows)))


def _whole(rows: StagedRows) -> list[Composable]:
    return [SQL("NOT {}").format(_leaves_out(rows))] if rows.left_out else []


def _all(conditions: Sequence[Composable]) -> Composed:
    return SQL(" AND ").join(conditions)


def _names(columns: Sequence[str]) -> Composed:
    return SQL(", ").join(map(Identifier, columns))


def _same(other: str, key: Sequence[str]) -> Composed:
    return SQL(" AND ").join(SQL("{} = {}").format(Identifier(other, name), Identifier("last", name)) for name in key)


def drop(tables: Sequence[Table]) -> Composed:
    """Return the statement that drops staging tables."""
    return SQL("DROP TABLE IF EXISTS {}").format(SQL(", ").join(Identifier(*table) for table in tables))


@_with_parameters
def recorded(schema: str) -> Composed:
    """Return the query for committed ones among some batches; parameters: namespace, job, sink, batches."""
    return SQL(
        "SELECT DISTINCT unnest(batches) FROM {} WHERE namespace = %s AND job = %s AND sink = %s AND batches && %s"
    ).format(Identifier(schema, COMMITS))


@_with_parameters
def staged_rows(staging: Table) -> Composed:
    """Return the query for staged rows as JSON texts; parameter: the tasks that count."""
    table, task = Identifier(*staging), Identifier(TASK)
    own = SQL("ARRAY[{}, {}]").format(Literal(TASK), Literal(POSITION))
    return SQL("SELECT (to_jsonb(s) - {})::text FROM {} AS s WHERE {} = ANY(%s)").format(own, table, task)


@_with_parameters
def measure(staging: Table, columns: Sequence[str]) -> Composed:
    """Return the query for the number of staged rows and the sum of their hashes; parameter: the tasks that count."""
    # Not as JSON, which cannot have each value of these columns.
    row = SQL(", ").join(map(Identifier, columns))
    query = SQL("SELECT count(*), coalesce(sum(hashtextextended(ROW({})::text, 0)), 0) FROM {} WHERE {} = ANY(%s)")
    return query.format(row, Identifier(*staging), Identifier(TASK))


@_with_parameters
def newest(schema: str) -> Composed:
    """Return the query for the checkpoint that was committed last; parameters: namespace, job, sink."""
    return SQL(
        "SELECT checkpoint FROM {} WHERE namespace = %s AND job = %s AND sink = %s ORDER BY number DESC LIMIT 1"
    ).format(Identifier(schema, COMMITS))


@_with_parameters
def record(schema: str) -> Composed:
    """Return the statement that records a commit.

    Parameters: namespace, job, sink, epoch, checkpoint, batches, rows.
    """
    return SQL(
        "INSERT INTO {} (namespace, job, sink, epoch, checkpoint, batches, rows) VALUES (%s, %s, %s, %s, %s, %s, %s)"
    ).format(Identifier(schema, COMMITS))


@_with_parameters
def forget(schema: str) -> Composed:
    """Return the statement that deletes a sink's older records.

    Parameters: namespace, job, sink, the same three again, the number of records to keep.
    """
    return SQL(
        "DELETE FROM {0} WHERE namespace = %s AND job = %s AND sink = %s AND number <= ("
        "SELECT number FROM {0} WHERE namespace = %s AND job = %s AND sink = %s "
        "ORDER BY number DESC OFFSET %s LIMIT 1)"
    ).format(Identifier(schema, COMMITS))
