"""The buffers of changed aggregates follow from the former ones, or the change is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streamjob.migration.aggregates import buffer_types, is_same_expression, match_aggregates, merged
from streamjob.migration.by_name import Draft
from streamjob.migration.state import NotCarried
from streamjob.snapshot.state_form import AggregateForm


def aggregate(call: str, *buffer: str, opaque: bool = False, **parameters: str) -> AggregateForm:
    """Return the form of a call such as `Sum(x)`."""
    function, _, of = call.removesuffix(")").partition("(")
    return AggregateForm(
        function=function,
        sql=f"{function.lower()}({of})",
        opaque=opaque,
        buffer=buffer,
        inputs=(),
        parameters=dict(parameters),
        of=tuple(filter(None, of.split(", "))),
    )


COUNT = aggregate("Count()", "bigint")
COUNT_X = aggregate("Count(x)", "bigint")
SUM_X = aggregate("Sum(x)", "bigint")
SUM_ONE = SUM_X.model_copy(update={"sql": "sum(1)", "of": ()})
SUM_DOUBLE = aggregate("Sum(x)", "double")
SUM_DECIMAL = aggregate("Sum(x)", "decimal(20,2)", "boolean")
AVG_X = aggregate("Average(x)", "double", "bigint")
AVG_DECIMAL = aggregate("Average(x)", "decimal(20,2)", "bigint")
MAX_X = aggregate("Max(x)", "int")
MAX_Y = aggregate("Max(y)", "int")
LIST = aggregate("CollectList(x)", "binary", opaque=True)


def matched(before: Sequence[AggregateForm], after: Sequence[AggregateForm], **renames: str) -> tuple[Draft, list[str]]:
    draft = Draft(renames)
    return draft, match_aggregates(draft, before, after)


def columns(before: list[AggregateForm], after: list[AggregateForm], **renames: str) -> list[str]:
    return [each.replace("value.v", "v") for each in matched(before, after, **renames)[1]]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([COUNT, MAX_X], [MAX_X, COUNT], ["v1", "v0"]),
        ([COUNT, MAX_X.model_copy(update={"of": None})], [COUNT, LIST], ["v0", "initial.i1"]),
        ([COUNT, AVG_X, MAX_X], [COUNT, MAX_X], ["v0", "v3"]),
        ([MAX_X, COUNT], [COUNT, aggregate("Max(s)", "string")], ["v1", "initial.i1"]),
        ([COUNT], [COUNT, AVG_X], ["v0", "initial.i1", "initial.i2"]),
        ([COUNT_X], [COUNT_X, AVG_X], ["v0", "initial.i1", "initial.i2"]),
        # Sums of another kind than that of the average.
        ([AVG_X], [SUM_DECIMAL], ["initial.i0", "initial.i1"]),
        ([AVG_DECIMAL], [SUM_X], ["initial.i0"]),
        ([aggregate("Average()", "double", "bigint")], [COUNT], ["initial.i0"]),
        (
            [aggregate("Sum(UnscaledValue(x) of scale 2)", "bigint")],
            [aggregate("Sum(x)", "decimal(22,2)", "boolean")],
            ["CAST(coalesce(v0, 0) * 0.01BD AS decimal(22,2))", "v0 IS NULL"],
        ),
        ([SUM_DECIMAL, COUNT_X], [AVG_X, COUNT_X], ["initial.i0", "initial.i1", "v2"]),
        (
            [aggregate("Sum(UnscaledValue(x) of scale 2)", "bigint"), COUNT],
            [COUNT, MAX_Y, aggregate("Sum(y)", "decimal(22,4)", "boolean")],
            ["v1", "initial.i1", "initial.i2", "initial.i3"],
        ),
        ([MAX_X, COUNT], [aggregate("Max(s)", "string"), COUNT, SUM_X], ["initial.i0", "v1", "initial.i2"]),
        ([SUM_X], [SUM_X, AVG_X], ["v0", "initial.i1", "initial.i2"]),
        ([COUNT], [AVG_X, COUNT], ["initial.i0", "initial.i1", "v0"]),
        ([LIST, COUNT], [COUNT, LIST], ["v1", "v0"]),
        ([MAX_X], [aggregate("Max(x)", "bigint")], ["CAST(v0 AS bigint)"]),
        *(
            ([aggregate("Max(x)", kind)], [aggregate("Max(CAST(x AS BIGINT))", "bigint")], ["CAST(v0 AS bigint)"])
            for kind in ("tinyint", "smallint", "int")
        ),
        ([COUNT], [COUNT.model_copy(update={"sql": "count(2)"})], ["v0"]),
        ([SUM_DECIMAL], [aggregate("Sum(x)", "decimal(24,4)", "boolean")], ["CAST(v0 AS decimal(24,4))", "v1"]),
        (
            [aggregate("StddevPop(CAST(x AS DOUBLE))", "double x 3")],
            [aggregate("StddevPop(x)", "double x 3")],
            ["v0", "v1", "v2"],
        ),
        ([SUM_X, COUNT_X], [AVG_X], ["CAST(coalesce(v0, 0) AS double)", "v1"]),
        ([SUM_DECIMAL, COUNT_X], [AVG_DECIMAL], ["CAST(v0 AS decimal(20,2))", "v2"]),
        ([AVG_X], [SUM_DOUBLE, COUNT_X], ["CASE WHEN v1 > 0 THEN v0 END", "v1"]),
        ([AVG_DECIMAL], [SUM_DECIMAL, COUNT_X], ["v0", "v1 = 0", "v1"]),
        (
            [SUM_DECIMAL, COUNT_X],
            [aggregate("Average(x)", "decimal(22,4)", "bigint"), COUNT_X],
            ["initial.i0", "initial.i1", "v2"],
        ),
        # The former ones have cut fractions off, if there were any.
        (
            [aggregate("Sum(CAST(x AS BIGINT))", "bigint"), aggregate("Count(CAST(x AS BIGINT))", "bigint")],
            [AVG_X],
            ["initial.i0", "initial.i1"],
        ),
        ([AVG_X], [AVG_X, aggregate("Max(x)", "double")], ["v0", "v1", "initial.i2"]),
        (
            [aggregate("Sum(x)", "interval day to second"), COUNT_X],
            [aggregate("Average(x)", "interval day to second", "bigint")],
            ["initial.i0", "initial.i1"],
        ),
        ([AVG_X, MAX_X], [AVG_X, SUM_DOUBLE, MAX_X], ["v0", "v1", "CASE WHEN v1 > 0 THEN v0 END", "v2"]),
    ],
)
def test_buffers_follow_from_former_ones(
    before: list[AggregateForm], after: list[AggregateForm], expected: list[str]
) -> None:
    assert columns(before, after) == expected


def test_a_buffer_of_many_columns_of_a_type_has_them_all() -> None:
    assert buffer_types(aggregate("HyperLogLogPlusPlus(x)", "bigint x 3", "binary")) == ["bigint"] * 3 + ["binary"]


@pytest.mark.parametrize(
    ("former", "present", "same"),
    [
        ("x", "CAST(x AS DECIMAL(10,2))", True),
        ("CAST(x AS DECIMAL(10,2))", "x", False),
        ("CAST(x AS DECIMAL(10,2))", "CAST(x AS DECIMAL(12,2))", True),
        ("CAST(x AS DECIMAL(10,2))", "CAST(x AS DECIMAL(12,4))", False),
    ],
)
def test_only_the_present_expression_may_cast_to_a_decimal(former: str, present: str, same: bool) -> None:
    assert is_same_expression(former, present, {}) is same


def test_an_aggregate_of_another_type_is_refused_wherever_it_stands() -> None:
    with pytest.raises(NotCarried, match="the state of its max"):
        columns([aggregate("Max(x)", "int")], [aggregate("Max(x)", "int", "int")])
    with pytest.raises(NotCarried, match="the state of its sum"):
        columns([aggregate("Sum(CAST(x AS BIGINT))", "bigint"), COUNT], [COUNT, MAX_Y, SUM_DOUBLE])
    rounded = aggregate("Sum(CAST(x AS DECIMAL(10,2)))", "decimal(20,2)", "boolean")
    with pytest.raises(NotCarried, match="the state of its sum"):
        columns([SUM_X, COUNT], [COUNT, MAX_Y, rounded])
    with pytest.raises(NotCarried, match="the state of its sum"):
        columns([SUM_X], [aggregate("Sum(UnscaledValue(x) of scale 2)", "bigint")])


def test_another_aggregate_at_the_place_of_a_former_one_may_be_that_one_though_its_type_has_no_room() -> None:
    with pytest.raises(NotCarried, match=r"its max\(x\) is now max\(s\)"):
        columns([MAX_X, COUNT], [aggregate("Max(s)", "string"), COUNT])


def test_what_follows_from_an_aggregate_of_a_renamed_column_follows() -> None:
    of_y = [aggregate("Sum(y)", "double"), aggregate("Count(y)", "bigint")]
    small, large = (
        aggregate("Sum(UnscaledValue(x) of scale 2)", "bigint"),
        aggregate("Sum(y)", "decimal(19,3)", "boolean"),
    )

    assert columns([AVG_X], of_y, x="y") == ["CASE WHEN v1 > 0 THEN v0 END", "v1"]
    assert columns([small], [large], x="y") == ["CAST(coalesce(v0, 0) * 0.01BD AS decimal(19,3))", "v0 IS NULL"]


def test_a_sum_of_small_decimals_from_which_a_larger_one_follows_is_not_called_dropped() -> None:
    for larger in (unscaled(3), aggregate("Sum(m)", "decimal(19,3)", "boolean")):
        assert matched([unscaled(2)], [larger])[0].said == [f"its {larger.sql} is computed from {unscaled(2).sql}"]


def test_a_new_order_is_said_and_an_old_one_is_not() -> None:
    def said(*after: AggregateForm) -> list[str]:
        return matched([COUNT, MAX_X], after)[0].said

    assert said(MAX_X, COUNT) == ["its aggregates are put into their new order"]
    assert said(COUNT, MAX_X) == []
    assert said(MAX_X) == ["the state of its count() is dropped"]


def test_other_names_and_wider_types_of_columns_are_said() -> None:
    def said(after: AggregateForm, **renames: str) -> list[str]:
        return matched([MAX_X], [after], **renames)[0].said

    assert said(MAX_Y, x="y") == ["its max(y) continues from max(x)"]
    assert said(aggregate("Max(x)", "bigint")) == ["the state of its max(x) is widened"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([AVG_X], SUM_DOUBLE, ["its sum(x) is computed from average(x)"]),
        ([AVG_X], SUM_X, ["its sum(x) is computed from average(x)"]),
        ([AVG_X], COUNT_X, ["its count(x) is computed from average(x)"]),
        ([AVG_DECIMAL], SUM_DECIMAL, ["its sum(x) is computed from average(x)"]),
        ([SUM_X, COUNT_X], AVG_X, ["its average(x) is computed from sum(x) and count(x)"]),
    ],
)
def test_what_an_aggregate_is_computed_from_is_said_and_is_not_called_dropped(
    before: list[AggregateForm], after: AggregateForm, said: list[str]
) -> None:
    assert matched(before, [after])[0].said == said


def test_a_sum_of_whole_numbers_follows_from_an_average_only_while_it_is_exact() -> None:
    (total,) = columns([AVG_X], [SUM_X])

    assert "abs(v0) < 9007199254740992D THEN CAST(v0 AS BIGINT) ELSE raise_error(" in total


@pytest.mark.parametrize(
    ("former", "present"),
    [
        (AVG_X, aggregate("Average(CAST(x AS BIGINT))", "double", "bigint")),
        (aggregate("Average(CAST(x AS BIGINT))", "double", "bigint"), AVG_X),
        (
            aggregate("Sum(CAST(x AS DECIMAL(10,2)))", "decimal(20,2)", "boolean"),
            aggregate("Sum(CAST(x AS DECIMAL(12,4)))", "decimal(22,4)", "boolean"),
        ),
        (
            aggregate("Max(CAST(x AS DECIMAL(10,2)))", "decimal(10,2)"),
            aggregate("Max(x)", "decimal(12,4)"),
        ),
        (aggregate("Count(TRY_CAST(x AS BIGINT))", "bigint"), aggregate("Count(TRY_CAST(x AS DOUBLE))", "bigint")),
        (SUM_ONE, SUM_ONE.model_copy(update={"sql": "sum(2)"})),
        (aggregate("Max((k = 'x'))", "boolean"), aggregate("Max((k = 'z'))", "boolean")),
    ],
)
def test_what_an_aggregate_has_cut_off_or_never_seen_is_not_continued(
    former: AggregateForm, present: AggregateForm
) -> None:
    with pytest.raises(NotCarried):
        columns([former], [present], x="z")


def test_a_sum_of_whole_numbers_does_not_follow_from_an_average_that_has_fractions() -> None:
    _, expressions = matched([AVG_X], [aggregate("Sum(CAST(x AS BIGINT))", "bigint"), COUNT])

    assert expressions == ["initial.i0", "initial.i1"]


@pytest.mark.parametrize(
    ("former", "present"),
    [
        (aggregate("Sum(x)", "bigint"), aggregate("Sum(CAST(x AS BIGINT))", "bigint")),
        (aggregate("Max(x)", "decimal(6,2)"), aggregate("Max(CAST(x AS DECIMAL(9,3)))", "decimal(9,3)")),
        (
            aggregate("Max(CAST(x AS DECIMAL(6,2)))", "decimal(6,2)"),
            aggregate("Max(CAST(x AS DECIMAL(9,2)))", "decimal(9,2)"),
        ),
        (aggregate("Max(x)", "date"), aggregate("Max(CAST(x AS TIMESTAMP))", "timestamp")),
    ],
)
def test_an_aggregate_of_a_column_that_is_cast_to_a_wider_type_is_continued(
    former: AggregateForm, present: AggregateForm
) -> None:
    assert len(columns([former], [present])) == 1


def test_an_aggregate_of_an_older_snapshot_is_not_taken_for_one_of_all_rows() -> None:
    with pytest.raises(NotCarried, match="take a savepoint of the unchanged job first"):
        columns([COUNT_X.model_copy(update={"of": None})], [COUNT, MAX_X])


def test_a_rename_that_stays_in_the_file_does_not_mix_up_later_columns() -> None:
    assert columns([MAX_X, MAX_Y], [MAX_X, MAX_Y, COUNT], x="y") == ["v0", "v1", "initial.i2"]


def test_the_case_of_a_name_does_not_matter_and_that_of_a_text_does() -> None:
    former = aggregate("Max(CASE WHEN (k = 'A') THEN x END)", "int")

    assert columns([former], [aggregate("Max(CASE WHEN (K = 'A') THEN X END)", "int")]) == ["v0"]
    assert columns([former], [aggregate("Max(CASE WHEN (K = 'A') THEN Y END)", "int")], X="y") == ["v0"]
    with pytest.raises(NotCarried):
        columns([former], [aggregate("Max(CASE WHEN (k = 'a') THEN x END)", "int")])


def test_a_text_is_not_a_name_of_a_column() -> None:
    form = aggregate("Max((x = 'x'))", "boolean")

    assert columns([form], [aggregate("Max((y = 'x'))", "boolean")], x="y") == ["v0"]


def test_a_renamed_column_is_known_by_what_the_author_says() -> None:
    assert columns([COUNT, MAX_X], [COUNT, MAX_Y], x="y") == ["v0", "v1"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([MAX_X], [MAX_Y], "its max(x) is now max(y): whether that is the same column"),
        ([MAX_X], [COUNT, MAX_Y], "its max(x) is now max(y): whether that is the same column"),
        ([MAX_X, COUNT], [aggregate("Max(y)", "bigint")], "its max(x) is now max(y): whether that is the same"),
        ([MAX_X, SUM_X], [aggregate("Min(x)", "int"), MAX_Y], "its max(x) is now max(y): whether that is the same"),
        ([aggregate("Max(x)", "bigint")], [MAX_X], "the state of its max(x) was (bigint), and is (int)"),
        ([LIST], [aggregate("CollectList(x)", "binary", opaque=True, ignoreNulls="false")], "the state of its"),
        ([MAX_X.model_copy(update={"of": None})], [MAX_X, COUNT], "does not tell what its max(x) was computed from"),
        (
            [aggregate("MaxBy(x, y)", "int", "bigint")],
            [aggregate("MaxBy(x, y)", "bigint", "int")],
            "was (int, bigint), and is (bigint, int)",
        ),
    ],
)
def test_an_aggregate_that_may_be_a_former_one_is_not_begun_empty(
    before: list[AggregateForm], after: list[AggregateForm], words: str
) -> None:
    with pytest.raises(NotCarried) as refused:
        columns(before, after)

    assert words in str(refused.value)


def test_a_count_of_all_rows_does_not_make_an_average() -> None:
    found, expressions = matched([SUM_X, COUNT], [AVG_X, COUNT])

    assert expressions == ["initial.i0", "initial.i1", "value.v1"]
    assert "its average(x) begins empty in groups that are open" in found.gaps[0]
    assert found.said == ["the state of its sum(x) is dropped"]


def test_buffers_of_several_groups_are_put_together_by_aggregates_of_their_columns() -> None:
    best = aggregate("MaxBy(x, y)", "string", "int")

    assert merged([COUNT, SUM_DECIMAL, best]) == (
        "CAST(sum(v0) AS bigint)",
        "CAST(IF(bool_or(v1 IS NULL), NULL, sum(v1)) AS decimal(20,2))",
        "CAST(bool_and(v2) AS boolean)",
        "CAST(max_by(v3, v4) AS string)",
        "CAST(max(v4) AS int)",
    )


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (SUM_DOUBLE, ["sum(v0) AS double"]),
        (AVG_X, ["IF(bool_or(v0 IS NULL), NULL, sum(v0)) AS double", "sum(v1) AS bigint"]),
        (MAX_X, ["max(v0) AS int"]),
        (aggregate("Min(x)", "int"), ["min(v0) AS int"]),
        (aggregate("MinBy(x, y)", "string", "int"), ["min_by(v0, v1) AS string", "min(v1) AS int"]),
        (aggregate("BitAndAgg(x)", "int"), ["bit_and(v0) AS int"]),
        (aggregate("BitOrAgg(x)", "int"), ["bit_or(v0) AS int"]),
        (aggregate("BitXorAgg(x)", "int"), ["bit_xor(v0) AS int"]),
    ],
)
def test_a_buffer_of_several_groups_is_put_together_by_its_aggregate(form: AggregateForm, expected: list[str]) -> None:
    assert merged([form]) == tuple(f"CAST({each})" for each in expected)


@pytest.mark.parametrize(
    "form", [LIST, aggregate("First(x)", "int", "boolean"), aggregate("StddevPop(x)", "double x 3")]
)
def test_buffers_that_depend_on_an_order_are_not_put_together(form: AggregateForm) -> None:
    with pytest.raises(NotCarried):
        merged([form])


def test_a_sum_of_small_decimals_does_not_begin_empty_when_they_become_larger() -> None:
    small, larger, large = unscaled(2), unscaled(3), aggregate("Sum(m)", "decimal(19,3)", "boolean")

    assert columns([COUNT, small], [small]) == ["v1"]
    assert columns([COUNT, small], [larger]) == ["v1 * 10L"]
    assert columns([small], [small, aggregate("Max(m)", "decimal(9,2)")]) == ["v0", "initial.i1"]
    assert columns([small, COUNT], [large]) == ["CAST(coalesce(v0, 0) * 0.01BD AS decimal(19,3))", "v0 IS NULL"]
    with pytest.raises(NotCarried):
        columns([COUNT, larger], [small])
    with pytest.raises(NotCarried):
        columns([COUNT, unscaled(4)], [large])
    with pytest.raises(NotCarried, match=r"was \(bigint\), and is \(double\)"):
        columns([small], [aggregate("Sum(m)", "double")])


def unscaled(scale: int) -> AggregateForm:
    form = aggregate("Sum(m)", "bigint")
    return form.model_copy(update={"of": (f"unscaledvalue(m) of scale {scale}",)})
