"""State in another form is refused where Spark's own schemas are the same; what changes no state is not."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.comparison.state_forms import differences, same
from streamjob.snapshot.state_form import AggregateForm, KeyForm, StateForm, WindowForm


def function(name: str, sql: str, *inputs: str, opaque: bool = True, **parameters: Any) -> AggregateForm:
    return AggregateForm(
        function=name, sql=sql, opaque=opaque, buffer=("binary",), inputs=inputs, parameters=parameters
    )


def aggregation(*aggregates: AggregateForm, keys: tuple[KeyForm, ...] = ()) -> StateForm:
    return StateForm(kind="aggregation", keys=keys, aggregates=aggregates, parameters={})


def windows(size: int, slide: int | None = None, start: int = 0) -> StateForm:
    form = WindowForm(size_us=size, slide_us=size if slide is None else slide, start_us=start)
    return aggregation(keys=(KeyForm(name="window", type="struct<…>", window=form),))


def key(*samples: str, of: str | None = "string") -> StateForm:
    return aggregation(keys=(KeyForm(name="k", type="string", of=of, samples=samples),))


def other(kind: str, **parameters: Any) -> StateForm:
    return StateForm(kind=kind, keys=(), aggregates=(), parameters=parameters)


LIST = function("CollectList", "collect_list(a)", "struct<value:bigint>")
HIGHEST_ROWS = function(
    "ExtremeRows", "highest_rows(price, named_struct('id', id))", "int", "struct<id:bigint>", lowest=False
)
"""The state of a job whose join was turned into an aggregation, by a rule that is gone."""
SUM_A = function("Sum", "sum(a)", opaque=False).model_copy(update={"of": ("a",)})
SUM_B = function("Sum", "sum(b)", opaque=False).model_copy(update={"of": ("b",)})


@pytest.mark.parametrize(
    ("former", "now", "words"),
    [
        (
            aggregation(LIST),
            aggregation(LIST.model_copy(update={"inputs": ("struct<at:timestamp,value:bigint>",)})),
            "has collected struct<value:bigint>, and its collect_list(a) collects struct<at:timestamp,value:bigint>",
        ),
        (
            aggregation(function("MaxMinByK", "max_by(a, b, 3)", "int", kExpr="3")),
            aggregation(function("MaxMinByK", "max_by(a, b, 4)", "int", kExpr="4")),
            "has collected int with kExpr 3",
        ),
        (
            aggregation(HIGHEST_ROWS),
            aggregation(function("Max", "max(price)", opaque=False)),
            "its highest_rows(price, named_struct('id', id)) has collected int, struct<id:bigint> with lowest False",
        ),
        (aggregation(HIGHEST_ROWS), other("join", type="INNER"), "of the kind aggregation, and the operator keeps"),
        (windows(10_000_000), windows(20_000_000), "its windows were 10 s long, and are 20 s long"),
        (windows(10, 5), windows(10, 2), "every 0.000005 s"),
        (windows(10), windows(10, start=1), "from 0.000001 s on"),
        (key("a", "B"), key("a", "b"), "where it was 'B', it is 'b'"),
        (key("A"), key("1", of="int"), "of a column of type string, and is of one of type int"),
        (aggregation(SUM_A, SUM_B), aggregation(SUM_B, SUM_A), "its sum(a) is now sum(b)"),
        (aggregation(SUM_A), aggregation(SUM_B), "its sum(a) is now sum(b)"),
        (aggregation(SUM_A), aggregation(function("Max", "max(a)", opaque=False)), "its sum(a) is now max(a)"),
        (aggregation(SUM_A, SUM_B), aggregation(SUM_A), "it has lost its sum(b)"),
        (aggregation(SUM_A), aggregation(SUM_A, SUM_B), "it has no state for its sum(b)"),
        (other("join", type="INNER"), other("join", type="LEFT OUTER"), "join of the kind INNER"),
        (
            other("transformWithState", validForUs=60_000_000),
            other("transformWithState", validForUs=90_000_000),
            "versions were valid for 60 s, and are to be valid for 90 s",
        ),
        (
            other("transformWithState", validForUs=60_000_000),
            other("transformWithState"),
            "are to be valid until the next one of their key",
        ),
        (
            other("transformWithState", on="currency = code"),
            other("transformWithState", on="region = code"),
            "its key was currency = code, and is region = code",
        ),
        (other("join", leftKeepsMs=5), other("join", leftKeepsMs=6), "rows dropped since would be missing"),
        (other("join", rightKeepsMs=5), other("join", rightKeepsMs=None), "to be kept for good"),
        (
            other("deduplicationWithinWatermark", delayMs=5),
            other("deduplicationWithinWatermark", delayMs=6),
            "duplicates of those that end earlier would pass",
        ),
        (other("groupState", timeout="NoTimeout"), other("groupState", timeout="EventTimeTimeout"), "its timeout was"),
        (aggregation(), other("sessions"), "of the kind aggregation"),
    ],
)
def test_state_of_another_form_does_not_fit(former: StateForm, now: StateForm, words: str) -> None:
    assert words in "".join(differences(former, now))
    assert not same((former,), (now,))


@pytest.mark.parametrize(
    ("former", "now"),
    [
        (
            aggregation(function("Percentile", "percentile(a, 0.5)", "int", percentageExpression="0.5")),
            aggregation(function("Percentile", "percentile(a, 0.9)", "int", percentageExpression="0.9")),
        ),
        (windows(10), key("a")),
        (key("A"), key()),
        (other("join", leftKeepsMs=None), other("join", leftKeepsMs=6)),
        (other("join", leftKeepsMs=6), other("join", leftKeepsMs=5)),
        (other("deduplicationWithinWatermark", delayMs=6), other("deduplicationWithinWatermark", delayMs=5)),
        (other("transformWithState", validForUs=6), other("transformWithState", validForUs=5)),
        (other("transformWithState"), other("transformWithState", validForUs=5)),
        (other("transformWithState"), other("transformWithState", on="currency = code")),
    ],
)
def test_state_fits_where_a_change_concerns_only_what_comes_or_cannot_be_compared(
    former: StateForm, now: StateForm
) -> None:
    assert differences(former, now) == ()


def test_other_names_of_operators_are_no_other_form() -> None:
    assert same((aggregation(SUM_A),), (aggregation(SUM_A.model_copy(update={"sql": "sum(clean.a)"})),))


def test_what_a_python_function_keeps_is_left_to_spark_while_its_form_is_the_same() -> None:
    assert same((other("transformWithState"),), (other("transformWithState"),))
