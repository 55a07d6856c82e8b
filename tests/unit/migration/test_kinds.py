"""The state of joins and of Python functions follows from its former state by the names of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from streamjob.comparison.state_forms import differences
from streamjob.migration.by_name import fields, matched
from streamjob.migration.kinds import continues, group_state, join, variables
from streamjob.migration.planning import plan
from streamjob.migration.state import Column, Family, KeptState, Migration, NotCarried, Wishes
from streamjob.snapshot.state_form import KeyForm, StateForm, WindowForm


def columns(text: str) -> tuple[Column, ...]:
    """Return columns from `n bigint; s struct<a:int>`."""
    return tuple(Column(name, kind) for name, _, kind in (each.strip().partition(" ") for each in text.split(";")))


def form(kind: str, **parameters: Any) -> StateForm:
    return StateForm(kind=kind, keys=(), aggregates=(), parameters=parameters)


def grouped(state: str, timeout: str = "EventTimeTimeout", key: str = "k string") -> KeptState:
    value = f"groupState struct<{state}>" + ("" if timeout == "NoTimeout" else "; timeoutTimestamp bigint")
    family = Family("default", "default", columns(key), columns(value))
    return KeptState("applyInPandasWithState", form("groupState", state=state, timeout=timeout), (family,))


def expressions(migration: Migration, store: str = "default", family: str = "default") -> tuple[Any, Any]:
    """Return the expressions of the key and of the value of a table."""
    (found,) = (each for each in migration.families if (each.target.store, each.target.name) == (store, family))
    return found.key, found.value


HELD = "value.v0"


def held(*parts: str) -> str:
    inner = ", ".join(f"'f{number}', {each}" for number, each in enumerate(parts))
    return f"IF({HELD} IS NULL, NULL, named_struct({inner}))"


@pytest.mark.parametrize(
    ("before", "after", "renames", "expected", "said", "gap"),
    [
        pytest.param(
            "n:int,total:bigint",
            "n:bigint,total:bigint",
            {},
            held(f"CAST({HELD}.`n` AS bigint)", f"{HELD}.`total`"),
            "'n' of its state of type int becomes bigint",
            None,
            id="widened",
        ),
        pytest.param(
            "a`b:int",
            "a`b:bigint",
            {},
            held(f"CAST({HELD}.`a``b` AS bigint)"),
            "'a`b' of its state of type int becomes bigint",
            None,
            id="a name with a backtick",
        ),
        pytest.param(
            "n:int,total:bigint",
            "number:int,total:bigint",
            {"n": "number"},
            held(f"{HELD}.`n`", f"{HELD}.`total`"),
            "'n' of its state is called 'number'",
            None,
            id="renamed",
        ),
        pytest.param(
            "a:int,b:int",
            "b:int,a:int",
            {},
            held(f"{HELD}.`b`", f"{HELD}.`a`"),
            "the columns of its state are put into their new order",
            None,
            id="reordered",
        ),
        pytest.param(
            "a:int,b:int",
            "b:int,a:int",
            {"a": "b", "b": "a"},
            held(f"{HELD}.`a`", f"{HELD}.`b`"),
            "'a' of its state is called 'b'",
            None,
            id="names change places",
        ),
        pytest.param(
            "n:int,total:bigint",
            "total:bigint",
            {},
            held(f"{HELD}.`total`"),
            "'n' of its state is dropped",
            None,
            id="removed",
        ),
        pytest.param(
            "n:int",
            "n:int,high:decimal(6,2)",
            {},
            held(f"{HELD}.`n`", "CAST(NULL AS decimal(6,2))"),
            None,
            "'high' of its state is NULL in the state that is there",
            id="added",
        ),
        pytest.param(
            "at:struct<x:decimal(6,2),y:float>,n:int",
            "n:int,at:struct<y:double,x:decimal(6,2)>",
            {},
            held(
                f"{HELD}.`n`",
                f"IF({HELD}.`at` IS NULL, NULL, named_struct('f0', CAST({HELD}.`at`.`y` AS double), "
                f"'f1', {HELD}.`at`.`x`))",
            ),
            "'y' of its state of type float becomes double",
            None,
            id="in a struct",
        ),
    ],
)
def test_columns_of_a_functions_state_follow_by_their_names(
    before: str, after: str, renames: Mapping[str, str], expected: str, said: str | None, gap: str | None
) -> None:
    found = group_state(grouped(before), grouped(after), renames)

    assert expressions(found) == (("key.k0",), (expected, "value.v1"))
    assert said is None or said in found.said
    assert found.gaps == (() if gap is None else (gap,))


def test_only_what_happens_is_said_of_a_column_that_is_dropped() -> None:
    assert group_state(grouped("n:int,total:bigint"), grouped("total:bigint"), {}).said == (
        "'n' of its state is dropped",
    )


def test_a_key_of_a_function_that_was_rounded_may_be_another_one() -> None:
    (gap,) = group_state(grouped("n:int", key="x float"), grouped("n:int", key="x double"), {}).gaps

    assert gap.startswith("'x' of its key was of type float")


def test_a_column_is_taken_for_a_renamed_one_only_if_its_type_has_room() -> None:
    with pytest.raises(NotCarried, match="'n' of its state is gone, and 'm' is there"):
        group_state(grouped("n:int"), grouped("m:bigint"), {})

    found = group_state(grouped("n:bigint"), grouped("m:int"), {})
    assert (found.said, len(found.gaps)) == (("'n' of its state is dropped",), 1)


def test_a_rename_is_meant_for_the_table_that_has_both_names() -> None:
    assert matched("it", ["n"], ["n", "price"], {"n": "price"}) == {"n": "n"}
    assert matched("it", ["b"], ["b"], {"a": "b", "b": "c"}) == {"b": "b"}
    assert matched("it", ["a", "b"], ["b", "c"], {"a": "b", "b": "c"}) == {"b": "a", "c": "b"}


def test_only_a_struct_has_fields() -> None:
    assert fields("struct<a:int,b:struct<c:decimal(6,2)>>") == (
        Column("a", "int"),
        Column("b", "struct<c:decimal(6,2)>"),
    )
    assert fields("array<struct<a:int>>") is None
    assert fields("int") is None


def test_a_function_that_gets_a_timeout_has_set_none() -> None:
    found = group_state(grouped("n:int", "NoTimeout"), grouped("n:int"), {})
    assert expressions(found)[1] == (HELD, "-1L")
    assert "none is set" in found.said[0]

    back = group_state(grouped("n:int"), grouped("n:int", "NoTimeout"), {})
    assert expressions(back)[1] == (HELD,)
    assert "timeouts that are set are dropped" in back.said[0]


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (grouped("n:int", "ProcessingTimeTimeout"), "another clock"),
        (grouped("n:struct<x:int>"), "'n' of its state was of type int, and is of type struct<x:int>"),
        (grouped("n:string"), "'n' of its state was of type int, and is of type string"),
        (
            grouped("number:int"),
            "'n' of its state is gone, and 'number' is there: whether it is the same under another name, only",
        ),
        (grouped("n:int", key="k string; j string"), r"its key had the columns \(k string\), and has"),
    ],
)
def test_other_state_of_a_function_is_not_carried_over(after: KeptState, reason: str) -> None:
    with pytest.raises(NotCarried, match=reason):
        group_state(grouped("n:int"), after, {})


def test_a_variable_that_is_removed_is_not_taken_for_one_that_was_there() -> None:
    found = variables(kept(value("n", "n int"), value("m", "n int")), kept(value("n", "n int")), {})

    assert found.said == ("its variable 'm' is dropped",)


def test_variables_of_another_kind_of_operator_are_carried_over_only_as_they_are() -> None:
    state = kept(value("n", "n int"))
    other = replace(state, operator="transformWithStateExec")

    for before, after in ((state, other), (other, state), (other, other)):
        with pytest.raises(NotCarried, match="is carried over only as it is"):
            variables(before, after, {})


def test_a_plan_leads_from_the_former_state_to_the_new_one() -> None:
    for before, after in (
        (grouped("n:int"), grouped("n:bigint")),
        (joined(), joined("at timestamp; n int; k string")),
        (kept(value("n", "n int")), kept(value("n", "n bigint"))),
    ):
        found = plan(before, after, Wishes(), None)
        assert [(each.source, each.target) for each in found.families] == [
            *zip(before.families, after.families, strict=True)
        ]


def test_a_struct_does_not_become_a_column_of_another_type() -> None:
    with pytest.raises(NotCarried, match="'n' of its state was of type struct<x:int>, and is of type int"):
        group_state(grouped("n:struct<x:int>"), grouped("n:int"), {})


def test_a_function_that_is_called_for_fewer_columns_has_other_state() -> None:
    with pytest.raises(NotCarried, match=r"its key had the columns \(k string, j string\), and has \(k string\)"):
        group_state(grouped("n:int", key="k string; j string"), grouped("n:int"), {})


LEFT, RIGHT = "k string; n int; at timestamp", "k string; price float"


def joined(
    left: str = LEFT, right: str = RIGHT, key: str = "string", kind: str = "INNER", keeps: Any = 60
) -> KeptState:
    families = []
    for side, row in (("left", left), ("right", right)):
        index = f"field0 {key}; index bigint"
        families.append(Family(f"{side}-keyToNumValues", "default", columns(f"field0 {key}"), columns("value bigint")))
        value = columns(f"{row}; matched boolean")
        families.append(Family(f"{side}-keyWithIndexToValue", "default", columns(index), value))
    parameters = {"type": kind, "leftKeepsMs": keeps, "rightKeepsMs": 1}
    return KeptState("symmetricHashJoin", form("join", **parameters), tuple(families))


def test_the_rows_of_a_side_of_a_join_follow_by_the_names_of_their_columns() -> None:
    found = join(joined(), joined("at timestamp; key string", "k string; price double"), {"k": "key"})

    assert expressions(found, "left-keyWithIndexToValue") == (
        ("key.k0", "key.k1"),
        ("value.v2", "value.v0", "value.v3"),
    )
    assert expressions(found, "right-keyWithIndexToValue")[1] == (
        "value.v0",
        "CAST(value.v1 AS double)",
        "value.v2",
    )
    assert expressions(found, "left-keyToNumValues") == (("key.k0",), ("value.v0",))
    assert set(found.said) == {
        "'k' of the rows of its left side is called 'key'",
        "'n' of the rows of its left side is dropped",
        "the columns of the rows of its left side are put into their new order",
        "'price' of the rows of its right side of type float becomes double",
    }


def test_a_column_of_a_side_may_get_a_name_that_the_other_side_has() -> None:
    found = plan(joined(), joined("k string; price int; at timestamp"), Wishes({"n": "price"}), None)

    assert found.said == ("'n' of the rows of its left side is called 'price'",)


def test_a_wider_key_is_wider_in_all_tables_of_a_join() -> None:
    found = join(joined(key="int"), joined(key="bigint"), {})

    keys = [each.key for each in found.families]
    assert keys == [("CAST(key.k0 AS bigint)",), ("CAST(key.k0 AS bigint)", "key.k1")] * 2
    assert found.said == ("its key of type int becomes bigint",)
    assert found.gaps == ()


def test_keys_of_a_join_that_were_rounded_may_be_others() -> None:
    (gap,) = join(joined(key="float"), joined(key="double"), {}).gaps

    assert "its key was of type float: a value that was rounded" in gap


def test_sides_whose_columns_have_one_name_may_stay_as_they_are() -> None:
    found = join(joined("k int; k int"), joined("k int; k int", "k string"), {})

    assert expressions(found, "left-keyWithIndexToValue")[1] == ("value.v0", "value.v1", "value.v2")


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (joined(right=f"{RIGHT}; amount decimal(6,2)"), "'amount' was not kept in the rows of its right side"),
        (joined(kind="LEFT OUTER"), "of the kind LEFT OUTER"),
        (joined(keeps=61), "rows dropped since would be missing"),
        (joined(keeps=None), "to be kept for good"),
        (joined(key="bigint"), "its key was of type string, and is of type bigint"),
    ],
)
def test_a_join_that_needs_what_was_not_kept_is_not_carried_over(after: KeptState, reason: str) -> None:
    with pytest.raises(NotCarried, match=reason):
        join(joined(), after, {})


def test_a_join_without_a_table_that_the_new_one_has_is_not_carried_over() -> None:
    before = replace(joined(), families=joined().families[:-1])

    with pytest.raises(NotCarried, match="it has no state of the kind 'right-keyWithIndexToValue'"):
        join(before, joined(), {})


def on(*equal: str) -> KeptState:
    """Return a join whose key has columns of the same type."""
    key = columns("; ".join(f"field{number} string" for number in range(len(equal))))
    families = tuple(
        Family(each.store, "default", (*key, *each.key[1:]), each.value)
        for each in joined("k string; j string").families
    )
    return KeptState("symmetricHashJoin", form("join", type="INNER", on=list(equal)), families)


@pytest.mark.parametrize(
    ("before", "after", "renames", "places"),
    [
        (["k = k", "j = j"], ["j = j", "k = k"], {}, (1, 0)),
        (["k = k", "j = j"], ["CAST(k AS BIGINT) = k", "j = i"], {"j": "i"}, (0, 1)),
        (["lower(k) = k"], ["lower(name) = name"], {"k": "name"}, (0,)),
    ],
)
def test_the_columns_of_a_joins_key_follow_by_what_is_equal(
    before: list[str], after: list[str], renames: Mapping[str, str], places: tuple[int, ...]
) -> None:
    found = join(on(*before), on(*after), renames)

    key = tuple(f"key.k{each}" for each in places)
    assert [each.key for each in found.families] == [key, (*key, f"key.k{len(places)}")] * 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["k = k", "j = j"], ["k = k", "k = k"]),
        (["concat(k, ' = ') = k"], ["k = k"]),
        (["CAST(k AS DECIMAL(10,2)) = k"], ["k = k"]),
    ],
)
def test_columns_that_are_not_equal_to_the_same_ones_are_another_key(before: list[str], after: list[str]) -> None:
    with pytest.raises(NotCarried, match="its key was"):
        join(on(*before), on(*after), {})


def test_a_key_of_which_only_the_snapshot_tells_the_columns_stays() -> None:
    found = join(on("k = k"), replace(on("k = k"), form=form("join", type="INNER")), {})

    assert [each.key for each in found.families] == [("key.k0",), ("key.k0", "key.k1")] * 2


def test_a_join_by_more_columns_than_an_older_snapshot_has_is_not_carried_over() -> None:
    before, after = on("k = k"), on("k = k", "j = j")

    with pytest.raises(NotCarried, match="its key had 1 columns, and has 2"):
        join(replace(before, form=form("join", type="INNER")), after, {})


@pytest.mark.parametrize("after", [["j = j"], ["k = k", "j = j"], ["lower(k) = k"]])
def test_other_equal_columns_are_another_key(after: list[str]) -> None:
    assert differences(*(each.form for each in (on("k = k"), on(*after)) if each.form))
    with pytest.raises(NotCarried, match="its key was"):
        join(on("k = k"), on(*after), {})


def test_narrower_bounds_of_a_join_leave_its_rows_as_they_are() -> None:
    found = join(joined(keeps=None), joined(keeps=60), {})

    assert expressions(found, "left-keyWithIndexToValue")[1] == ("value.v0", "value.v1", "value.v2", "value.v3")


K = "k string"
MAP_KEY = "key struct<{key}>; userKey struct<u:int>"


def value(name: str, of: str, key: str = K) -> list[Family]:
    return [Family("default", name, columns(key), columns(of))]


def listed(name: str, of: str, key: str = K) -> list[Family]:
    return [
        Family("default", name, columns(key), columns(of), many=True),
        Family("default", f"$rowCounter_{name}", columns(key), columns("count bigint")),
    ]


def mapped(name: str, of: str, key: str = "k:string", user: str = "u:int") -> list[Family]:
    return [Family("default", name, columns(f"key struct<{key}>; userKey struct<{user}>"), columns(of))]


def expiring(name: str, of: str, key: str = "k:string") -> list[Family]:
    """Return a list that expires."""
    plain = columns(key.replace(":", " "))
    index = columns(f"expirationMs bigint; elementKey struct<{key}>")
    return [
        Family("default", name, plain, columns(f"value struct<{of}>; ttlExpirationMs bigint"), many=True),
        Family("default", f"$ttl_{name}", index, columns("__empty__ void")),
        Family("default", f"$min_{name}", plain, columns("expirationMs bigint")),
        Family("default", f"$count_{name}", plain, columns("count bigint")),
    ]


def timers(key: str = "k:string") -> list[Family]:
    by_key = columns(f"key struct<{key}>; expiryTimestampMs bigint")
    by_time = columns(f"expiryTimestampMs bigint; key struct<{key}>")
    return [
        Family("default", "$eventTimers_keyToTimestamp", by_key, columns("__dummy__ void")),
        Family("default", "$eventTimers_timestampToKey", by_time, columns("__dummy__ void")),
    ]


def kept(*families: Sequence[Family], mode: str = "EventTime") -> KeptState:
    every = tuple(each for some in families for each in some)
    return KeptState("transformWithStateInPySparkExec", form("transformWithState", timeMode=mode), every)


def sources(migration: Migration) -> dict[str, str | None]:
    """Return the former table of each table."""
    return {each.target.name: each.source.name if each.source else None for each in migration.families}


def test_tables_of_a_variable_that_is_renamed_are_those_of_the_former_name() -> None:
    before = kept(expiring("had", "n:int"), value("n", "n int"), timers())
    after = kept(expiring("has", "n:int"), value("n", "n int"), timers())

    found = variables(before, after, {"had": "has"})

    assert sources(found) == {
        "has": "had",
        "$ttl_has": "$ttl_had",
        "$min_has": "$min_had",
        "$count_has": "$count_had",
        "n": "n",
        "$eventTimers_keyToTimestamp": "$eventTimers_keyToTimestamp",
        "$eventTimers_timestampToKey": "$eventTimers_timestampToKey",
    }
    assert found.said == ("its variable 'had' is called 'has'",)
    assert found.gaps == ()


def test_all_tables_of_a_variable_that_is_gone_are_dropped() -> None:
    found = variables(kept(listed("gone", "n int"), value("n", "n int")), kept(value("n", "n int")), {})

    assert sources(found) == {"n": "n"}
    assert found.said == ("its variable 'gone' is dropped",)


def test_a_variable_that_is_new_begins_without_rows_beside_others_that_change() -> None:
    before = kept(value("n", "n int"))
    found = variables(before, kept(value("n", "n bigint"), listed("more", "s string")), {})

    assert sources(found) == {"n": "n", "more": None, "$rowCounter_more": None}
    assert found.said == ("'n' of its variable 'n' of type int becomes bigint",)
    assert found.gaps == ("its variable 'more' is new, and has no value in the state that is there",)


def test_a_column_of_a_variable_that_expires_follows_inside_of_its_value() -> None:
    found = variables(kept(expiring("l", "n:int")), kept(expiring("l", "n:bigint")), {})

    assert expressions(found, family="l")[1] == (
        "IF(value.v0 IS NULL, NULL, named_struct('f0', CAST(value.v0.`n` AS bigint)))",
        "value.v1",
    )
    assert expressions(found, family="$ttl_l") == (("key.k0", "key.k1"), ("value.v0",))


def test_a_wider_key_is_wider_in_all_tables_of_a_processor() -> None:
    def state(kind: str) -> KeptState:
        key = f"k:{kind}"
        return kept(
            value("v", "n int", f"k {kind}"), mapped("m", "n int", key), expiring("l", "n:int", key), timers(key)
        )

    found = variables(state("int"), state("bigint"), {})

    def wide(place: str) -> str:
        return f"IF({place} IS NULL, NULL, named_struct('f0', CAST({place}.`k` AS bigint)))"

    plain = "CAST(key.k0 AS bigint)"
    assert {each.target.name: each.key for each in found.families} == {
        "v": (plain,),
        "m": (wide("key.k0"), "key.k1"),
        "l": (plain,),
        "$ttl_l": ("key.k0", wide("key.k1")),
        "$min_l": (plain,),
        "$count_l": (plain,),
        "$eventTimers_keyToTimestamp": (wide("key.k0"), "key.k1"),
        "$eventTimers_timestampToKey": ("key.k0", wide("key.k1")),
    }
    assert tuple(each.target for each in found.families) == state("bigint").families
    assert found.said == ("'k' of its key of type int becomes bigint",)
    assert found.gaps == ()


def test_a_processor_that_gets_timers_has_set_none() -> None:
    before = kept(value("n", "n int"), mode="NoTime")

    found = variables(before, kept(value("n", "n int"), timers()), {})

    assert sources(found) == {
        "n": "n",
        "$eventTimers_keyToTimestamp": None,
        "$eventTimers_timestampToKey": None,
    }
    assert (found.said, found.gaps) == ((), ())


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (value("a", "n int"), value("b", "n int"), "its variable 'a' is gone, and 'b' of its form is there"),
        (value("a", "n int"), listed("a", "n int"), "its variable 'a' was a value, and is a list"),
        (listed("a", "n int"), expiring("a", "n:int"), "was a list, and is a list that expires"),
        (value("a", "n int"), value("a", "n string"), "'n' of its variable 'a' was of type int"),
        (mapped("a", "n int"), mapped("a", "n int", user="u:int,w:int"), "its key had the columns"),
        (value("a", "n int"), value("a", "n int", "j string"), "'k' of its key is gone, and 'j' is there"),
    ],
)
def test_other_variables_are_not_carried_over(before: list[Family], after: list[Family], reason: str) -> None:
    with pytest.raises(NotCarried, match=reason):
        variables(kept(before), kept(after), {})


def test_timers_are_not_carried_over_to_another_clock() -> None:
    before, after = kept(value("n", "n int"), timers()), kept(value("n", "n int"), mode="ProcessingTime")

    with pytest.raises(NotCarried, match="its time mode was EventTime, and is ProcessingTime"):
        variables(before, after, {})


def test_a_rename_that_is_left_over_is_seen_in_the_columns_of_a_variable() -> None:
    before, after = kept(value("a", "n int; m int")), kept(value("a", "m int"))

    with pytest.raises(NotCarried, match="its variable 'a' has both 'n' and 'm', which would become 'm'"):
        plan(before, after, Wishes({"n": "m"}), None)


def test_a_name_may_be_given_in_one_table_and_stay_in_another() -> None:
    before = kept(value("a", "n int"), value("b", "n int; m string"))
    after = kept(value("a", "m int"), value("b", "n int; m string"))

    found = plan(before, after, Wishes({"n": "m"}), None)

    assert expressions(found, family="a")[1] == ("value.v0",)
    assert expressions(found, family="b")[1] == ("value.v0", "value.v1")


def test_a_processor_goes_on_as_it_is_only_with_all_that_it_had_and_no_more() -> None:
    before = kept(value("a", "n int"), timers())

    assert continues(before, kept(timers(), value("a", "n int")))
    assert not continues(before, kept(value("a", "n int"), timers(), listed("b", "n int")))
    assert not continues(before, kept(timers()))
    assert not continues(before, kept(value("a", "m int"), timers()))


@pytest.mark.parametrize(("now", "fits"), [(9, True), (11, False)])
def test_other_keys_of_a_deduplication_do_not_hide_a_longer_delay(now: int, fits: bool) -> None:
    def state(kind: str, delay: int) -> KeptState:
        name = "deduplicationWithinWatermark"
        key = KeyForm(name="k", type=kind, of=kind, samples=("7",), plain=True)
        described = StateForm(kind=name, keys=(key,), aggregates=(), parameters={"delayMs": delay})
        family = Family("default", "default", columns(f"k {kind}"), columns("expiresAtMicros bigint"))
        return KeptState("dedupeWithinWatermark", described, (family,))

    before, after = state("int", 10), state("bigint", now)

    if fits:
        assert expressions(plan(before, after, Wishes(), None)) == (("CAST(key.k0 AS bigint)",), ("value.v0",))
    else:
        with pytest.raises(NotCarried, match="duplicates of those that end earlier would pass"):
            plan(before, after, Wishes(), None)


@pytest.mark.parametrize(
    "found",
    [
        grouped("n:int", key="w struct<start:timestamp,end:timestamp>"),
        kept(value("n", "n int", key="w struct<start:timestamp,end:timestamp>")),
    ],
    ids=lambda state: state.operator,
)
def test_other_windows_are_not_carried_over_for_a_function(found: KeptState) -> None:
    def state(minutes: int) -> KeptState:
        size = minutes * 60_000_000
        key = KeyForm(name="w", type="struct<…>", window=WindowForm(size_us=size, slide_us=size, start_us=0))
        assert found.form is not None
        return KeptState(found.operator, found.form.model_copy(update={"keys": (key,)}), found.families)

    with pytest.raises(NotCarried, match="cannot be put together"):
        plan(state(1), state(5), Wishes(), None)
