"""The sink's SQL statements; pure. Values are parameters, names are quoted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from psycopg.sql import SQL, Composed, Identifier, Literal

from streamjob.ids import Epoch

TASK = "_streamjob_task"
"""Column of a staging table: the task attempt that copied the row."""
POSITION = "_streamjob_position"
"""Column of a staging table: the row's position in its batch, increasing within a partition."""
DELETED = "_streamjob_deleted"
"""Column of a staging table for changes: whether the row with this key is to be deleted."""
_BATCH = "_streamjob_batch"
TASK_SETTING = "streamjob.task"
COMMITS = "commits"

_STAGING_TABLE = re.compile(r"staged_([0-9a-f]{16})_(\d+)_[0-9a-f]{12}")
_LONGEST_APPLICATION_NAME = 63

Table = tuple[str, str]
"""A schema and the name of a table in it."""


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
    staging: Table, target: Table, dropped: Sequence[str], optional: Sequence[str] | None = None
) -> list[Composed]:
    """Return the statements that create a staging table with the target's columns and checks, to fail early.

    The task is a default value read from a setting, so that rows are sent exactly as Spark formed them.

    Args:
        staging: the staging table.
        target: the target.
        dropped: the target's columns that the rows do not have.
        optional: for changes: the columns that refuse NULL, and that a deletion need not have; otherwise None.
    """
    table, task = Identifier(*staging), Identifier(TASK)
    own = [SQL("ADD COLUMN {} bigint NOT NULL").format(name) for name in (task, Identifier(POSITION))]
    drops = [SQL("DROP COLUMN {}").format(Identifier(name)) for name in dropped]
    if optional is not None:
        own.append(SQL("ADD COLUMN {} boolean NOT NULL").format(Identifier(DELETED)))
        for name in map(Identifier, optional):
            own.append(SQL("ALTER COLUMN {} DROP NOT NULL").format(name))
            own.append(SQL("ADD CHECK ({} OR {} IS NOT NULL)").format(Identifier(DELETED), name))
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


def insert_staged(staging: Table, target: Table, columns: Sequence[str]) -> Composed:
    """Return the statement that moves the rows of the tasks in its only parameter to the target."""
    names = _names(columns)
    return SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE {} = ANY(%s)").format(
        Identifier(*target), names, names, Identifier(*staging), Identifier(TASK)
    )


def upsert_staged(
    staged: Sequence[Table], target: Table, columns: Sequence[str], key: Sequence[str], *, changes: bool = False
) -> Composed:
    """Return the statement that lets the last staged row of each key replace that of the target.

    It has two parameters for each staging table: the tasks whose rows count, and for each the number of its batch. The
    last row is the one of the last batch, and within a batch the one with the highest position.

    Args:
        staged: the staging tables.
        target: the target.
        columns: the columns of the rows.
        key: those that identify a row.
        changes: whether a staged row may be a deletion; keys whose last row is one are left out.
    """
    others = [Identifier(name) for name in columns if name not in key]
    replace: Composed | SQL = SQL("DO NOTHING")
    if others:
        replace = SQL("DO UPDATE SET {}").format(
            SQL(", ").join(SQL("{0} = excluded.{0}").format(name) for name in others)
        )
    return SQL("INSERT INTO {} ({}) {} ON CONFLICT ({}) {}").format(
        Identifier(*target), _names(columns), _written(staged, columns, key, changes=changes), _names(key), replace
    )


def exchange_staged(
    staged: Sequence[Table],
    target: Table,
    columns: Sequence[str],
    key: Sequence[str],
    kept: Sequence[str],
    *,
    changes: bool = False,
) -> Composed:
    """Return the statement that does what `upsert_staged` does, and lets rows of the target exchange unique values.

    It deletes the rows to replace before it inserts any, while an update would meet a value that another row still has.
    It is one statement, because the server checks at its end that rows of other tables find theirs. Its result is the
    number of written rows.

    Args:
        staged: the staging tables.
        target: the target.
        columns: the columns of the rows.
        key: those that identify a row.
        kept: the other columns of the target, which keep their values.
        changes: whether a staged row may be a deletion; keys whose last row is one are left out.
    """
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
        last=_written(staged, columns, key, changes=changes),
        target=Identifier(*target),
        same_target=_same("target", key),
        same=_same("gone", key),
        all=_names([*columns, *kept]),
        values=SQL(", ").join(
            [Identifier("last", name) for name in columns] + [Identifier("gone", name) for name in kept]
        ),
        names=_names(columns),
    )


