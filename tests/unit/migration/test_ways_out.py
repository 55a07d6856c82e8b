"""A refusal of changed state names its cause, and each way on that there is."""

from __future__ import annotations

import yaml

from streamjob.ids import OperatorUid
from streamjob.migration.state import Column, Family, KeptState, Wishes
from streamjob.migration.ways_out import reason, ways_out

UIDS = {OperatorUid("counts")}
QUERY = {"state": "SELECT 1"}


def kept(*families: str) -> KeptState:
    key, value = (Column("k", "string"),), (Column("count", "bigint"),)
    return KeptState("stateStoreSave", None, tuple(Family("default", name, key, value) for name in families))


def test_a_query_is_blamed_only_if_it_is_for_another_form() -> None:
    state = kept("default")

    assert reason("no", state, Wishes(sql=QUERY, of="other")) == (
        f"no; the query under `migrate` is for the form other, and this is {state.fingerprint}"
    )
    for wishes in (Wishes(), Wishes(sql=QUERY), Wishes(sql=QUERY, of=state.fingerprint)):
        assert reason("no", state, wishes) == "no"


def test_a_form_can_be_copied_from_the_refusal_into_the_job_file() -> None:
    state = kept("default")

    ways = ways_out(UIDS, state, state)

    given = ways.partition("`migrate: ")[2].partition("`")[0]
    assert yaml.safe_load(given.replace("…", "x")) == {"counts": {"from": state.fingerprint, "sql": "x"}}
    assert "'" in given
    assert "selects (k string, count bigint) from state (k string, count bigint)" in ways


def test_a_query_is_proposed_for_each_variable_and_the_timers() -> None:
    of_timer = (Column("key", "struct<k:string>"), Column("expiryTimestampMs", "bigint"))
    timers = tuple(
        Family("default", f"$eventTimers_{name}", key, (Column("__dummy__", "void"),))
        for name, key in {"timestampToKey": of_timer[::-1], "keyToTimestamp": of_timer}.items()
    )
    before = KeptState("transformWithStateInPySparkExec", None, kept("on").families)
    after = KeptState("transformWithStateInPySparkExec", None, (*kept("on", "more").families, *timers))

    ways = ways_out(UIDS, before, after)

    given, _, told = ways.partition("`migrate: ")[2].partition("`")
    queries = {"on": "x", "more": "x", "timers": "x"}
    assert yaml.safe_load(given.replace("…", "x")) == {"counts": {"from": before.fingerprint, "sql": queries}}
    assert told == (
        " with queries (none for a table that follows by itself) that select on (k string, count bigint), "
        "more (k string, count bigint), timers (k string, expires timestamp) from on (k string, count bigint)"
    )


def test_no_query_is_proposed_for_state_that_is_no_table() -> None:
    assert "migrate" not in ways_out(UIDS, kept("a", "b"), kept("default"))


def test_what_is_refused_only_for_a_gap_may_start_without_that() -> None:
    state = kept("default")

    assert ways_out(UIDS, state, state, only_strict=True).startswith("start without --strict")
    assert "--strict" not in ways_out(UIDS, state, state)
