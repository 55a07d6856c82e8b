"""The statements of the PostgreSQL sink."""

from __future__ import annotations

from psycopg.sql import Composed

from streamjob.ids import Epoch
from streamjob_runtime.sinks.identity import identity_of
from streamjob_runtime.sinks.postgresql import statements

STAGED, TARGET = ("streamjob", "staged_1"), ("public", "Odd name")


def text(statement: Composed) -> str:
    return statement.as_string(None)


def staged(*columns: str, changes: bool = False) -> statements.StagedRows:
    return statements.StagedRows(tables=[STAGED], columns=columns, key=["id"], changes=changes)


def last(*columns: str) -> str:
    names = ", ".join(f'"{column}"' for column in columns)
    return (
        f'SELECT DISTINCT ON ("id") {names} FROM (SELECT {names}, "_streamjob_position", counts.batch AS '
        '"_streamjob_batch" FROM "streamjob"."staged_1" '
        'JOIN unnest(%s::bigint[], %s::bigint[]) AS counts (task, batch) ON "_streamjob_task" = counts.task) AS staged '
        'ORDER BY "id", "_streamjob_batch" DESC, "_streamjob_position" DESC'
    )


def test_rows_are_inserted_from_the_tasks_that_count() -> None:
    assert text(statements.insert_staged(STAGED, TARGET, ["id", 'say "x"'])) == (
        'INSERT INTO "public"."Odd name" ("id", "say ""x""") SELECT "id", "say ""x""" '
        'FROM "streamjob"."staged_1" WHERE "_streamjob_task" = ANY(%s)'
    )


def test_of_several_rows_of_one_key_the_last_replaces_what_is_there() -> None:
    assert text(statements.upsert_staged(staged("id", "n"), TARGET)) == (
        'INSERT INTO "public"."Odd name" ("id", "n") ' + last("id", "n") + " "
        'ON CONFLICT ("id") DO UPDATE SET "n" = excluded."n"'
    )


def test_a_row_of_nothing_but_its_key_replaces_nothing() -> None:
    assert text(statements.upsert_staged(staged("id"), TARGET)).endswith('ON CONFLICT ("id") DO NOTHING')


def test_a_key_whose_last_change_is_a_deletion_is_deleted_and_not_written() -> None:
    assert text(statements.delete_staged(staged("id", "n", changes=True), TARGET)) == (
        'DELETE FROM "public"."Odd name" AS target '
        f"USING ({last('id', '_streamjob_deleted')}) AS last "
        'WHERE last."_streamjob_deleted" AND "target"."id" = "last"."id"'
    )
    assert text(statements.upsert_staged(staged("id", "n", changes=True), TARGET)) == (
        'INSERT INTO "public"."Odd name" ("id", "n") SELECT "id", "n" '
        f"FROM ({last('id', 'n', '_streamjob_deleted')}) AS last "
        'WHERE NOT last."_streamjob_deleted" ON CONFLICT ("id") DO UPDATE SET "n" = excluded."n"'
    )


def test_a_staging_table_tells_its_sink_and_epoch() -> None:
    mine, other = (identity_of("default", "job", sink) for sink in ("a", "b"))
    name = statements.staging_table(mine, Epoch(12), "0123456789ab")

    assert statements.epoch_of(name, mine) == 12
    assert statements.epoch_of(name, other) is None
    assert statements.epoch_of(f"{name}x", mine) is None


def test_the_longest_name_of_a_staging_table_is_one_that_the_server_does_not_cut() -> None:
    identity = identity_of("default", "job", "sink")

    assert len(statements.staging_table(identity, Epoch(10**15), "0123456789ab")) <= 63


def test_the_key_of_a_sinks_lock_is_one_that_the_server_has() -> None:
    assert -(2**63) <= statements.lock_key(identity_of("a", "b", "c")) < 2**63


def test_a_session_tells_its_sink_and_epoch_first() -> None:
    name = statements.application_name("0123456789abcdef", Epoch(7), "a-job-with-a-long-name", "and-a-sink-with-one")

    assert name.split(" ")[:3] == ["streamjob", "0123456789abcdef", "7"]
    assert len(name) == 63
