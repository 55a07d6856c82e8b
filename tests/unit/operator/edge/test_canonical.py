"""JSON as the API server writes it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob_operator.cluster.canonical import canonical

INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SMALL = st.floats(-(2.0**53), 2.0**53)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def values(floats: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | INTEGERS | floats | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=6,
    )


# What Go 1.24 writes for the value that it reads.
WRITTEN_BY_GO: list[tuple[Any, str]] = [
    ({}, "{}"),
    ([], "[]"),
    ({"b": 1, "a": [True, None, "x"]}, '{"a":[true,null,"x"],"b":1}'),
    ({"b": {"d": {}, "c": []}}, '{"b":{"c":[],"d":{}}}'),
    ({"a": 1, "B": 2, "_": 3, "": 4}, '{"":4,"B":2,"_":3,"a":1}'),
    ({"\uffff": 1, "\U0001f600": 2}, '{"\uffff":1,"\U0001f600":2}'),
    ("a < b && c > d", '"a \\u003c b \\u0026\\u0026 c \\u003e d"'),
    ({"<": 1}, '{"\\u003c":1}'),
    ("\u2028\u2029", '"\\u2028\\u2029"'),
    ("\u2027\u202a\u0085\x7fäß€\U0001f600", '"\u2027\u202a\u0085\x7fäß€\U0001f600"'),
    ('"\\/', '"\\"\\\\/"'),
    ("\\u003c", '"\\\\u003c"'),
    ("\b\f\n\r\t\x00\x1f", '"\\b\\f\\n\\r\\t\\u0000\\u001f"'),
    (0, "0"),
    (-1, "-1"),
    (2**63 - 1, "9223372036854775807"),
    (-(2**63), "-9223372036854775808"),
    (2**63, "9223372036854776000"),
    (12345678901234567890, "12345678901234567000"),
    (10**21, "1e+21"),
    (0.0, "0"),
    (-0.0, "0"),
    (1.0, "1"),
    (-1.5, "-1.5"),
    (0.1, "0.1"),
    (100.0, "100"),
    (1e-5, "0.00001"),
    (1e-6, "0.000001"),
    (9.99e-7, "9.99e-7"),
    (1e-7, "1e-7"),
    (-1.5e-9, "-1.5e-9"),
    (1e-10, "1e-10"),
    (5e-324, "5e-324"),
    (1e16, "10000000000000000"),
    (1.5e20, "150000000000000000000"),
    (9.999999999999999e20, "999999999999999900000"),
    (1e21, "1e+21"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
]


@pytest.mark.parametrize(("value", "written"), WRITTEN_BY_GO)
def test_a_value_is_written_as_go_writes_it(value: Any, written: str) -> None:
    assert canonical(value) == written


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 10**400])
def test_a_number_that_json_cannot_hold_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="JSON has no number"):
        canonical({"a": [number]})


@given(values(SMALL))
def test_any_value_is_read_back(value: Any) -> None:
    assert json.loads(canonical(value)) == value


@given(values(FLOATS))
def test_what_was_read_back_is_written_in_the_same_bytes(value: Any) -> None:
    written = canonical(value)

    assert canonical(json.loads(written)) == written


@given(st.dictionaries(TEXTS, values(FLOATS), min_size=2, max_size=4), st.randoms())
def test_the_order_of_keys_does_not_matter(value: dict[str, Any], chance: Any) -> None:
    shuffled = list(value.items())
    chance.shuffle(shuffled)

    assert canonical(dict(shuffled)) == canonical(value)


@given(TEXTS)
def test_no_character_is_left_that_go_escapes(text: str) -> None:
    assert not set(canonical([text])) & set("<>&\u2028\u2029\n")
