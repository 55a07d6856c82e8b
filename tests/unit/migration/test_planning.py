"""A migration says for each column of the new state how it follows; what does not follow is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamjob.migration.planning import plan
from streamjob.migration.state import Column, Family, KeptState, NotCarried, Wishes
from streamjob.migration.tables import tables_of
from streamjob.snapshot.state_form import AggregateForm, KeyForm, StateForm, WindowForm

MINUTE = 60_000_000
WINDOW = "struct<start:timestamp,end:timestamp>"
COUNT = AggregateForm(
    function="Count", sql="count(1)", opaque=False, buffer=("bigint",), inputs=(), parameters={}, of=()
)


QUERY = {"state": "SELECT 1"}


def columns(*each: str) -> tuple[Column, ...]:
    return tuple(Column(*column.split(" ")) for column in each)


def kept(
    kind: str, keys: tuple[KeyForm, ...], key: tuple[str, ...], value: tuple[str, ...], *of: AggregateForm
) -> KeptState:
    form = StateForm(kind=kind, keys=keys, aggregates=of, parameters={})
    return KeptState(kind, form, (Family("default", "default", columns(*key), columns(*value)),))


def key(name: str, kind: str = "string") -> KeyForm:
    return KeyForm(name=name, type=kind)


def window(minutes: int, slide: int | None = None) -> KeyForm:
    size = minutes * MINUTE
    form = WindowForm(size_us=size, slide_us=size if slide is None else slide, start_us=0)
    return KeyForm(name="window" if slide is None else "session_window", type=WINDOW, window=form)


def test_columns_of_keys_move_and_are_cast() -> None:
    before = kept("deduplication", (key("k"), key("n", "int")), ("k string", "n int"), ("__dummy__ void",))
    after = kept("deduplication", (key("n", "bigint"), key("j")), ("n bigint", "j string"), ("__dummy__ void",))

    found = plan(before, after, Wishes({"k": "j"}), None)

    assert found.families[0].key == ("CAST(key.k1 AS bigint)", "key.k0")
    assert found.families[0].value == ("value.v0",)
    assert (found.families[0].source, found.families[0].target) == (before.families[0], after.families[0])
    assert found.said == (
        "its key 'n' of type int becomes bigint",
        "its key 'n' moves from place 2 to 1",
        "its key 'k' is called 'j'",
        "its key 'j' moves from place 1 to 2",
    )
    assert not found.gaps


def test_windows_are_put_together_in_the_new_windows() -> None:
    before = kept("aggregation", (window(1), key("k")), (f"window {WINDOW}", "k string"), ("count bigint",), COUNT)
    after = kept("aggregation", (window(5), key("k")), (f"window {WINDOW}", "k string"), ("count bigint",), COUNT)

    found = plan(before, after, Wishes(), None)
    (family,) = found.families

    assert found.said == ("its windows are put together to windows of 300 s",)
    begin = "unix_micros(key.k0.start) - pmod(unix_micros(key.k0.start) - 0, 300000000)"
    assert family.key[0].startswith(f"named_struct('start', timestamp_micros({begin})")
    assert family.merged == ("CAST(sum(v0) AS bigint)",)


def test_windows_that_are_put_together_have_the_new_aggregates_only() -> None:
    other = COUNT.model_copy(update={"of": ("x",), "sql": "count(x)"})
    value = ("count bigint", "count bigint")
    before = kept("aggregation", (window(1),), (f"window {WINDOW}",), value, COUNT, other)
    after = kept("aggregation", (window(5),), (f"window {WINDOW}",), value[1:], other)

    (family,) = plan(before, after, Wishes(), None).families

    assert (family.value, family.merged) == (("value.v1",), ("CAST(sum(v0) AS bigint)",))


def test_aggregates_in_several_tables_are_refused() -> None:
    one = kept("aggregation", (key("k"),), ("k string",), ("count bigint",), COUNT)
    two = replace(one, families=(*one.families, replace(one.families[0], name="more")))

    for before, after in ((one, two), (two, one)):
        with pytest.raises(NotCarried, match="it has 2 tables of state"):
            plan(before, after, Wishes(), None)


def test_windows_are_not_put_together_beside_other_state() -> None:
    before = kept("aggregation", (window(1),), (f"window {WINDOW}",), ("count bigint",), COUNT)
    after = kept("aggregation", (window(5),), (f"window {WINDOW}",), ("count bigint",), COUNT)

    with pytest.raises(NotCarried, match="only known in a query without other state"):
        plan(before, after, Wishes(), None, alone=False)
    assert plan(before, before, Wishes(), None, alone=False).families[0].key == ("key.k0",)


def sessions(*keys: str, of: tuple[AggregateForm, ...] = (COUNT,)) -> KeptState:
    forms = (window(1, 0), *map(key, keys))
    counts = [f"{'count'} bigint" for _ in of]
    value = (f"session_window {WINDOW}", *[f"{each} string" for each in keys], *counts)
    return kept("sessions", forms, (*[f"{each} string" for each in keys], "sessionStartTime timestamp"), value, *of)


def test_the_keys_of_sessions_are_in_their_values_too() -> None:
    found = plan(sessions("k", "j"), sessions("j", "k"), Wishes(), None).families[0]

    assert found.key == ("value.v2", "value.v1", "key.k2")
    assert found.value == ("value.v0", "value.v2", "value.v1", "value.v3")


def test_sessions_of_windows_are_not_put_together() -> None:
    def state(minutes: int) -> KeptState:
        value = (f"session_window {WINDOW}", f"window {WINDOW}", "count bigint")
        keys = (window(1, 0), window(minutes))
        return kept("sessions", keys, (f"window {WINDOW}", "sessionStartTime timestamp"), value, COUNT)

    with pytest.raises(NotCarried, match="sessions cannot be put together"):
        plan(state(1), state(5), Wishes(), None)


def test_sessions_are_one_table_without_their_keys_twice() -> None:
    state = sessions("k", of=(COUNT, COUNT))

    table = tables_of(state)["state"]

    assert [(each.name, each.read) for each in table.columns] == [
        ("session_window", "value.v0"),
        ("k", "value.v1"),
        ("count", "value.v2"),
        ("count_2", "value.v3"),
    ]
    (written,) = table.families
    assert written.key == ("`k`", "`session_window`.start")
    assert written.value == ("`session_window`", "`k`", "`count`", "`count_2`")


def test_the_window_of_a_session_may_stand_behind_its_other_keys() -> None:
    value = ("k string", f"session_window {WINDOW}", "count bigint")
    state = kept("sessions", (key("k"), window(1, 0)), ("k string", "sessionStartTime timestamp"), value, COUNT)

    (written,) = tables_of(state)["state"].families

    assert written.key == ("`k`", "`session_window`.start")


def test_a_query_is_used_for_the_form_that_it_names_only() -> None:
    before = kept("aggregation", (key("k"),), ("k string",), ("count bigint",), COUNT)
    after = kept("aggregation", (key("j"),), ("j string",), ("count bigint",), COUNT)

    assert plan(before, after, Wishes(sql=QUERY, of=before.fingerprint), None).query == "SELECT 1"
    assert plan(before, after, Wishes(sql=QUERY), None).query == "SELECT 1"
    with pytest.raises(NotCarried):
        plan(before, after, Wishes(sql=QUERY, of="12345678"), None)


def test_a_query_for_another_form_is_not_left_out_where_something_would_be_missing() -> None:
    before = kept("aggregation", (key("k"),), ("k string",), ("count bigint",), COUNT)
    added = COUNT.model_copy(update={"of": ("x",), "sql": "count(x)"})
    after = kept("aggregation", (key("k"),), ("k string",), ("count bigint", "count bigint"), COUNT, added)

    assert plan(before, after, Wishes(), None).gaps
    with pytest.raises(NotCarried, match="begins empty"):
        plan(before, after, Wishes(sql=QUERY, of="12345678"), None)
    assert plan(after, before, Wishes(sql=QUERY, of="12345678"), None).query is None


def test_a_rename_that_is_left_over_is_refused() -> None:
    before = kept("deduplication", (key("a"), key("b")), ("a string", "b string"), ("__dummy__ void",))
    after = kept("deduplication", (key("b"), key("a")), ("b string", "a string"), ("__dummy__ void",))

    with pytest.raises(NotCarried, match="remove what is left of an earlier change"):
        plan(before, after, Wishes({"a": "b"}), None)


def test_a_rename_that_is_left_over_does_not_refuse_a_later_change_of_the_column() -> None:
    before = kept("deduplication", (key("b", "int"),), ("b int",), ("__dummy__ void",))
    after = kept("deduplication", (key("b", "bigint"),), ("b bigint",), ("__dummy__ void",))

    assert plan(before, after, Wishes({"a": "b"}), None).families[0].key == ("CAST(key.k0 AS bigint)",)


def test_a_rename_that_is_left_over_is_seen_in_what_aggregates_were_computed_from() -> None:
    of = [COUNT.model_copy(update={"of": (each,), "sql": f"count({each})"}) for each in "ab"]
    before = kept("aggregation", (key("k"),), ("k string",), ("count bigint", "count bigint"), *of)
    after = kept("aggregation", (key("k"),), ("k string",), ("count bigint",), of[1])

    with pytest.raises(NotCarried, match="remove what is left of an earlier change"):
        plan(before, after, Wishes({"a": "b"}), None)


def test_a_column_may_get_a_name_that_spark_gives_a_buffer() -> None:
    def summed(column: str) -> KeptState:
        of = COUNT.model_copy(update={"function": "Sum", "of": (column,), "sql": f"sum({column})"})
        return kept("aggregation", (key("k"),), ("k string",), ("count bigint", "sum bigint"), COUNT, of)

    found = plan(summed("count"), summed("sum"), Wishes({"count": "sum"}), None)

    assert found.families[0].value == ("value.v0", "value.v1")


def test_names_may_move_on_from_column_to_column() -> None:
    before = kept("deduplication", (key("a"), key("b")), ("a string", "b string"), ("__dummy__ void",))
    after = kept("deduplication", (key("b"), key("c")), ("b string", "c string"), ("__dummy__ void",))

    assert plan(before, after, Wishes({"a": "b", "b": "c"}), None).families[0].key == ("key.k0", "key.k1")


def test_what_happens_to_aggregates_is_said_behind_what_happens_to_keys() -> None:
    other = COUNT.model_copy(update={"of": ("x",), "sql": "count(x)"})
    before = kept("aggregation", (key("k"),), ("k string",), ("count bigint", "count bigint"), COUNT, other)
    after = kept("aggregation", (key("j"),), ("j string",), ("count bigint",), COUNT)

    of_sessions = sessions("k", of=(COUNT, other)), sessions("j")
    for was, now in ((before, after), of_sessions):
        found = plan(was, now, Wishes({"k": "j"}), None)
        assert found.said == ("its key 'k' is called 'j'", "the state of its count(x) is dropped")
        assert [(each.source, each.target) for each in found.families] == [(was.families[0], now.families[0])]
        assert [gap[:28] for gap in plan(now, was, Wishes({"j": "k"}), None).gaps] == ["its count(x) begins empty in"]


def sessions_of(kind: str) -> KeptState:
    """Return the state of sessions with a key of a type."""
    value = (f"session_window {WINDOW}", f"x {kind}", "count bigint")
    return kept("sessions", (window(1, 0), key("x", kind)), (f"x {kind}", "sessionStartTime timestamp"), value, COUNT)


def test_keys_that_were_rounded_may_be_others() -> None:
    before = kept("deduplication", (key("x", "float"),), ("x float",), ("__dummy__ void",))
    after = kept("deduplication", (key("x", "double"),), ("x double",), ("__dummy__ void",))

    assert "its key 'x' was of type float" in plan(before, after, Wishes(), None).gaps[0]
    (gap,) = plan(sessions_of("float"), sessions_of("double"), Wishes(), None).gaps
    assert "its key 'x' was of type float" in gap


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            sessions("k"),
            kept("aggregation", (key("k"),), ("k string",), ("count bigint",), COUNT),
            "of the kind sessions",
        ),
        (kept("limit", (), (), ("n bigint",)), kept("limit", (), (), ("n int",)), "only as it is"),
        (
            kept("aggregation", (key("k"),), ("k string",), ("count bigint",), COUNT),
            kept("aggregation", (key("k"),), ("k string",), ("a bigint", "b bigint"), COUNT),
            "Spark keeps 2 columns",
        ),
        (
            kept("deduplication", (key("k"),), ("k string",), ("a bigint",)),
            kept("deduplication", (key("k"),), ("k string",), ("a int",)),
            "'a' of its value was of type bigint",
        ),
    ],
)
def test_what_does_not_follow_is_refused(before: KeptState, after: KeptState, words: str) -> None:
    with pytest.raises(NotCarried) as refused:
        plan(before, after, Wishes(), None)

    assert words in str(refused.value)


def test_a_snapshot_without_forms_is_refused() -> None:
    before: Any = KeptState("stateStoreSave", None, ())
    after = kept("aggregation", (key("k"),), ("k string",), ("count bigint",), COUNT)

    with pytest.raises(NotCarried, match="does not say in which form"):
        plan(before, after, Wishes(), None)
    with pytest.raises(NotCarried, match="state of the kind stateStoreSave is carried over only as it is"):
        plan(after, before, Wishes(), None)
