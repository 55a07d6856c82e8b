"""Reads a table's properties, and a role's rights to it, from the server's catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString

from streamjob_runtime.sinks.postgresql.column_types import TableColumn
from streamjob_runtime.sinks.postgresql.sessions import Connection
from streamjob_runtime.sinks.rows.column_mismatches import Mismatch

_NUMERIC_SCALE_BITS = 0x7FF

_TABLE: LiteralString = """
SELECT c.oid, n.nspname, c.relname, c.relkind,
       has_table_privilege(c.oid, 'SELECT'),
       has_table_privilege(c.oid, 'INSERT') OR has_any_column_privilege(c.oid, 'INSERT'),
       has_table_privilege(c.oid, 'UPDATE') OR has_any_column_privilege(c.oid, 'UPDATE'),
       has_table_privilege(c.oid, 'DELETE')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %(table)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND CASE WHEN %(schema)s::text IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = %(schema)s END
"""
_COLUMNS: LiteralString = """
WITH RECURSIVE based AS (
  SELECT a.attnum, a.atttypid AS type, a.atttypmod AS modifier FROM pg_attribute a
  WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.attnum, t.typbasetype, CASE WHEN b.modifier = -1 THEN t.typtypmod ELSE b.modifier END
  FROM based b JOIN pg_type t ON t.oid = b.type AND t.typtype = 'd'
)
SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typname, b.modifier, t.typtype = 'e',
       a.attnotnull OR own.typnotnull, a.atthasdef OR a.attidentity <> '' OR own.typdefault IS NOT NULL,
       a.attgenerated <> '' OR a.attidentity = 'a',
       has_column_privilege(a.attrelid, a.attnum, 'INSERT')
FROM pg_attribute a JOIN pg_type own ON own.oid = a.atttypid
JOIN based b ON b.attnum = a.attnum JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd'
WHERE a.attrelid = %(oid)s ORDER BY a.attnum
"""
_UNIQUE: LiteralString = """
SELECT array_agg(a.attname) FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = %(oid)s AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid
"""
_STORED: LiteralString = """
SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
"""
_FOLLOWERS: LiteralString = """
SELECT c.conname, c.conrelid::regclass::text FROM pg_constraint c
WHERE c.contype = 'f' AND c.confdeltype IN ('c', 'n', 'd')
  AND c.confrelid IN (SELECT %(oid)s::oid UNION SELECT relid FROM pg_partition_tree(%(oid)s::oid::regclass))
"""
_REFERENCES: LiteralString = """
SELECT conrelid, confrelid FROM pg_constraint
WHERE contype = 'f' AND conrelid = ANY(%(oids)s) AND confrelid = ANY(%(oids)s)
"""
_KNOWS_CLUSTER: LiteralString = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')"
_CLUSTER_AND_DATABASE: LiteralString = """
SELECT c.system_identifier, d.oid FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()
"""
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table as the catalog knows it.

    Args:
        oid: its number in the catalog.
        kind: PostgreSQL's letter for the kind of relation.
        columns: its columns in order.
        unique: the columns of each unique index that covers all rows and is checked immediately.
        readable: whether the role may read it.
        insertable: whether the role may insert rows.
        updatable: whether the role may update rows.
        deletable: whether the role may delete rows.
    """

    oid: int
    schema: str
    name: str
    kind: str
    columns: tuple[TableColumn, ...]
    unique: tuple[frozenset[str], ...]
    readable: bool
    insertable: bool
    updatable: bool
    deletable: bool

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.schema}.{self.name}"

    def refusals(self, *, replace: bool) -> Iterator[Mismatch]:
        """Yield the reasons why a sink cannot write to it at all; `replace`: rows replace those of the same key."""
        if self.kind in _KINDS:
            yield Mismatch(f"is {_KINDS[self.kind]}", "name a table, which may be partitioned")
            return
        needed = [("SELECT", self.readable), ("INSERT", self.insertable)]
        if replace:
            needed.append(("UPDATE", self.updatable))
        yield from self._missing_rights(needed)

    def deletion_refusals(self) -> Iterator[Mismatch]:
        """Yield the reasons why a sink cannot delete rows of it."""
        yield from self._missing_rights([("DELETE", self.deletable)])

    def _missing_rights(self, needed: Sequence[tuple[str, bool]]) -> Iterator[Mismatch]:
        if missing := [right for right, given in needed if not given]:
            rights = ", ".join(missing)
            yield Mismatch(
                f"does not give the role the right to {rights}", f"GRANT {rights} ON {self.label} TO the role"
            )


def find_table(connection: Connection, schema: str | None, table: str) -> TargetTable | None:
    """Return a table; without a schema, the first one in the search path. None if there is none."""
    found = connection.execute(_TABLE, {"schema": schema, "table": table}).fetchone()
    if found is None:
        return None
    oid, schema, name, kind, readable, insertable, updatable, deletable = found
    found_columns = connection.execute(_COLUMNS, {"oid": oid}).fetchall()
    columns = tuple(
        TableColumn(
            name=column,
            type_name=type_name,
            base=base,
            scale=_scale(modifier) if base == "numeric" else None,
            is_enum=is_enum,
            not_null=not_null,
            has_default=has_default,
            generated=generated,
            writable=writable,
        )
        for column, type_name, base, modifier, is_enum, not_null, has_default, generated, writable in found_columns
    )
    unique = tuple(frozenset(names) for (names,) in connection.execute(_UNIQUE, {"oid": oid}))
    return TargetTable(oid, str(schema), name, kind, columns, unique, readable, insertable, updatable, deletable)


def id_of(connection: Connection, table: TargetTable) -> str | None:
    """Return a table's id, with those of its database and cluster; None if the role may not read the cluster's.

    The replicas of a cluster have the same ids. A cluster that was restored from a dump has others.
    """
    if connection.execute(_KNOWS_CLUSTER).fetchone() != (True,):
        return None
    (found,) = connection.execute(_CLUSTER_AND_DATABASE)
    return f"{found[0]}/{found[1]}/{table.oid}"


def stored_columns(connection: Connection, table: TargetTable) -> list[str]:
    """Return the columns of a table that it does not compute."""
    return [name for (name,) in connection.execute(_STORED, (table.oid,))]


def followers(connection: Connection, table: TargetTable) -> list[tuple[str, str]]:
    """Return the foreign keys that change or delete their rows when a row of a table is deleted, and their tables."""
    return connection.execute(_FOLLOWERS, {"oid": table.oid}).fetchall()


def references(connection: Connection, tables: Iterable[TargetTable]) -> set[tuple[int, int]]:
    """Return which of some tables refer to which others, as pairs of their numbers in the catalog."""
    return set(connection.execute(_REFERENCES, {"oids": [table.oid for table in tables]}))


def _scale(modifier: int) -> int | None:
    """Return the number of digits after the decimal point from the packed type modifier of a numeric."""
    if modifier < 4:
        return None
    scale = (modifier - 4) & _NUMERIC_SCALE_BITS
    return scale if scale < 1024 else scale - 2048
