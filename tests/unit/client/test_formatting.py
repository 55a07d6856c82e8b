"""Numbers as people read them, and how wide the tables of the command line are."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from streamjob.client import formatting
from streamjob.client.console import console_for


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_234_567, "1.2 MB"),
        (9_949_999, "9.9 MB"),
        (9_960_000, "10 MB"),
        (999_499_999, "999 MB"),
        (999_500_000, "1.0 GB"),
        (12 * 10**18, "12000 PB"),
    ],
)
def test_sizes_have_three_digits_at_most(number: int, text: str) -> None:
    assert formatting.size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 ms"),
        (0, "0 ms"),
        (0.42, "420 ms"),
        (0.9996, "1.0 s"),
        (9.9, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1m 00s"),
        (134, "2m 14s"),
        (3599.7, "1h 00m"),
        (10_920, "3h 02m"),
        (367_200, "4d 6h"),
        (432_000_000, "13.7 y"),
    ],
)
def test_durations_are_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-2, "just now"), (0.9, "just now"), (3.9, "3 s ago"), (134, "2m 14s ago")]
)
def test_how_long_ago_something_was(seconds: float, text: str) -> None:
    assert formatting.ago(seconds) == text


@pytest.mark.parametrize(
    ("watermark_ms", "text"),
    [
        (None, "–"),
        (0, "1970-01-01 00:00:00"),
        (-1000, "1969-12-31 23:59:59"),
        (-(2**62), "1-01-01 00:00:00"),
        (1_362_398_400_000, "2013-03-04 12:00:00"),
        (253_402_300_799_000, "end of input"),
        (2**63 - 1, "end of input"),
    ],
)
def test_event_time_is_shown_in_utc(watermark_ms: int | None, text: str) -> None:
    assert formatting.event_time(watermark_ms) == text


def test_a_lag_is_shown_only_where_there_is_a_watermark() -> None:
    assert formatting.lag(1500, 1_362_398_400_000) == "1.5 s"
    assert formatting.lag(1500, None) == "–"
    assert formatting.lag(None, 1_362_398_400_000) == "–"
    assert formatting.lag(-1500, 253_402_300_799_000) == "–"


def test_a_sparkline_rises_with_its_values() -> None:
    assert formatting.sparkline([0, 1, 2, 4, 8]) == "▁▂▃▅█"
    assert formatting.sparkline([0, 0]) == "▁▁"
    assert formatting.sparkline([]) == ""


@given(st.lists(st.floats(min_value=-1e12, max_value=1e12), max_size=40))
def test_a_sparkline_has_one_block_per_value(values: list[float]) -> None:
    assert len(formatting.sparkline(values)) == len(values)


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0 %"), (0.001, "1 %"), (0.5, "50 %"), (0.999, "100 %"), (1.25, "125 %")]
)
def test_a_share_is_shown_in_percent_and_something_is_never_nothing(share: float, text: str) -> None:
    assert formatting.percent(share) == text


@pytest.mark.parametrize(
    ("share", "bar"), [(0.0, "    "), (0.01, "━   "), (0.5, "━━  "), (1.0, "━━━━"), (1.7, "━━━━"), (-1.0, "    ")]
)
def test_a_bar_is_as_long_as_its_share_within_its_room(share: float, bar: str) -> None:
    assert formatting.bar(share, 4) == bar


def test_a_lag_of_a_day_and_more_tells_nothing() -> None:
    now_ms = 1_700_000_000_000

    assert formatting.lag(86_399_000, now_ms) == "23h 59m"
    assert formatting.lag(86_400_000, now_ms) == formatting.ABSENT


LONG = "x" * 300


def lines(file: io.TextIOBase) -> list[str]:
    table = Table("name", "value")
    table.add_row("uid", LONG)
    console_for(file).print(table)  # type: ignore[arg-type]
    file.seek(0)
    return file.read().splitlines()


def test_a_table_in_a_pipe_has_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    written = lines(io.StringIO())

    assert sum(LONG in each for each in written) == 1
    assert max(map(len, written)) < 330


def test_a_table_on_a_terminal_fits_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")

    assert max(map(len, lines(Terminal()))) <= 80
