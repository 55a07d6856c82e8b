"""Durations as people write them, and as they are written back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("10s", 10), ("1h30m", 5400), ("1h 30m", 5400), ("0.5d", 43200), ("0", 0), ("1.6ms", 0.002)],
)
def test_a_duration_is_numbers_with_units_to_the_millisecond(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "s", "10 seconds", "-1s", "1e3s", "365001d", "9" * 400 + "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|is longer than a thousand years"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=365_000 * 86_400_000))
def test_a_duration_is_written_back_exactly(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000
