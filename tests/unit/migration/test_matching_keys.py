"""The key columns of a changed operator are matched with the former ones by name, type, and how they are computed."""

from __future__ import annotations

import pytest

from streamjob.migration.keys import match_keys
from streamjob.migration.state import NotCarried
from streamjob.snapshot.state_form import KeyForm, WindowForm

MINUTE = 60_000_000
WINDOW = "struct<start:timestamp,end:timestamp>"


def key(
    name: str, kind: str = "string", of: str | None = None, samples: tuple[str, ...] = (), *, plain: bool = False
) -> KeyForm:
    return KeyForm(name=name, type=kind, of=of, samples=samples, plain=plain)


def window(size: int, slide: int | None = None, start: int = 0) -> KeyForm:
    form = WindowForm(size_us=size, slide_us=size if slide is None else slide, start_us=start)
    return KeyForm(name="window", type=WINDOW, window=form)


def test_columns_are_matched_by_name_in_any_order_and_by_their_former_names() -> None:
    found = match_keys(
        [key("k"), key("day", "date")], [key("day", "timestamp"), key("airport")], {"k": "airport"}, None
    )

    assert [(each.place, each.before.name, each.after.name) for each in found] == [
        (1, "day", "day"),
        (0, "k", "airport"),
    ]


def test_a_rename_that_stays_in_the_file_does_not_refuse_a_later_key_of_the_former_name() -> None:
    keys = [key("k"), key("j")]

    assert [each.place for each in match_keys(keys, keys, {"k": "j"}, None)] == [0, 1]


def test_a_key_whose_name_is_written_in_another_case_is_the_same() -> None:
    found = match_keys([key("k"), key("day")], [key("Day"), key("Airport")], {"K": "airport"}, None)

    assert [(each.place, each.after.name) for each in found] == [(1, "Day"), (0, "Airport")]


def test_keys_without_names_are_matched_in_their_order() -> None:
    def expressions(*samples: str) -> list[KeyForm]:
        return [key("_groupingexpression", of="string", samples=(each,)) for each in samples]

    found = match_keys(expressions("a", "B"), expressions("a", "B"), {}, None)

    assert [each.place for each in found] == [0, 1]
    with pytest.raises(NotCarried, match="where it was 'a', it is 'B'"):
        match_keys(expressions("a", "B"), expressions("B", "a"), {}, None)


