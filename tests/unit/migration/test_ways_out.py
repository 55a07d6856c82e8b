"""A refusal of changed state names its cause, and each way on that there is."""

from __future__ import annotations

import yaml

from streamjob.ids import OperatorUid
from streamjob.migration.state import Column, Family, KeptState, Wishes
from streamjob.migration.ways_out import reason, ways_out

UIDS = {OperatorUid("counts")}


def kept(*families: str) -> KeptState:
    key, value = (Column("k", "string"),), (Column("count", "bigint"),)
    return KeptState("stateStoreSave", None, tuple(Family("default", name, key, value) for name in families))


def test_a_query_is_blamed_only_if_it_is_for_another_form() -> None:
    state = kept("default")

    assert reason("no", state, Wishes(sql="SELECT 1", of="other")) == (
        f"no; the query under `migrate` is for the form other, and this is {state.fingerprint}"
    )
    for wishes in (Wishes(), Wishes(sql="SELECT 1"), Wishes(sql="SELECT 1", of=state.fingerprint)):
        assert reason("no", state, wishes) == "no"


def test_a_form_can_be_copied_from_the_refusal_into_the_job_file() -> None:
    state = kept("default")

    ways = ways_out(UIDS, state, state)

    given = ways.partition("`migrate: ")[2].partition("`")[0]
    assert yaml.safe_load(given.replace("…", "x")) == {"counts": {"from": state.fingerprint, "sql": "x"}}
    assert "'" in given
    assert "selects (k string, count bigint) from state (k string, count bigint)" in ways


def test_no_query_is_proposed_for_state_of_several_tables() -> None:
    assert "migrate" not in ways_out(UIDS, kept("a", "b"), kept("default"))


def test_what_is_refused_only_for_a_gap_may_start_without_that() -> None:
    state = kept("default")

    assert ways_out(UIDS, state, state, only_strict=True).startswith("start without --strict")
    assert "--strict" not in ways_out(UIDS, state, state)