def delete_staged(staged: Sequence[Table], target: Table, key: Sequence[str]) -> Composed:
    """Return the statement that deletes the rows of the target whose last staged change is a deletion.

    It has the parameters of `upsert_staged`.
    """
    return SQL("DELETE FROM {} AS target USING ({}) AS last WHERE last.{} AND {}").format(
        Identifier(*target), _last(staged, [*key, DELETED], key), Identifier(DELETED), _same("target", key)
    )


def _written(staged: Sequence[Table], columns: Sequence[str], key: Sequence[str], *, changes: bool) -> Composed:
    """Return the query for the last row of each key, without deletions."""
    if not changes:
        return _last(staged, columns, key)
    return SQL("SELECT {} FROM ({}) AS last WHERE NOT {}").format(
        _names(columns), _last(staged, [*columns, DELETED], key), Identifier(DELETED)
    )


def _last(staged: Sequence[Table], columns: Sequence[str], key: Sequence[str]) -> Composed:
    rows = SQL(
        "SELECT {names}, {position}, counts.batch AS {batch} FROM {table} "
        "JOIN unnest(%s::bigint[], %s::bigint[]) AS counts (task, batch) ON {task} = counts.task"
    )
    names, position, task = _names(columns), Identifier(POSITION), Identifier(TASK)
    batch = Identifier(_BATCH)
    each = [
        rows.format(names=names, position=position, batch=batch, table=Identifier(*table), task=task)
        for table in staged
    ]
    return SQL(
        "SELECT DISTINCT ON ({keys}) {names} FROM ({rows}) AS staged ORDER BY {keys}, {batch} DESC, {position} DESC"
    ).format(keys=_names(key), names=names, rows=SQL(" UNION ALL ").join(each), batch=batch, position=position)


def _names(columns: Sequence[str]) -> Composed:
    return SQL(", ").join(map(Identifier, columns))


def _same(other: str, key: Sequence[str]) -> Composed:
    return SQL(" AND ").join(SQL("{} = {}").format(Identifier(other, name), Identifier("last", name)) for name in key)


def drop(tables: Sequence[Table]) -> Composed:
    """Return the statement that drops staging tables."""
    return SQL("DROP TABLE IF EXISTS {}").format(SQL(", ").join(Identifier(*table) for table in tables))


def recorded(schema: str) -> Composed:
    """Return the query for committed ones among some batches; parameters: namespace, job, sink, batches."""
    return SQL(
        "SELECT DISTINCT unnest(batches) FROM {} WHERE namespace = %s AND job = %s AND sink = %s AND batches && %s"
    ).format(Identifier(schema, COMMITS))


def staged_rows(staging: Table) -> Composed:
    """Return the query for staged rows as JSON texts; parameter: the tasks that count."""
    table, task = Identifier(*staging), Identifier(TASK)
    return SQL("SELECT (to_jsonb(s) - {0})::text FROM {1} AS s WHERE {2} = ANY(%s)").format(Literal(TASK), table, task)


def newest(schema: str) -> Composed:
    """Return the query for the checkpoint that was committed last; parameters: namespace, job, sink."""
    return SQL(
        "SELECT checkpoint FROM {} WHERE namespace = %s AND job = %s AND sink = %s ORDER BY number DESC LIMIT 1"
    ).format(Identifier(schema, COMMITS))


def record(schema: str) -> Composed:
    """Return the statement that records a commit.

    Parameters: namespace, job, sink, epoch, checkpoint, batches, rows.
    """
    return SQL(
        "INSERT INTO {} (namespace, job, sink, epoch, checkpoint, batches, rows) VALUES (%s, %s, %s, %s, %s, %s, %s)"
    ).format(Identifier(schema, COMMITS))


def forget(schema: str) -> Composed:
    """Return the statement that deletes a sink's older records.

    Parameters: namespace, job, sink, the same three again, the number of records to keep.
    """
    return SQL(
        "DELETE FROM {0} WHERE namespace = %s AND job = %s AND sink = %s AND number <= ("
        "SELECT number FROM {0} WHERE namespace = %s AND job = %s AND sink = %s "
        "ORDER BY number DESC OFFSET %s LIMIT 1)"
    ).format(Identifier(schema, COMMITS))
