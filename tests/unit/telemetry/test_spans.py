"""Tests of the identities of spans."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.telemetry.spans import SpanContext

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@given(st.lists(st.text(), min_size=1), st.lists(st.text(), min_size=1))
def test_different_things_have_different_spans(one: list[str], other: list[str]) -> None:
    assert (SpanContext.root(*one) == SpanContext.root(*other)) == (one == other)
    parent = SpanContext.root("parent")
    assert (parent.child(*one) == parent.child(*other)) == (one == other)


def test_a_span_is_the_same_in_every_process() -> None:
    assert SpanContext.root("uid", 3) == SpanContext.root("uid", 3)
    assert SpanContext.root("uid", 3).child("stop").trace_id == SpanContext.root("uid", 3).trace_id
    assert SpanContext.root("a", "bc") != SpanContext.root("ab", "c")


def test_spans_of_the_same_name_below_two_parents_differ() -> None:
    trace = SpanContext.root("trace")

    assert trace.child("a").child("upload") != trace.child("b").child("upload")


def test_a_traceparent_names_the_span_that_wrote_it() -> None:
    span = SpanContext.root("x")

    assert SpanContext.parse(span.traceparent) == span
    assert SpanContext.parse(PARENT) == SpanContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)
    assert SpanContext.parse(PARENT.replace("00-", "42-") + "-more") is not None


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "no trace",
        PARENT + "-more",
        PARENT.replace("00-", "ff-", 1),
        PARENT.replace("-01", "-00"),
        PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        PARENT.replace("00f067aa0ba902b7", "0" * 16),
        PARENT.upper(),
        "x" * 10_000,
    ],
)
def test_what_names_no_sampled_span_is_no_parent(text: str | None) -> None:
    assert SpanContext.parse(text) is None
