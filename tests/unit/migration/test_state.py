"""The state of an operator has a short name of its own, and its migration says what moves and what the author says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests import jobs
from tests.unit.migration.test_kinds import columns, form

from streamjob.ids import OperatorUid
from streamjob.migration.state import Family, FamilyMigration, KeptState, Migration, Wishes, wishes_of

TABLE = Family("default", "default", columns("k string; n int"), columns("count bigint"))
STATE = KeptState("stateStoreSave", form("aggregation"), (TABLE,))


def test_the_same_state_has_the_same_short_name() -> None:
    again = KeptState("stateStoreSave", form("aggregation"), (replace(TABLE),))

    # Job files have such names, so that they never change.
    assert STATE.fingerprint == again.fingerprint == "e87113e4"


@pytest.mark.parametrize(
    "other",
    [
        replace(STATE, operator="dedupe"),
        replace(STATE, form=form("deduplication")),
        replace(STATE, form=None),
        *(
            replace(STATE, families=(family,))
            for family in (
                replace(TABLE, store="left"),
                replace(TABLE, name="open"),
                replace(TABLE, key=columns("k string; m int")),
                replace(TABLE, key=columns("k string; n bigint")),
                replace(TABLE, value=columns("sum bigint")),
                replace(TABLE, value=columns("count int")),
            )
        ),
        replace(STATE, families=(TABLE, replace(TABLE, name="open"))),
    ],
)
def test_other_state_has_another_short_name(other: KeptState) -> None:
    assert other.fingerprint != STATE.fingerprint


def test_a_job_says_what_happens_to_the_state_of_one_operator() -> None:
    a, b, c, d = map(OperatorUid, "abcd")
    spec = jobs.job_spec(
        jobs.sql("a", "events", renames={"x": "y"}),
        jobs.sql("b", "a", renames={"v": "w"}),
        jobs.sql("c", "b", renames={"p": "q"}),
        jobs.sql("d", "c"),
        migrate={"a": {"sql": "SELECT 1"}, "b": {"from": "3f2a", "sql": "SELECT 2"}, "d": {"from": "3f2b"}},
    )

    assert wishes_of(spec, {c}) == Wishes({"p": "q"})
    assert wishes_of(spec, {b}) == Wishes({"v": "w"}, {"state": "SELECT 2"}, "3f2a")
    assert wishes_of(spec, {c, b}) == Wishes({"v": "w", "p": "q"}, {"state": "SELECT 2"}, "3f2a")
    assert wishes_of(spec, {a}).of is None
    assert wishes_of(spec, {d}) == Wishes(of="3f2b")


def test_what_happens_is_said_before_what_is_missing() -> None:
    assert Migration((), ("this", "that"), ("a gap",)).in_words == "this; that; a gap"
    assert Migration((), (), ("a gap",)).in_words == "a gap"
    assert Migration((), ()).in_words == "its columns get new names"


def test_queries_are_one_text_with_the_tables_of_which_there_are_several() -> None:
    assert Migration((), (), sql={"state": "SELECT 1"}).query == "SELECT 1"
    assert Migration((), (), sql={"open": "SELECT 1", "timers": "SELECT 2"}).query == "open: SELECT 1\ntimers: SELECT 2"
    assert Migration((), ()).query is None


OPEN, LEFT = replace(TABLE, name="open"), replace(TABLE, store="left")
SAME = FamilyMigration(TABLE, TABLE, ("key.k0", "key.k1"), ("value.v0",))


@pytest.mark.parametrize(
    ("stays", "migration"),
    [
        (True, Migration((SAME,), ())),
        (True, Migration((SAME, replace(SAME, target=LEFT)), ())),
        (True, Migration((SAME, FamilyMigration(OPEN, None)), ())),
        (False, Migration((SAME, replace(SAME, target=OPEN)), ())),
        (False, Migration((FamilyMigration(TABLE, None),), ())),
        (False, Migration((replace(SAME, target=LEFT),), ())),
        (False, Migration((replace(SAME, key=("key.k1", "key.k0")),), ())),
        (False, Migration((replace(SAME, key=("CAST(key.k0 AS bigint)", "key.k1")),), ())),
        (False, Migration((replace(SAME, merged=("sum(v0)",)),), ())),
        (False, Migration((SAME,), (), sql={"open": "SELECT 1"})),
    ],
)
def test_rows_stay_in_their_partitions_only_if_they_follow_from_one_table_by_the_same_keys(
    stays: bool, migration: Migration
) -> None:
    assert migration.keeps_places("default") is stays