def test_windows_without_a_time_zone_are_not_put_together() -> None:
    def local(minutes: int) -> KeyForm:
        return window(minutes * MINUTE).model_copy(update={"type": WINDOW.replace("timestamp", "timestamp_ntz")})

    with pytest.raises(NotCarried, match="its windows were of type struct<start:timestamp_ntz"):
        match_keys([local(1)], [local(5)], {}, None)
    with pytest.raises(NotCarried, match="its windows were of type struct<start:timestamp_ntz"):
        match_keys([local(1)], [window(5 * MINUTE)], {}, None)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([key("k")], [key("j")], "its keys were (k string), and are (j string)"),
        ([key("k")], [key("k"), key("j")], "and are (k string, j string)"),
        ([key("k"), key("j")], [key("k")], "its keys were (k string, j string)"),
        ([key("k", "bigint")], [key("k", "int")], "was of type bigint, and is of type int"),
        ([key("k", of="string", samples=("A",))], [key("k", of="string", samples=("a",))], "where it was 'A'"),
        (
            [key("n", "int", "int", ("7", "null"))],
            [key("n", "bigint", "int", ("8", "null"))],
            "where it was '7', it is '8'",
        ),
        ([key("n", "int", "int", ("7",))], [key("n", "bigint", "int", ("null",))], "where it was '7', it is 'null'"),
        # A day, and then the hour.
        (
            [key("t", "date", "timestamp", ("20454", "20454"))],
            [key("t", "timestamp", "timestamp", ("1767225600000000", "1767243600000000"))],
            "where it was '20454'",
        ),
        ([key("x", "float", "int", ("0.1",))], [key("x", "double", "int", ("0.2",))], "where it was '0.1'"),
        (
            [key("d", "decimal(6,2)", "int", ("7.00",))],
            [key("d", "decimal(9,3)", "int", ("7.100",))],
            "where it was '7.00'",
        ),
        ([key("k", of="string")], [key("k", of="int")], "of a column of type string, and is of one of type int"),
        ([window(MINUTE)], [key("window", WINDOW)], "its key 'window' was a window"),
        ([key("window", WINDOW)], [window(MINUTE)], "its key 'window' is now a window"),
        # Casts that are not lossless stand between a column and its type.
        (
            [key("n", "bigint", "bigint", ("1", "8"), plain=True)],
            [key("n", "bigint", "bigint", ("1", "7"), plain=True)],
            "where it was '8', it is '7'",
        ),
        ([window(MINUTE)], [window(90_000_000)], "only windows that are made up of former ones"),
        ([window(MINUTE)], [window(5 * MINUTE, start=1)], "only windows that are made up of former ones"),
        ([window(2 * MINUTE, MINUTE)], [window(4 * MINUTE)], "only windows that are made up of former ones"),
        ([window(MINUTE)], [window(4 * MINUTE, MINUTE)], "only windows that are made up of former ones"),
        ([window(MINUTE, 0)], [window(2 * MINUTE, 0)], "its windows were sessions with a gap of 60 s"),
    ],
)
def test_other_keys_are_refused(before: list[KeyForm], after: list[KeyForm], words: str) -> None:
    with pytest.raises(NotCarried) as refused:
        match_keys(before, after, {}, None)

    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            key("t", "date", "timestamp", ("20454", "20494")),
            key("t", "timestamp", "timestamp", ("1767222000000000", "1770678000000000")),
        ),
        (key("d", "date", "date", ("20454",)), key("d", "timestamp", "date", ("1767225600000000",))),
        (key("n", "int", "int", ("7",)), key("n", "bigint", "bigint", ("7",))),
        (key("n", "int", "int", ("7",)), key("n", "bigint", "int")),
        (key("n", "int", "int"), key("n", "bigint", "int", ("7",))),
        (key("n", "int", "int", ("7",), plain=True), key("n", "bigint", "bigint", ("7",))),
        (key("x", "float", "float", plain=True), key("x", "double", "float")),
        (key("t", "date", "timestamp", plain=True), key("t", "timestamp", "timestamp", plain=True)),
        (key("d", "decimal(6,2)", "decimal(6,2)"), key("d", "decimal(9,3)", "decimal(9,3)", plain=True)),
    ],
)
def test_a_wider_key_whose_values_may_be_others_is_refused(before: KeyForm, after: KeyForm) -> None:
    with pytest.raises(NotCarried):
        match_keys([before], [after], {}, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (key("k", of="string", samples=("A",)), key("k")),
        (key("k"), key("k", of="string", samples=("A",))),
        (key("k", of="string", samples=("A",)), key("k", of="string", samples=("A",))),
        (key("n", "int", "int", ("7",), plain=True), key("n", "bigint", "bigint", ("8",), plain=True)),
        (key("d", "decimal(6,2)", "decimal(6,2)", plain=True), key("d", "decimal(9,3)", "decimal(9,3)", plain=True)),
        (key("d", "date", "date", ("1",), plain=True), key("d", "timestamp", "date", ("0",), plain=True)),
        (key("n", "int", "int", ("7", "null")), key("n", "bigint", "int", ("7", "null"))),
        (key("x", "float", "int", ("0.1", "NaN")), key("x", "double", "int", ("0.10000000149011612", "NaN"))),
        (key("d", "decimal(6,2)", "int", ("7.00",)), key("d", "decimal(9,3)", "int", ("7.000",))),
        (key("d", "decimal(6,2)", "int", ("hash 3",)), key("d", "decimal(9,3)", "int", ("hash 4",))),
        (window(MINUTE), window(MINUTE)),
        (window(2 * MINUTE, MINUTE), window(2 * MINUTE, MINUTE)),
        (window(MINUTE, 0), window(MINUTE, 0)),
    ],
)
def test_keys_that_are_computed_as_before_or_cannot_be_compared_are_matched(before: KeyForm, after: KeyForm) -> None:
    (found,) = match_keys([before], [after], {}, None)

    assert found.window is None


def test_windows_whose_offset_differs_by_former_windows_are_put_together() -> None:
    assert match_keys([window(MINUTE)], [window(5 * MINUTE, start=2 * MINUTE)], {}, 7 * MINUTE)[0].window
    with pytest.raises(NotCarried, match="from 1970-01-01T00:02:00Z to 1970-01-01T00:05:00Z are closed already"):
        match_keys([window(MINUTE)], [window(5 * MINUTE, start=2 * MINUTE)], {}, 5 * MINUTE)


def test_two_columns_cannot_get_one_name() -> None:
    with pytest.raises(NotCarried):
        match_keys([key("k"), key("j")], [key("j"), key("j")], {"k": "j"}, None)


@pytest.mark.parametrize("closed", [None, 0, 5 * MINUTE, 5 * MINUTE + 1, 6 * MINUTE - 1, -5 * MINUTE])
def test_windows_are_put_together_while_none_of_a_new_one_is_closed(closed: int | None) -> None:
    (found,) = match_keys([window(MINUTE)], [window(5 * MINUTE)], {}, closed)

    assert found.window == WindowForm(size_us=5 * MINUTE, slide_us=5 * MINUTE, start_us=0)


@pytest.mark.parametrize("closed", [6 * MINUTE, 9 * MINUTE + 1, -1])
def test_windows_are_not_put_together_behind_a_part_of_a_new_one(closed: int) -> None:
    with pytest.raises(NotCarried, match="are closed already: their rows would be missing"):
        match_keys([window(MINUTE)], [window(5 * MINUTE)], {}, closed)


def test_windows_with_an_offset_are_compared_with_its_windows() -> None:
    before, after = [window(MINUTE, start=10)], [window(5 * MINUTE, start=10)]

    assert match_keys(before, after, {}, 5 * MINUTE + 10)
    with pytest.raises(NotCarried):
        match_keys(before, after, {}, 5 * MINUTE + 9)
