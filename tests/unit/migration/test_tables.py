"""A variable of a Python function is a table for a query, from which all that Spark keeps for it follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.unit.migration.test_kinds import columns, expiring, form, joined, kept, listed, mapped, timers, value

from streamjob.migration.planning import plan
from streamjob.migration.state import Family, KeptState, NotCarried, Wishes
from streamjob.migration.tables import Table, tables_in_words, tables_of

Stored = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
NOTHING = ("CAST(NULL AS int)",)
MILLIS = "coalesce(unix_millis(`expires`), raise_error('expires cannot be NULL'))"


def written(table: Table) -> Mapping[str, Stored]:
    return {each.target.name: (each.key, each.value, each.by) for each in table.families}


def read(table: Table) -> list[str]:
    return [f"{each.name} {each.type} = {each.read}" for each in table.columns]


def test_a_value_is_a_row_for_each_key() -> None:
    (table,) = tables_of(kept(value("open", "n int; k string"))).values()

    assert read(table) == ["k string = key.k0", "n int = value.v0", "k_2 string = value.v1"]
    assert written(table) == {"open": (("`k`",), ("`n`", "`k_2`"), ())}


def test_an_element_of_a_list_is_a_row_with_its_position_and_is_counted() -> None:
    (table,) = tables_of(kept(listed("open", "n int"))).values()

    assert read(table)[2] == (
        "position bigint = CAST(row_number() OVER (PARTITION BY key ORDER BY place) - 1 AS bigint)"
    )
    key, (counted,), by = written(table)["$rowCounter_open"]
    assert written(table)["open"] == (("`k`",), ("`n`",), ())
    assert (key, by) == (("`k`",), ("`k`",))
    assert counted.startswith("IF(count(*) = count(DISTINCT `position`), count(*), raise_error(")
    assert table.order == ("`k`", "`position`")


def test_the_error_of_equal_positions_names_a_variable_with_any_letters() -> None:
    name = "o'brien\\'"
    (table,) = tables_of(kept(listed(name, "n int"))).values()

    (_, (counted,), _) = written(table)[f"$rowCounter_{name}"]
    assert counted.endswith(r"raise_error('elements of `o\'brien\\\'` have the same position, or none'))")


def test_a_key_of_a_map_is_a_part_of_the_key() -> None:
    (table,) = tables_of(kept(mapped("open", "n int", user="u:int,k:int"))).values()

    assert read(table) == [
        "k string = key.k0.`k`",
        "u int = key.k1.`u`",
        "k_2 int = key.k1.`k`",
        "n int = value.v0",
    ]
    assert written(table) == {"open": (("struct(`k`)", "struct(`u`, `k_2`)"), ("`n`",), ())}


def test_a_query_reads_when_values_expire() -> None:
    def family(name: str, key: str, of: str) -> Family:
        return Family("default", name, columns(key), columns(of))

    index = "expirationMs bigint; elementKey struct<k:string>"
    state = kept(
        [family("a", "k string", "value struct<n:int>; ttlExpirationMs bigint")],
        [family("$ttl_a", index, "__empty__ void")],
        expiring("l", "n:int"),
    )

    found = tables_of(state)

    assert read(found["a"])[1:] == ["n int = value.v0.`n`", "expires timestamp = timestamp_millis(value.v1)"]
    assert [each.partition(" ")[0] for each in read(found["l"])] == ["k", "n", "expires", "position"]


def test_timers_are_a_table_that_is_written_by_keys_and_by_times() -> None:
    found = tables_of(kept(value("timers", "n int"), timers("a:string,b:int")))

    assert tables_in_words({"timers_2": found["timers_2"]}) == "timers_2 (a string, b int, expires timestamp)"
    assert written(found["timers_2"]) == {
        "$eventTimers_keyToTimestamp": (("struct(`a`, `b`)", MILLIS), NOTHING, ()),
        "$eventTimers_timestampToKey": ((MILLIS, "struct(`a`, `b`)"), NOTHING, ()),
    }


def test_timers_of_processing_time_are_a_table_as_well() -> None:
    of_timer = columns("key struct<k:string>; expiryTimestampMs bigint")
    both = [
        Family("default", f"$procTimers_{name}", key, columns("__dummy__ void"))
        for name, key in {"timestampToKey": of_timer[::-1], "keyToTimestamp": of_timer}.items()
    ]

    assert [*tables_of(kept(both))] == ["timers"]


def test_a_column_without_content_is_not_in_the_table() -> None:
    family = Family("default", "default", columns("k string"), columns("__dummy__ void"))
    (table,) = tables_of(KeptState("dedupe", form("deduplication"), (family,))).values()

    assert read(table) == ["k string = key.k0"]
    assert written(table) == {"default": (("`k`",), NOTHING, ())}


def test_columns_of_one_name_have_numbers_in_a_table_of_their_own() -> None:
    family = Family("default", "default", columns("k string"), columns("max int; max int"))
    (table,) = tables_of(KeptState("stateStoreSave", form("aggregation"), (family,))).values()

    assert read(table) == ["k string = key.k0", "max int = value.v0", "max_2 int = value.v1"]
    assert written(table) == {"default": (("`k`",), ("`max`", "`max_2`"), ())}


def test_state_of_several_tables_that_are_no_sides_of_a_join_is_no_table_for_a_query() -> None:
    stores = side(["k = k"], "k").families
    in_one = KeptState(
        "symmetricHashJoin", form("join", on=["k = k"]), tuple(replace(each, store="") for each in stores)
    )

    for state in (in_one, KeptState("dedupe", form("deduplication"), stores[:2])):
        with pytest.raises(NotCarried, match="its state is not one table"):
            tables_of(state)


def test_tables_without_a_query_follow_by_themselves() -> None:
    before = kept(value("n", "n int"), value("had", "s string"), timers())
    after = kept(value("n", "n bigint"), listed("has", "s string"), timers())

    found = plan(before, after, Wishes(sql={"has": "SELECT 1"}), None)

    sources = {each.target.name: each.source.name if each.source else None for each in found.families}
    assert sources["n"] == "n"
    assert sources["has"] is sources["$rowCounter_has"] is None
    assert sources["$eventTimers_timestampToKey"] == "$eventTimers_timestampToKey"
    assert found.said[0] == "its has is what the query under `migrate` makes of it"
    assert "its variable 'had' is dropped" in found.said
    assert found.gaps == ()
    assert found.query == "has: SELECT 1"


def test_a_table_without_a_query_may_begin_without_values() -> None:
    before, after = kept(value("n", "n int")), kept(value("n", "n string"), value("m", "m int"))

    (gap,) = plan(before, after, Wishes(sql={"n": "SELECT 1"}), None).gaps

    assert gap == "its variable 'm' is new, and has no value in the state that is there"


def test_a_table_without_a_query_that_does_not_follow_is_refused() -> None:
    before = kept(value("n", "n int"), value("m", "n int"))
    after = kept(value("n", "n string"), value("m", "n string"))

    with pytest.raises(NotCarried, match="'n' of its variable 'm' was of type int"):
        plan(before, after, Wishes(sql={"n": "SELECT 1"}), None)


def test_a_variable_that_expires_is_not_returned_by_a_query() -> None:
    before, after = kept(expiring("l", "n:int")), kept(expiring("l", "n:string"))

    with pytest.raises(NotCarried, match="its l has a time to live"):
        plan(before, after, Wishes(sql={"l": "SELECT 1"}), None)


def test_timers_of_another_clock_follow_by_a_query() -> None:
    before = kept(value("n", "n int"), timers())
    after = kept(value("n", "n int"), timers(), mode="ProcessingTime")

    with pytest.raises(NotCarried, match="its time mode was EventTime"):
        plan(before, after, Wishes(sql={"n": "SELECT 1"}), None)
    assert plan(before, after, Wishes(sql={"timers": "SELECT 1"}), None).families


def test_a_query_for_a_table_that_is_not_there_is_refused() -> None:
    before, after = kept(value("n", "n int")), kept(value("n", "n string"), timers())

    with pytest.raises(NotCarried, match="are to return more, state, and not its n, timers"):
        plan(before, after, Wishes(sql={"state": "SELECT 1", "more": "SELECT 1"}), None)


def side(on: list[str], *names: str) -> KeptState:
    rows = columns("; ".join(f"{name} int" for name in (*names, "matched")))
    stores = [
        Family(f"{each}-{kind}", "default", columns(key), of)
        for each in ("left", "right")
        for kind, key, of in (
            ("keyToNumValues", "field0 string", columns("value bigint")),
            ("keyWithIndexToValue", "field0 string; index bigint", rows),
        )
    ]
    return KeptState("symmetricHashJoin", form("join", on=on), tuple(stores))


def test_a_row_of_a_side_of_a_join_gets_its_key_from_its_columns() -> None:
    found = tables_of(side(["k = upper(k)"], "k", "n"))

    assert read(found["right_side"]) == ["k int = value.v0", "n int = value.v1", "matched int = value.v2"]
    key = "CAST(upper(k) AS string)"
    (rows, counts) = found["right_side"].families
    assert (rows.target.store, counts.target.store) == ("right-keyWithIndexToValue", "right-keyToNumValues")
    assert rows.key == (key, f"CAST(row_number() OVER (PARTITION BY {key} ORDER BY {key}) - 1 AS bigint)")
    assert rows.value == ("`k`", "`n`", "`matched`")
    assert (counts.key, counts.value, counts.by) == ((key,), ("count(*)",), (key,))
    assert found["left_side"].families[1].key == ("CAST(k AS string)",)


@pytest.mark.parametrize(
    "state",
    [side(["k = k"], "k", "k"), side(["concat(k, ' = ') = k"], "k"), side([], "k"), joined()],
    ids=["two of a name", "no two expressions", "no key", "of an older version"],
)
def test_a_side_whose_keys_do_not_follow_from_its_rows_is_no_table(state: KeptState) -> None:
    with pytest.raises(NotCarried, match="do not follow from its rows"):
        tables_of(state)
